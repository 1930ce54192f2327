//! Sessions whose tools a client limits: `allowed_tools` of the agent settings.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_fakes::postgres::Cluster;

use super::nodes::{Node, in_context};
use super::server::{Client, URI, asks, prompt, serve, shared, tool_call, write};
use crate::agent::Setup;

/// Returns a model that writes a file in each turn, and then ends the turn.
fn writes() -> Setup {
    Setup::script(vec![
        json!({ "when": "", "answers": [[write("made.txt", "x\n")], [{ "text": "done" }]] }),
    ])
}

fn limited(tools: &[&str], mut params: Value) -> Value {
    params["message"]["metadata"] = json!({ URI: { "allowed_tools": tools } });
    params
}

/// Sends a prompt in the context `c`; returns the events of its stream.
async fn go(client: Client, params: Value) -> Vec<Value> {
    client.stream("message/stream", params).await.rest().await
}

/// Checks that the model's write was refused with a reason, and without a question.
fn check_refused(events: &[Value], home: &Path) {
    let failed = events.iter().map(tool_call).find(|call| call["status"] == "FAILED");
    let failed = failed.unwrap_or_else(|| panic!("no call is refused: {events:?}"));
    let why = failed["error"]["message"].as_str().unwrap();
    assert!(why.contains("`write_file`") && why.contains("(`read_file`, `glob`)"), "{why}");
    assert!(!home.join("workspace/made.txt").exists());
    assert_eq!(events.last().unwrap()["status"]["state"], "completed");
}

/// Returns the names of the tools that the model is told of.
async fn offered(client: Client) -> Value {
    let found = client.get("/tasks/c/metadata").await.json();
    let tools = found["metadata"]["availableTools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].clone()).collect()
}

const TOOLS: &[&str] = &["read_file", "glob"];

#[tokio::test]
async fn a_session_uses_only_the_tools_that_its_client_allows_also_after_a_restart() {
    let setup = writes().arg("-y");
    let it = serve(&setup).await;
    let events = go(it.client, limited(TOOLS, in_context("c", "go"))).await;
    check_refused(&events, it.home.path());
    let settings = events.iter().map(tool_call).find(|data| data["kind"] == "agent-settings");
    assert_eq!(settings.unwrap()["allowedTools"], json!(TOOLS));
    assert_eq!(offered(it.client).await, json!(["read_file", "glob"]));
    // The session exists already, so the settings of this message change nothing.
    let events = go(it.client, limited(&["*"], in_context("c", "again"))).await;
    check_refused(&events, it.home.path());
    let it = it.killed(&setup).await;
    let events = go(it.client, in_context("c", "again")).await;
    check_refused(&events, it.home.path());
    assert_eq!(offered(it.client).await, json!(["read_file", "glob"]));
}

#[tokio::test]
async fn the_first_message_of_a_session_without_turns_limits_its_tools() {
    let it = serve(&writes().arg("-y")).await;
    it.client.post("/tasks", &json!({ "contextId": "c" })).await;
    let events = go(it.client, limited(TOOLS, in_context("c", "go"))).await;
    check_refused(&events, it.home.path());
}

#[tokio::test]
async fn tools_are_limited_by_the_settings_of_a_new_task() {
    let it = serve(&writes().arg("-y")).await;
    let settings = json!({ "kind": "agent-settings", "allowedTools": TOOLS });
    it.client.post("/tasks", &json!({ "contextId": "c", "agentSettings": settings })).await;
    let events = go(it.client, in_context("c", "go")).await;
    check_refused(&events, it.home.path());
}

#[tokio::test]
async fn tools_stay_limited_at_the_node_that_goes_on_with_the_session() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let mut first = Node::start(&writes(), home.path(), &database).await;
    let events = go(first.client, limited(TOOLS, in_context("c", "go"))).await;
    check_refused(&events, home.path());
    first.child.kill().await.unwrap();
    let second = Node::start(&writes(), home.path(), &database).await;
    let events = go(second.client, in_context("c", "again")).await;
    check_refused(&events, home.path());
}

#[tokio::test]
async fn a_limit_that_cannot_be_read_begins_no_session() {
    let it = serve(&writes().arg("-y")).await;
    let mut sent = prompt("go");
    sent["message"]["metadata"] = json!({ "coderAgent": { "allowedTools": "read_file" } });
    let (code, why) = it.client.error("message/send", sent).await;
    assert_eq!(code, -32602, "{why}");
    assert_eq!(it.client.get("/tasks/metadata").await.status, 204, "a session has begun");
}

#[tokio::test]
async fn a_client_that_joins_a_session_does_not_limit_its_tools() {
    let it = shared(&writes()).await;
    let mut stream = it.client.stream("message/stream", limited(TOOLS, prompt("go"))).await;
    stream.until(asks).await;
}
