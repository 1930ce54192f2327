//! `/share`: the rights of other people in a session.

use serde_json::{Value, json};
use tandem_serve::tokens::PrincipalRole;
use test_fakes::postgres::Cluster;

use super::super::server::{answer, ends, prompt, serve, within};
use super::{Office, Person, asking, hello, in_context};
use crate::agent::Setup;

/// Error code of a call that the role does not allow.
const NOT_ALLOWED: i64 = -32004;
const NOT_FOUND: i64 = -32001;

/// Says something in alice's session `a`, which may be new.
async fn say(alice: &Person, text: &str) -> String {
    let sent = alice.result("message/send", in_context("a", prompt(text))).await;
    sent["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Checks whether a person may read, answer, prompt and own the session: the expected code of each.
async fn check(person: &Person, expected: [i64; 4]) {
    let push =
        json!({ "taskId": "a", "pushNotificationConfig": { "url": "https://example.org/" } });
    let calls = [
        ("tasks/get", json!({ "id": "a" })),
        ("message/send", within(&json!("a"), answer(&json!("none"), "proceed_once"))),
        ("tasks/cancel", json!({ "id": "a" })),
        ("tasks/pushNotificationConfig/set", push),
    ];
    for ((method, params), expected) in calls.into_iter().zip(expected) {
        let (code, message) = person.error(method, params).await;
        assert_eq!(code, expected, "{method}: {message}");
    }
}

#[tokio::test]
async fn a_role_says_what_may_be_done() {
    let call = json!({ "name": "run_shell_command", "args": { "command": "touch a" } });
    let answers = json!([[{ "call": call }], [{ "text": "done" }]]);
    let it = Office::open(Setup::answers(answers).without_sandbox()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let others = [it.member("carol"), it.add("other", "bob", PrincipalRole::Member)];
    let said = say(&alice, "/share bob watch").await;
    assert!(said.contains("`bob` of the tenant `acme` may watch."), "{said}");
    say(&alice, "go").await;
    check(&bob, [0, NOT_ALLOWED, NOT_ALLOWED, NOT_ALLOWED]).await;
    assert_eq!(bob.result("ListTasks", json!({})).await["totalSize"], 2);
    let (code, why) = bob.error("message/send", within(&json!("a"), prompt("hi"))).await;
    assert_eq!((code, why.contains("needs the role drive")), (NOT_ALLOWED, true), "{why}");
    say(&alice, "/share bob answer").await;
    say(&alice, "go").await;
    let asked = bob.result("tasks/get", json!({ "id": "a" })).await;
    let call = &asked["status"]["message"]["parts"][1]["data"]["tool_call_id"];
    let done = within(&json!("a"), answer(call, "proceed_once"));
    let done = bob.result("message/send", done).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    // The answer names a call without a question, so it is refused as wrong, and not as forbidden.
    check(&bob, [0, -32602, NOT_ALLOWED, NOT_ALLOWED]).await;
    say(&alice, "/share bob drive").await;
    let driven = bob.result("message/send", in_context("a", prompt("go"))).await;
    assert_eq!(driven["status"]["state"], "input-required", "{driven}");
    check(&bob, [0, -32602, 0, NOT_ALLOWED]).await;
    let said = bob.say("a", "/share carol drive").await;
    assert_eq!(said, "Only `alice`, the owner of the session, can share it.");
    say(&alice, "/unshare bob").await;
    check(&bob, [NOT_FOUND; 4]).await;
    for other in &others {
        check(other, [NOT_FOUND; 4]).await;
    }
}

#[tokio::test]
async fn a_shared_session_hides_no_own_one_of_the_same_name_that_is_not_loaded() {
    let it = Office::open(hello().arg("--limit").arg("principal-sessions=1")).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.result("message/send", in_context("work", prompt("alice's"))).await;
    // This session takes the only place that the limit leaves.
    alice.begin("other").await;
    bob.result("message/send", in_context("work", prompt("bob's"))).await;
    bob.result("message/send", in_context("work", prompt("/share alice drive"))).await;
    let sent = alice.result("message/send", in_context("work", prompt("more"))).await;
    assert_eq!(sent["history"][0]["parts"][0]["text"], "alice's", "{sent}");
    // Alice has no session of her own with this name, so the name leads to Bob's session, which is shared with her.
    bob.result("message/send", in_context("bobs", prompt("bob's"))).await;
    bob.result("message/send", in_context("bobs", prompt("/share alice drive"))).await;
    let task = alice.result("tasks/get", json!({ "id": "bobs" })).await;
    assert_eq!(task["history"][0]["parts"][0]["text"], "bob's", "{task}");
}

#[tokio::test]
async fn a_prompt_that_is_refused_leaves_the_session_as_it_was() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    say(&alice, "/share bob drive").await;
    let mut sent = in_context("a", prompt("go"));
    sent["message"]["metadata"] = json!({ "coderAgent": {
        "kind": "agent-settings", "mcpServers": { "bobs": { "url": "http://127.0.0.1:1/" } },
    } });
    let mut notified = sent.clone();
    notified["configuration"] =
        json!({ "pushNotificationConfig": { "url": "https://example.org/" } });
    let (code, why) = bob.error("message/send", notified).await;
    assert_eq!((code, why.contains("only its owner can do this")), (NOT_ALLOWED, true), "{why}");
    let servers =
        async || alice.get("/tasks/a/metadata").await.json()["metadata"]["mcpServers"].clone();
    assert_eq!(servers().await, json!([]));
    bob.result("message/send", sent).await;
    assert_eq!(servers().await[0]["name"], "bobs");
}

/// Returns the text of a task's result.
fn said(task: &Value) -> &str {
    task["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("{task}"))
}

/// Answers the question of Alice's session `a` as this person.
async fn allow(person: &Person, asked: &Value) {
    let call = &asked["status"]["message"]["parts"][1]["data"]["tool_call_id"];
    let done = within(&json!("a"), answer(call, "proceed_once"));
    let done = person.result("message/send", done).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
}

#[tokio::test]
async fn somebody_is_invited_to_a_question_that_is_open() {
    // The limit is one turn, and Alice's turn is running. Sharing must be possible nevertheless.
    let it = Office::open(asking().arg("--limit").arg("principal-turns=1")).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let asked = alice.begin("a").await;
    assert_eq!(asked["status"]["state"], "input-required", "{asked}");
    let mut watching = alice.stream("tasks/resubscribe", json!({ "id": "a" })).await;
    let first = alice.result("message/send", in_context("a", prompt("/share bob answer"))).await;
    assert_eq!(first["status"]["state"], "completed", "{first}");
    assert!(said(&first).contains("`bob` of the tenant `acme` may watch, and answer"), "{first}");
    let asked = bob.result("tasks/get", json!({ "id": "a" })).await;
    assert_eq!(asked["status"]["state"], "input-required", "{asked}");
    // Each kind of call can share and unshare. After the last one, Bob may answer.
    let listed = json!({ "command_path": ["share"], "contextId": "a" });
    let listed = alice.result("command/execute", listed).await;
    let task = alice.result("tasks/get", json!({ "id": listed["execution_id"] })).await;
    assert_eq!(said(&task), "The session of `alice` is shared with `bob` (answer).");
    let body = json!({ "command": "unshare", "args": ["bob"], "taskId": "a" });
    let taken = alice.post("/executeCommand", &body).await.json();
    assert_eq!(taken["data"], "The session is not shared with `bob` any more.", "{taken}");
    check(&bob, [NOT_FOUND; 4]).await;
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "contextId": "a",
        "parts": [{ "text": "/share bob answer" }] });
    let shared = alice.result("SendMessage", json!({ "message": message })).await;
    assert_eq!(shared["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{shared}");
    allow(&bob, &asked).await;
    // Alice's stream shows the end of its own turn, and nothing of the turns of the commands.
    let seen = watching.rest().await;
    assert!(!json!(seen).to_string().contains("may watch, and answer"), "{seen:?}");
    assert!(ends(seen.last().unwrap()), "{seen:?}");
    let task = alice.result("tasks/get", json!({ "id": "a" })).await;
    let history = task["history"].as_array().unwrap().iter();
    let history: Vec<_> = history.map(|it| it["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!((history[0], history[1], history[2]), ("go", "done", "/share bob answer"));
    assert_eq!(history[3], said(&first));
}

#[tokio::test]
async fn a_terminal_shares_a_session_while_a_question_is_open_and_takes_that_back() {
    let it = Office::open(asking()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    let mut terminal = alice.socket("/attach").await.unwrap();
    let open = json!({ "version": 3, "terminal": "t", "session": { "id": "a" } });
    terminal.call(1, "attach/open", open).await;
    terminal.call(2, "attach/events", json!({ "from": 0, "bytes": 1_000_000 })).await;
    for (number, text, expected) in [
        (1, "/share bob answer", [0, -32602, NOT_ALLOWED, NOT_ALLOWED]),
        (2, "/unshare bob", [NOT_FOUND; 4]),
    ] {
        let parts = json!([{ "Text": text }]);
        let sent = json!({ "number": number, "parts": parts });
        terminal.call(2 + number, "attach/prompt", sent).await;
        check(&bob, expected).await;
    }
    let task = alice.result("tasks/get", json!({ "id": "a" })).await;
    assert_eq!(task["status"]["state"], "input-required", "{task}");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn somebody_is_invited_at_another_node_than_the_one_that_asks() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let setup = asking().arg("--store").arg(&database.url);
    let it = Office::open(setup.clone()).await;
    let workspace = it.server.home.path().join("workspace");
    let root = setup.arg("--workspace-root").arg(workspace.to_str().unwrap());
    let second = it.another(&root).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let begun = alice.begin("a").await;
    let elsewhere = alice.at(second.client.port);
    let shared =
        elsewhere.result("message/send", in_context("a", prompt("/share bob answer"))).await;
    assert!(said(&shared).contains("`bob` of the tenant `acme` may watch, and answer"), "{shared}");
    allow(&bob.at(second.client.port), &begun).await;
}

#[tokio::test]
async fn nothing_more_is_told_to_whom_it_is_shared_no_longer() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    say(&alice, "/share bob drive").await;
    let mut socket = bob.socket("/ws").await.unwrap();
    socket.call(1, "message/send", in_context("a", prompt("first-word"))).await;
    let mut terminal = bob.socket("/attach").await.unwrap();
    let open = json!({ "version": 3, "terminal": "t", "session": { "id": "a" } });
    terminal.call(1, "attach/open", open).await;
    say(&alice, "/unshare bob").await;
    say(&alice, "second-word").await;
    socket.send(2, "tasks/get", json!({ "id": "a" })).await;
    let frames = socket.until(|frame| frame["id"] == 2).await;
    let told = json!(frames).to_string();
    assert!(!told.contains("second-word") && told.contains("Task not found"), "{told}");
    for method in ["attach/events", "attach/files", "attach/prompt", "attach/cancel"] {
        let params = json!({ "from": 0, "bytes": 1_000_000, "most": 1, "number": 1, "parts": [],
            "turn": 1 });
        let refused = terminal.call(method, method, params).await;
        assert!(refused["error"].is_object(), "{method}: {refused}");
        assert!(!refused.to_string().contains("second-word"));
    }
}

#[tokio::test]
async fn only_the_operator_types_commands_that_run_as_the_user_of_the_server() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    say(&alice, "/share bob drive").await;
    let types = async |person: Person| {
        let mut terminal = person.socket("/attach").await.unwrap();
        let open = json!({ "version": 3, "terminal": "t", "session": { "id": "a" } });
        terminal.call(1, "attach/open", open).await;
        let shell = json!({ "number": 1, "parts": [{ "Shell": "touch made" }] });
        terminal.call(2, "attach/prompt", shell).await
    };
    for member in [alice, bob] {
        let refused = types(member).await;
        let why = refused["error"]["data"]["details"].as_str().unwrap_or_default();
        assert!(why.contains("only for the operator"), "{refused}");
    }
    assert!(!it.server.home.path().join("workspace/made").exists());
}

#[tokio::test]
async fn a_shared_session_that_is_not_loaded_is_found_in_the_list() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    say(&alice, "/share bob watch").await;
    say(&alice, "hi").await;
    let setup = hello().arg("--tokens").arg(it.file().to_str().unwrap());
    let server = it.server.killed(&setup).await;
    let bob = Person { port: server.client.port, ..bob };
    let listed = bob.result("tasks/list", json!({})).await;
    let id = &listed["tasks"][0]["contextId"];
    let found = bob.result("tasks/get", json!({ "id": id })).await;
    assert_eq!(found["history"].as_array().unwrap().len(), 4, "{found}");
    // Reading the task has loaded the session. A loaded session goes by the name in its events.
    check(&bob, [0, NOT_ALLOWED, NOT_ALLOWED, NOT_ALLOWED]).await;
}

#[tokio::test]
async fn what_cannot_be_shared_says_why() {
    let it = Office::open(hello()).await;
    let alice = it.member("alice");
    let said = |text: &'static str| say(&alice, text);
    assert_eq!(said("/share").await, "The session of `alice` is shared with nobody.");
    assert_eq!(said("/share alice").await, "Not shared: `alice` owns the session.");
    assert_eq!(
        said("/share bob own").await,
        "Not shared: `own` is not a role; the roles are watch, answer and drive."
    );
    assert_eq!(said("/unshare bob").await, "The session is not shared with `bob`.");
    said("/share bob").await;
    said("/share carol drive").await;
    let shared = "The session of `alice` is shared with `bob` (watch), `carol` (drive).";
    assert_eq!(said("/share").await, shared);
    let open = serve(&hello()).await;
    let sent = open.client.result("message/send", prompt("/share bob")).await;
    let why = sent["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(why.starts_with("This session cannot be shared"), "{why}");
}

#[tokio::test]
async fn a_stream_that_ends_because_the_session_is_not_shared_any_more_says_so() {
    let it = Office::open(asking()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    let share = async |command: &str, args: &[&str]| {
        let body = json!({ "command": command, "args": args, "taskId": "a" });
        alice.post("/executeCommand", &body).await;
    };
    for (method, task) in [("tasks/resubscribe", "a"), ("SubscribeToTask", "a.1")] {
        share("share", &["bob", "watch"]).await;
        let mut stream = bob.stream(method, json!({ "id": task })).await;
        stream.event().await.unwrap();
        let mut socket = bob.socket("/ws").await.unwrap();
        socket.send(7, method, json!({ "id": task })).await;
        socket.until(|frame| frame["id"] == 7).await;
        share("unshare", &["bob"]).await;
        let (mut last, mut name) = (Value::Null, String::new());
        while let Some(event) = stream.event().await {
            (name, last) = event;
        }
        assert_eq!(name == "error", method == "tasks/resubscribe", "{name}: {last}");
        assert_eq!(last["error"]["code"], NOT_FOUND, "{last}");
        assert!(
            last["error"]["message"].to_string().contains("not shared with you any more"),
            "{last}"
        );
        let frames = socket.until(|frame| frame["streamEnd"] == true).await;
        let error = frames.iter().find(|frame| frame["error"].is_object()).expect("no reason");
        assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(NOT_FOUND)));
    }
}
