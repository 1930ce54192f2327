//! Settings that a client may not give itself: another workspace, fewer questions, calls to private addresses.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::server::{Served, URI, asks, prompt, serve, shared, works_in, write};
use crate::agent::Setup;

fn writes() -> Setup {
    Setup::answers(json!([[write("made.txt", "x\n")], [{ "text": "done" }]]))
}

/// Starts a server for the directory `root`, and further directories.
async fn rooted(more: &[&str]) -> Served {
    let mut setup = writes()
        .file("root/inner/", "")
        .file("beside/secret.txt", "x")
        .file("root-and-more/", "")
        .arg("--workspace-root")
        .arg("root");
    setup.args.extend(more.iter().map(|arg| (*arg).to_owned()));
    let it = serve(&setup).await;
    let workspace = it.home.path().join("workspace");
    symlink(workspace.join("beside"), workspace.join("root/out")).unwrap();
    symlink(workspace.join("root/inner"), workspace.join("root/in")).unwrap();
    it
}

#[tokio::test]
async fn a_workspace_outside_of_the_root_is_refused_however_it_is_written() {
    let it = rooted(&[]).await;
    let workspace = it.home.path().join("workspace");
    for path in [
        workspace.join("beside"),
        workspace.join("root/../beside"),
        workspace.join("root/inner/../../beside"),
        workspace.join("root/out"),
        workspace.join("root-and-more"),
        workspace.join("root/none"),
        workspace.clone(),
        "/".into(),
        "/etc".into(),
        "..".into(),
        "../beside".into(),
        "\0".into(),
    ] {
        for method in ["message/send", "SendMessage"] {
            let (code, why) = it.client.error(method, works_in(&path, prompt("go"))).await;
            assert_eq!(code, -32602, "{}: {why}", path.display());
        }
        let begin = json!({ "agentSettings": { "kind": "agent-settings", "workspacePath": path } });
        assert_eq!(it.client.post("/tasks", &begin).await.status, 400, "{}", path.display());
        let bare = json!({ "userMessage": "go", "agentSettings": { "workspacePath": path } });
        let said = it.client.post("/message/stream", &bare).await;
        assert_eq!(said.frames()[0]["error"]["code"], -32602, "{}", said.text());
    }
    assert_eq!(it.client.get("/tasks/metadata").await.status, 204, "a session has begun");
}

#[tokio::test]
async fn a_workspace_within_the_root_is_worked_in() {
    let it = rooted(&["-y"]).await;
    let root = it.home.path().join("workspace/root");
    for (path, file) in [
        (root.clone(), "made.txt"),
        (root.join("in"), "inner/made.txt"),
        (root.join("inner/../inner"), "inner/made.txt"),
    ] {
        it.client.result("message/send", works_in(&path, prompt("go"))).await;
        assert!(root.join(file).exists(), "{}", path.display());
        fs::remove_file(root.join(file)).unwrap();
    }
    // A session whose message names no directory works in the root.
    it.client.result("message/send", prompt("go")).await;
    assert!(root.join("made.txt").exists());
}

#[tokio::test]
async fn in_a_shared_session_the_workspace_is_the_editors() {
    let it = shared(&writes().file("sub/", "").arg("-y")).await;
    let workspace = it.editor.workspace();
    for path in [workspace.clone(), workspace.join("sub")] {
        it.client.result("message/send", works_in(&path, prompt("go"))).await;
    }
    for path in [workspace.join(".."), "/".into(), workspace.join("sub/../../x")] {
        let (code, why) = it.client.error("message/send", works_in(&path, prompt("go"))).await;
        assert_eq!(code, -32602, "{}: {why}", path.display());
    }
}

/// Sends a prompt with these settings; returns the state of its task.
async fn state(it: &Served, settings: Value) -> Value {
    let mut sent = prompt("go");
    sent["message"]["metadata"] = settings;
    // If the file exists, the call changes nothing, and no question is asked.
    let _ = fs::remove_file(it.home.path().join("workspace/root/made.txt"));
    it.client.result("message/send", sent).await["status"]["state"].clone()
}

#[tokio::test]
async fn whoever_started_the_server_decides_whether_nothing_is_asked() {
    let settings = [
        json!({ "kind": "agent-settings", "autoExecute": true }),
        json!({ URI: { "auto_execute": true } }),
        json!({ "coderAgent": { "kind": "agent-settings", "autoExecute": true } }),
    ];
    for (args, expected) in [(&[][..], "input-required"), (&["--allow-auto-execute"], "completed")]
    {
        let it = rooted(args).await;
        for settings in &settings {
            assert_eq!(state(&it, settings.clone()).await, expected, "{args:?} {settings}");
        }
        assert_eq!(state(&it, json!({ "autoExecute": "true" })).await, "input-required");
        assert_eq!(state(&it, json!({})).await, "input-required");
    }
}

#[tokio::test]
async fn a_client_whose_auto_execute_does_not_count_is_told() {
    for (args, auto, told) in
        [(&[][..], true, Some(false)), (&[], false, None), (&["--allow-auto-execute"], true, None)]
    {
        let it = rooted(args).await;
        for (method, wrapper) in [("message/send", ""), ("SendMessage", "task")] {
            let mut sent = prompt("go");
            sent["message"]["metadata"] = json!({ "coderAgent": { "autoExecute": auto } });
            let first = it.client.result(method, sent).await;
            let task = first.get(wrapper).unwrap_or(&first);
            let expected = told.map_or(Value::Null, Value::Bool);
            assert_eq!(task["metadata"]["autoExecute"], expected, "{args:?} {auto}: {task}");
        }
    }
}

#[tokio::test]
async fn the_settings_that_count_are_told_after_the_task_works() {
    for (args, auto) in [(&["--allow-auto-execute"][..], true), (&[], false)] {
        let it = rooted(args).await;
        let mut sent = prompt("go");
        sent["message"]["metadata"] = json!({ "coderAgent": { "autoExecute": true } });
        let events = it.client.stream("message/stream", sent).await.rest().await;
        let at = |kind: &str| {
            let is_it = |event: &Value| event["metadata"]["coderAgent"]["kind"] == kind;
            events.iter().position(is_it).unwrap_or_else(|| panic!("no {kind}: {events:?}"))
        };
        assert_eq!(at("agent-settings"), at("state-change") + 1);
        let event = &events[at("agent-settings")];
        assert_eq!(event["metadata"][URI]["kind"], "AGENT_SETTINGS");
        let settings = &event["status"]["message"]["parts"][0]["data"];
        let root = it.home.path().join("workspace/root").canonicalize().unwrap();
        let expected = json!({ "kind": "agent-settings", "workspacePath": root,
            "workspace_path": root, "autoExecute": auto, "auto_execute": auto });
        assert_eq!(*settings, expected);
        let told =
            events.iter().filter(|it| it["metadata"]["coderAgent"]["kind"] == "agent-settings");
        assert_eq!(told.count(), 1);
    }
}

#[tokio::test]
async fn the_extension_may_be_named_in_every_form_of_its_version() {
    let it = rooted(&[]).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": "x" } });
    let path = it.home.path().join("workspace/beside");
    for (version, is_ours) in [
        ("v0", true),
        ("v0.0", true),
        ("v0.0.0", true),
        ("v0.0.7", true),
        ("v0.1", false),
        ("v1", false),
        ("v0.0.x", false),
    ] {
        let uri = URI.replace("/v0/", &format!("/{version}/"));
        for name in ["X-A2A-Extensions", "A2A-Extensions"] {
            let header = format!("{name}: https://example.com/other, {uri}");
            let response = it.client.send("POST /", &[&header], body.to_string().as_bytes()).await;
            let active = response.header(&name.to_lowercase()).to_owned();
            assert_eq!(active, if is_ours { uri.as_str() } else { "" }, "{version}");
        }
        let mut sent = prompt("go");
        sent["message"]["metadata"] = json!({ uri: { "workspace_path": path } });
        let is_read = it.client.call("message/send", sent).await["error"].is_object();
        assert_eq!(is_read, is_ours, "{version}");
    }
}

#[tokio::test]
async fn trust_is_nothing_that_a_client_can_claim() {
    for args in [&[][..], &["--allow-auto-execute"]] {
        let it = rooted(args).await;
        for settings in [
            json!({ "isTrusted": true }),
            json!({ URI: { "isTrusted": true, "is_trusted": true, "approvalMode": "yolo" } }),
            json!({ "coderAgent": { "kind": "agent-settings", "isTrusted": true, "yolo": true } }),
        ] {
            assert_eq!(state(&it, settings.clone()).await, "input-required", "{settings}");
        }
    }
}

#[tokio::test]
async fn a_shared_session_goes_on_asking_whatever_a_client_wants() {
    let it = shared(&writes()).await;
    let mut sent = prompt("go");
    sent["message"]["metadata"] = json!({ "kind": "agent-settings", "autoExecute": true });
    let mut stream = it.client.stream("message/stream", sent).await;
    stream.until(asks).await;
}

#[tokio::test]
async fn settings_of_a_session_that_is_there_change_nothing() {
    let it = rooted(&["--allow-auto-execute"]).await;
    let task = it.client.post("/tasks", &json!({})).await.json();
    let mut sent = prompt("go");
    sent["message"]["contextId"] = task.clone();
    sent["message"]["metadata"] = json!({ "autoExecute": true });
    let found = it.client.result("message/send", sent).await;
    assert_eq!((&found["id"], &found["status"]["state"]), (&task, &json!("input-required")));
}

#[tokio::test]
async fn webhooks_to_places_inside_are_refused() {
    for loopback in [false, true] {
        let setup = Setup::answers(json!([[{ "text": "hi" }]]));
        let more = if loopback { setup.arg("--a2a-webhook-loopback") } else { setup };
        let it = serve(&more).await;
        let task = it.client.result("message/send", prompt("hi")).await["id"].clone();
        let mut wrong = vec![
            "http://169.254.169.254/latest/meta-data/",
            "http://[::ffff:169.254.169.254]/",
            "http://0xa9fea9fe/",
            "http://10.0.0.1/",
            "http://192.168.1.1/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://[::]/",
            "file:///etc/passwd",
            "ftp://93.184.216.34/",
            "gopher://93.184.216.34/",
            "http://user:password@93.184.216.34/",
            "javascript:alert(1)",
            "//93.184.216.34/",
            "",
            "none",
        ];
        if !loopback {
            wrong.extend([
                "http://127.0.0.1:9/",
                "http://[::ffff:127.0.0.1]/",
                "http://2130706433/",
                "http://0x7f.1/",
                "http://[::1]/",
                "http://localhost/",
                "http://0.0.0.0/",
            ]);
        }
        for url in wrong {
            refused(&it, &task, url).await;
        }
        let right =
            json!({ "taskId": task, "pushNotificationConfig": { "url": "http://127.0.0.1:9/" } });
        let response = it.client.call("tasks/pushNotificationConfig/set", right).await;
        assert_eq!(response.get("result").is_some(), loopback, "{response}");
    }
}

/// Checks that the address is refused in every call that can name it, and that no turn begins.
async fn refused(it: &Served, task: &Value, url: &str) {
    let nested = json!({ "taskId": task, "pushNotificationConfig": { "url": url } });
    let found = it.client.error("tasks/pushNotificationConfig/set", nested).await;
    assert_eq!(found.0, -32602, "{url}: {}", found.1);
    let flat = json!({ "taskId": task, "id": "x", "url": url });
    let found = it.client.error("CreateTaskPushNotificationConfig", flat).await;
    assert_eq!(found.0, -32602, "{url}: {}", found.1);
    let mut sent = prompt("hi");
    sent["configuration"] = json!({ "pushNotificationConfig": { "url": url } });
    let before = it.client.get("/tasks/metadata").await.json().as_array().unwrap().len();
    let found = it.client.error("message/send", sent).await;
    assert_eq!(found.0, -32602, "{url}: {}", found.1);
    let after = it.client.get("/tasks/metadata").await.json().as_array().unwrap().len();
    assert_eq!(before, after, "{url}: a session has begun");
}

#[tokio::test]
async fn a_webhooks_header_cannot_smuggle_another() {
    let it =
        serve(&Setup::answers(json!([[{ "text": "hi" }]])).arg("--a2a-webhook-loopback")).await;
    let task = it.client.result("message/send", prompt("hi")).await["id"].clone();
    for config in [
        json!({ "url": "http://127.0.0.1:9/", "token": "a\r\nX-Other: b" }),
        json!({ "url": "http://127.0.0.1:9/", "authentication": {
            "schemes": ["Bearer"], "credentials": "a\nHost: b" } }),
    ] {
        let set = json!({ "taskId": task, "pushNotificationConfig": config });
        let (code, why) = it.client.error("tasks/pushNotificationConfig/set", set).await;
        assert_eq!(code, -32602, "{why}");
    }
}

#[tokio::test]
async fn what_commands_are_not_given_is_said_by_the_folder_of_their_session() {
    let hides = |name: &str| {
        let redaction = json!({ "environmentVariableRedaction": { "blocked": [name] } });
        json!({ "security": redaction }).to_string()
    };
    let run = json!({ "call": {
        "name": "run_shell_command", "args": { "command": "env > seen.txt" },
    } });
    let setup = Setup::answers(json!([[run], [{ "text": "done" }]]))
        .var("FIRST", "1")
        .var("SECOND", "2")
        .file(".gemini/settings.json", &hides("FIRST"))
        .file("other/.gemini/settings.json", &hides("SECOND"))
        .file("plain/", "")
        .arg("--allow-auto-execute");
    let it = serve(&setup).await;
    let workspace = it.home.path().join("workspace");
    for (folder, expected) in
        [("", [false, true]), ("other", [true, false]), ("plain", [true, true])]
    {
        let mut sent = works_in(&workspace.join(folder), prompt("go"));
        sent["message"]["metadata"][URI]["auto_execute"] = json!(true);
        it.client.result("message/send", sent).await;
        let seen = fs::read_to_string(workspace.join(folder).join("seen.txt")).unwrap();
        let seen = ["FIRST=1", "SECOND=2"].map(|line| seen.lines().any(|it| it == line));
        assert_eq!(seen, expected, "{folder}");
    }
}
