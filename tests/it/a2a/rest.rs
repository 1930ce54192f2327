//! The card, and the endpoints of the first server of this kind.

use serde_json::{Value, json};

use super::server::{Served, URI, prompt, serve, shared, states, text, within};
use crate::agent::Setup;

async fn server() -> Served {
    serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await
}

const CARD: &str = "/.well-known/agent-card.json";

#[tokio::test]
async fn the_card_can_be_read_by_clients_of_both_versions() {
    let it = server().await;
    let url = format!("http://127.0.0.1:{}/", it.client.port);
    for path in [CARD, "//.well-known/agent-card.json", "/.well-known//agent-card.json"] {
        let response = it.client.get(path).await;
        assert_eq!((response.status, response.header("vary")), (200, "A2A-Version"));
        assert_eq!(response.header("content-type"), "application/json");
        assert!(!response.header("last-modified").is_empty());
        let card = response.json();
        assert_eq!((&card["url"], &card["preferredTransport"]), (&json!(url), &json!("JSONRPC")));
        assert!(card["protocolVersion"].as_str().unwrap().starts_with("0.3"));
        let interfaces = card["supportedInterfaces"].as_array().unwrap();
        let versions: Vec<_> = interfaces.iter().map(|it| &it["protocolVersion"]).collect();
        assert_eq!(versions, ["1.0", "1.0", "0.3"]);
        assert_eq!(card["capabilities"]["streaming"], true);
        assert_eq!(card["capabilities"]["extensions"][0]["uri"], URI);
        let more = card["additionalInterfaces"].as_array().cloned().unwrap_or_default();
        assert!(more.iter().all(|it| it["transport"].is_string()));
        assert!(card.get("securitySchemes").is_none());
    }
}

#[tokio::test]
async fn a_strict_card_has_nothing_of_0_3() {
    let it = server().await;
    let line = format!("GET {CARD}");
    for (line, headers) in
        [(line.as_str(), &["A2A-Version: 1.0"][..]), ("GET /v1/.well-known/agent-card.json", &[])]
    {
        let card = it.client.send(line, headers, b"").await.json();
        for field in ["url", "preferredTransport", "protocolVersion", "additionalInterfaces"] {
            assert!(card.get(field).is_none(), "{field}");
        }
        let interfaces = card["supportedInterfaces"].as_array().unwrap().iter();
        let bindings: Vec<_> = interfaces.map(|it| &it["protocolBinding"]).collect();
        assert_eq!(bindings, ["JSONRPC", "HTTP+JSON"]);
    }
}

#[tokio::test]
async fn a_card_that_is_known_is_not_sent_again() {
    let it = server().await;
    let first = it.client.get(CARD).await;
    let tag = first.header("etag").to_owned();
    let line = format!("GET {CARD}");
    for known in [tag.clone(), "*".to_owned(), format!("\"x\", {tag}"), format!("W/{tag}")] {
        let again = it.client.send(&line, &[&format!("If-None-Match: {known}")], b"").await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{known}");
        assert_eq!(again.header("etag"), tag);
    }
    let other = it.client.send(&line, &["If-None-Match: \"x\""], b"").await;
    assert_eq!(other.status, 200);
    let strict = it.client.send(&line, &["A2A-Version: 1.0"], b"").await;
    assert_ne!(strict.header("etag"), tag);
    let head = it.client.send(&format!("HEAD {CARD}"), &[], b"").await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_the_right_ones() {
    let it = server().await;
    for (line, allowed) in [
        ("GET /", "POST"),
        ("GET /message/stream", "POST"),
        ("POST /listCommands", "GET,HEAD"),
        ("DELETE /tasks/any/metadata", "GET,HEAD"),
        ("PUT //.well-known//agent-card.json/", "GET,HEAD"),
    ] {
        let response = it.client.send(line, &[], b"{}").await;
        assert_eq!((response.status, response.header("allow")), (405, allowed), "{line}");
    }
    for line in ["GET /none", "POST /none", "DELETE /none", "GET /tasks/any"] {
        let response = it.client.send(line, &[], b"{}").await;
        assert_eq!((response.status, response.json()), (404, json!({ "error": "Not found" })));
    }
}

#[tokio::test]
async fn activated_extensions_are_echoed() {
    let it = server().await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "commands/get" }).to_string();
    for name in ["X-A2A-Extensions", "A2A-Extensions"] {
        let asked = format!("{name}: https://example.com/other, {URI}");
        let response = it.client.send("POST /", &[&asked], call.as_bytes()).await;
        assert_eq!(response.header(&name.to_lowercase()), URI);
        let asked = format!("{name}: https://example.com/other");
        let response = it.client.send("POST /", &[&asked], call.as_bytes()).await;
        assert_eq!((response.status, response.header(&name.to_lowercase())), (200, ""));
    }
}

#[tokio::test]
async fn a_task_is_made_and_described() {
    let it = server().await;
    assert_eq!(it.client.get("/tasks/metadata").await.status, 204);
    let made = it.client.post("/tasks", &json!({})).await;
    assert_eq!(made.status, 201);
    let id = made.json();
    let id = id.as_str().unwrap();
    assert_eq!(made.header("location"), format!("/tasks/{id}"));
    let found = it.client.get(&format!("/tasks/{id}/metadata")).await;
    assert_eq!(found.status, 200);
    let found = found.json()["metadata"].clone();
    assert_eq!((&found["id"], &found["contextId"]), (&json!(id), &json!(id)));
    assert_eq!((&found["taskState"], &found["model"]), (&json!("submitted"), &json!("replay")));
    assert_eq!(found["mcpServers"], json!([]));
    let tool = &found["availableTools"][0];
    assert!(tool["name"].is_string() && tool["description"].is_string());
    assert!(tool["parameterSchema"].is_object());
    assert_eq!(it.client.get("/tasks/metadata").await.json(), json!([found]));
    let none = it.client.get("/tasks/none/metadata").await;
    assert_eq!((none.status, none.json()), (404, json!({ "error": "Task not found" })));

    let chosen = it.client.post("/tasks", &json!({ "contextId": "mine" })).await.json();
    assert_eq!(chosen, "mine");
    let state = it.client.result("tasks/get", json!({ "id": "mine" })).await;
    assert_eq!(state["status"]["state"], "submitted");
    for id in ["a.b", "a\nb", &"x".repeat(129)] {
        assert_eq!(it.client.post("/tasks", &json!({ "contextId": id })).await.status, 400, "{id}");
    }
    assert_eq!(it.client.send("POST /tasks", &[], b"{").await.status, 400);
}

#[tokio::test]
async fn commands_are_listed_by_their_whole_paths() {
    let it = server().await;
    let listed = it.client.get("/listCommands").await.json();
    let commands = listed["commands"].as_array().unwrap();
    let memory = commands.iter().find(|command| command["name"] == "memory").unwrap();
    let names: Vec<_> =
        memory["subCommands"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(names.contains(&&json!("memory show")), "{names:?}");
    let found = it.client.result("commands/get", json!({})).await;
    let commands = found["commands"].as_array().unwrap();
    let memory = commands.iter().find(|command| command["name"] == "memory").unwrap();
    let add = memory["sub_commands"].as_array().unwrap();
    let add = add.iter().find(|command| command["name"] == "add").unwrap();
    assert_eq!(add["arguments"][0]["is_required"], true);
}

#[tokio::test]
async fn a_command_is_executed() {
    let it = server().await;
    let run = |body: Value| async move { it.client.post("/executeCommand", &body).await };
    let about = run(json!({ "command": "about", "args": [] })).await;
    assert_eq!((about.status, &about.json()["name"]), (200, &json!("about")));
    assert!(about.json()["data"].as_str().unwrap().contains("replay"));
    assert_eq!(run(json!({ "command": "memory show" })).await.status, 200);
    assert_eq!(run(json!({ "command": "none" })).await.status, 404);
    for wrong in [
        json!({}),
        json!({ "command": 1 }),
        json!({ "command": "about", "args": "x" }),
        json!({ "command": "about", "args": [1] }),
        json!({ "command": "memory add" }),
    ] {
        let response = run(wrong.clone()).await;
        assert_eq!(response.status, 400, "{wrong}");
        assert!(response.json()["error"].is_string());
    }
    assert_eq!(it.client.send("POST /executeCommand", &[], b"x").await.status, 400);
    // `/init` asks the model, so its response is a stream.
    let init = run(json!({ "command": "init" })).await;
    assert_eq!(init.header("content-type"), "text/event-stream");
    assert_eq!(states(&init.results()).last(), Some(&"completed"), "{}", init.text());
}

#[tokio::test]
async fn the_users_own_commands_are_listed_and_executed() {
    let setup = Setup::script(vec![json!({ "when": "Write: a note",
        "answers": [[{ "text": "written" }]] })]);
    let command = "description = \"Writes\"\nprompt = \"Write: {{args}}\"\n";
    let it = shared(&setup.file("../.gemini/commands/git/commit.toml", command)).await;
    for listed in [
        it.client.get("/listCommands").await.json(),
        it.client.result("commands/get", json!({})).await,
    ] {
        let commands = listed["commands"].as_array().unwrap();
        let own = commands.iter().find(|command| command["name"] == "git:commit").unwrap();
        assert_eq!(
            (&own["description"], &own["arguments"][0]["name"]),
            (&json!("Writes"), &json!("args"))
        );
    }
    let asked = json!({ "command": "git:commit", "args": ["a", "note"] });
    let streamed = it.client.post("/executeCommand", &asked).await;
    assert_eq!(streamed.header("content-type"), "text/event-stream");
    assert_eq!(text(&streamed.results()), "written");
}

#[tokio::test]
async fn a_command_over_json_rpc_has_a_task_of_its_own() {
    let it = shared(&Setup::answers(json!([[{ "text": "hi" }]]))).await;
    let mut socket = it.client.socket().await;
    let asked = json!({ "command_path": ["memory", "show"], "args": "" });
    let begun = socket.call(1, "command/execute", asked).await["result"].clone();
    assert_eq!(begun["status"], "STARTED");
    let events = socket.events(super::server::ends).await;
    assert!(events.iter().all(|event| event["taskId"] == begun["execution_id"]), "{events:?}");
    for path in [json!(["none"]), json!(["memory", "none"]), json!(["memory", "add"])] {
        let found = socket.call(2, "command/execute", json!({ "commandPath": path })).await;
        assert_eq!(found["result"]["status"], "FAILED_TO_START", "{path}");
        let why = found["result"]["message"].as_str().unwrap();
        assert!(why.ends_with("The command was not started, so it has no execution id."), "{why}");
        assert_eq!(found["result"]["execution_id"], "");
    }
}

#[tokio::test]
async fn a_command_that_asks_first_says_what_it_waits_for() {
    let setup = Setup::answers(json!([[{ "text": "done" }]])).without_sandbox();
    let command = "description = \"Touches\"\nprompt = \"Look: !{touch made.txt}\"\n";
    let it = shared(&setup.file("../.gemini/commands/make.toml", command)).await;
    let asked = json!({ "command_path": ["make"], "args": "" });
    let begun = it.client.result("command/execute", asked).await;
    assert_eq!(begun["status"], "AWAITING_SHELL_CONFIRMATION", "{begun}");
    let task = begun["execution_id"].clone();
    let got = it.client.result("tasks/get", json!({ "id": task })).await;
    assert_eq!(got["status"]["state"], "input-required", "{got}");
    let done = it.client.result("message/send", within(&task, prompt("Go ahead."))).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    assert!(it.editor.workspace().join("made.txt").exists());
    let asked = json!({ "command_path": ["memory", "show"], "args": "" });
    assert_eq!(it.client.result("command/execute", asked).await["status"], "STARTED");
}

#[tokio::test]
async fn a_message_without_an_envelope_streams() {
    let it = server().await;
    let parts = json!({ "parts": [{ "kind": "text", "text": "hi" }] });
    for said in [json!("hi"), parts] {
        let body = json!({ "userMessage": said });
        let response = it.client.post("/message/stream", &body).await;
        assert_eq!(response.header("content-type"), "text/event-stream");
        assert!(response.frames().iter().all(|frame| frame["id"].is_null()), "{}", response.text());
        assert_eq!(states(&response.results()).last(), Some(&"completed"));
    }
    for wrong in [json!({}), json!({ "userMessage": "" }), json!({ "userMessage": {} }), json!([])]
    {
        let response = it.client.post("/message/stream", &wrong).await;
        let code = response.frames()[0]["error"]["code"].as_i64();
        assert!([Some(-32602), Some(-32600)].contains(&code), "{}", response.text());
    }
    // A request in the form of JSON-RPC, with an id, is answered in this form.
    let call =
        json!({ "jsonrpc": "2.0", "id": 5, "method": "message/stream", "params": prompt("hi") });
    let response = it.client.post("/message/stream", &call).await.text();
    assert!(response.starts_with("data: {\"jsonrpc\":\"2.0\",\"id\":5,"), "{response}");
}

#[tokio::test]
async fn the_metadata_of_many_tasks_comes_in_pages() {
    let it = serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(it.client.post("/tasks", &json!({})).await.json());
    }
    let mut path = "/tasks/metadata?pageSize=2".to_owned();
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = it.client.get(&path).await;
        let tasks = page.json();
        found.extend(tasks.as_array().unwrap().iter().map(|task| task["id"].clone()));
        pages += 1;
        let token = page.header("x-next-page-token");
        if token.is_empty() {
            assert_eq!(page.header("link"), "");
            break;
        }
        path = format!("/tasks/metadata?pageSize=2&pageToken={token}");
        assert_eq!(page.header("link"), format!("<{path}>; rel=\"next\""));
        assert!(pages < 9, "there is no end");
    }
    assert_eq!(pages, 3);
    let sorted = |mut ids: Vec<Value>| {
        ids.sort_by_key(Value::to_string);
        ids
    };
    assert_eq!(sorted(found), sorted(made));
    // Without `pageSize`, all tasks are on one page.
    let all = it.client.get("/tasks/metadata").await;
    assert_eq!(all.json().as_array().unwrap().len(), 5);
    assert_eq!(all.header("x-next-page-token"), "");
    for wrong in ["pageSize=0", "pageSize=101", "pageSize=x"] {
        let refused = it.client.get(&format!("/tasks/metadata?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}");
    }
    let past = it.client.get("/tasks/metadata?pageToken=zzzz").await;
    assert_eq!((past.status, past.json()), (200, json!([])));
}
