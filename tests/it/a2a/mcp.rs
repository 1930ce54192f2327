//! MCP servers and the clients of A2A: brought by them, shown to them, asked about.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use test_support::mcp::authority::{Authority, Ways, go};
use tokio::time::timeout;

use super::server::{Client, answer, asks, kind, prompt, serve, shared, text, tool_call, within};
use crate::agent::{HANG, Setup};
use crate::mcp::login::LOGGED_IN;

fn call(name: &str, args: Value) -> Value {
    json!([{ "call": { "name": name, "args": args } }])
}

fn fixture() -> String {
    format!("{}/fixtures/mcp/server.sh", env!("CARGO_MANIFEST_DIR"))
}

fn two_calls() -> Setup {
    let one = call("mcp_s_echo", json!({ "message": "one" }));
    let two = call("mcp_s_structured", json!({}));
    Setup::answers(json!([one, two, [{ "text": "done" }]]))
}

/// Returns the settings of a session with a server.
fn brings() -> Value {
    json!({ "kind": "agent-settings", "autoExecute": false, "mcpServers": {
        "s": { "command": fixture(), "excludeTools": ["big"], "trust": true },
        "t": {},
    } })
}

/// Returns a task's servers, when the first of them is no longer getting ready.
pub(super) async fn servers(client: Client, task: &str) -> Value {
    let path = format!("/tasks/{task}/metadata");
    let settled = async {
        loop {
            let found = client.get(&path).await.json()["metadata"].clone();
            if found["mcpServers"][0]["status"] != "connecting" {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(HANG, settled).await.unwrap()
}

#[tokio::test]
async fn a_client_brings_a_server_and_is_asked_about_its_tools() {
    let it = serve(&two_calls().arg("--allow-auto-execute")).await;
    let task = it.client.post("/tasks", &json!({ "agentSettings": brings() })).await.json();
    let found = servers(it.client, task.as_str().unwrap()).await;
    let [s, t] = &found["mcpServers"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&s["name"], &s["status"]), (&json!("s"), &json!("connected")));
    let echo = &s["tools"][0];
    assert_eq!((&echo["name"], &echo["serverToolName"]), (&json!("mcp_s_echo"), &json!("echo")));
    assert_eq!(echo["description"], "Says it again.");
    assert_eq!(echo["parameterSchema"]["required"], json!(["message"]));
    assert_eq!((&t["name"], &t["status"]), (&json!("t"), &json!("disconnected")));
    expect!["down: it has neither `command` nor `url`"].assert_eq(t["detail"].as_str().unwrap());
    let tools = found["availableTools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"mcp_s_echo") && !names.contains(&"mcp_s_big"), "{names:?}");

    let mut events = it.client.stream("message/stream", within(&task, prompt("go"))).await;
    let events = events.rest().await;
    let asked = events.iter().find(|event| asks(event)).unwrap();
    assert_eq!(kind(asked), "TOOL_CALL_UPDATE");
    let asked = tool_call(asked);
    let request = &asked["confirmation_request"];
    assert_eq!(request["mcp_details"], json!({ "server_name": "s", "tool_name": "echo" }));
    let options = request["options"].as_array().unwrap();
    let ids: Vec<_> = options.iter().filter_map(|option| option["id"].as_str()).collect();
    let expected = ["proceed_once", "proceed_always", "proceed_always_server", "cancel"];
    assert_eq!(ids, expected);
    let always = answer(&asked["tool_call_id"], "proceed_always_server");
    let events = it.client.stream("message/stream", within(&task, always)).await.rest().await;
    assert!(!events.iter().any(asks), "{events:?}");
    assert_eq!(text(&events), "done");
}

#[tokio::test]
async fn always_for_the_tool_is_not_for_the_server() {
    let it = serve(&two_calls().arg("--allow-auto-execute")).await;
    let task = it.client.post("/tasks", &json!({ "agentSettings": brings() })).await.json();
    servers(it.client, task.as_str().unwrap()).await;
    let mut events = it.client.stream("message/stream", within(&task, prompt("go"))).await;
    let events = events.rest().await;
    let asked = tool_call(events.iter().find(|event| asks(event)).unwrap())["tool_call_id"].clone();
    let always = within(&task, answer(&asked, "proceed_always_tool"));
    let events = it.client.stream("message/stream", always).await.rest().await;
    let again = tool_call(events.iter().find(|event| asks(event)).unwrap());
    assert_eq!(again["confirmation_request"]["mcp_details"]["tool_name"], "structured");
}

#[tokio::test]
async fn no_program_is_started_for_a_client_unless_the_server_lets_it() {
    let it = serve(&two_calls()).await;
    let task = it.client.post("/tasks", &json!({ "agentSettings": brings() })).await.json();
    let found = servers(it.client, task.as_str().unwrap()).await;
    let server = &found["mcpServers"][0];
    assert_eq!(server["status"], "disconnected");
    expect!["down: programs are started for clients only with `--allow-auto-execute`"]
        .assert_eq(server["detail"].as_str().unwrap());
    assert_eq!(server["tools"], json!([]));
}

#[tokio::test]
async fn a_server_that_the_editor_brings_is_everybodys() {
    let mut it = shared(&two_calls()).await;
    let server = json!({ "stdio": { "command": fixture(), "args": [], "env": {} } });
    let params = json!({ "protocolVersion": "0.0.11", "contextServers": { "s": server } });
    let id = it.editor.request("initialize", params).await;
    it.editor.answer_to(id).await;
    let mut events = it.client.stream("message/stream", prompt("go")).await;
    let asked = events.until(asks).await.pop().unwrap();
    let details = &tool_call(&asked)["confirmation_request"]["mcp_details"];
    assert_eq!(*details, json!({ "server_name": "s", "tool_name": "echo" }));
    let found = it.client.get("/tasks/metadata").await.json();
    assert_eq!(found[0]["mcpServers"][0]["status"], "connected");
}

#[tokio::test]
async fn a_user_logs_in_to_a_server() {
    let authority = Authority::new(Ways::default()).await;
    let settings = json!({ "mcpServers": { "web": { "httpUrl": authority.mcp() } } }).to_string();
    let setup =
        Setup::answers(json!([[{ "text": "hi" }]])).file("../.gemini/settings.json", &settings);
    let it = shared(&setup).await;
    let mut events = it.client.stream("message/stream", prompt("/mcp auth web")).await;
    let mut said = Vec::new();
    let address = loop {
        said.push(events.next().await.expect("nobody is told where to log in"));
        let text = text(&said);
        if let Some((_, rest)) = text.split_once("in your browser: ") {
            break reqwest::Url::parse(rest.split_whitespace().next().unwrap()).unwrap();
        }
    };
    assert!(go(address).await.contains("You are logged in."));
    let rest = text(&events.rest().await);
    assert!(rest.ends_with(LOGGED_IN), "{rest}");
}

/// Calls a server's tool; returns the data of the call's end.
async fn told(tool: &str) -> Value {
    let call = call(&format!("mcp_s_{tool}"), json!({ "message": "one" }));
    let setup = Setup::answers(json!([call, [{ "text": "done" }]])).arg("-y");
    let it = serve(&setup.arg("--allow-auto-execute")).await;
    let task = it.client.post("/tasks", &json!({ "agentSettings": brings() })).await.json();
    servers(it.client, task.as_str().unwrap()).await;
    let mut events = it.client.stream("message/stream", within(&task, prompt("go"))).await;
    let ended = |event: &Value| {
        ["SUCCEEDED", "FAILED"].map(Value::from).contains(&tool_call(event)["status"])
    };
    tool_call(&events.until(ended).await.pop().unwrap()).clone()
}

#[tokio::test]
async fn what_a_server_says_reaches_clients_as_it_was_said() {
    let call = told("echo").await;
    assert_eq!(call["output"], json!({ "text": "one" }), "{call}");
    assert_eq!(call["result"], "one", "{call}");
    let call = told("fail").await;
    assert_eq!(call["error"]["message"], "no such thing", "{call}");
}

#[tokio::test]
async fn structured_content_is_structured_data() {
    let call = told("structured").await;
    assert_eq!(call["output"], json!({ "structured_data": { "answer": 42 } }), "{call}");
    let result: Value = serde_json::from_str(call["result"].as_str().unwrap()).unwrap();
    assert_eq!(result, json!({ "answer": 42 }), "{call}");
}
