//! A2A clients, of both versions.

use serde_json::{Value, json};
use tandem_agent::session::{Event, TaskEvent};
use test_served::{Server, shared};
use test_support::a2a::URI;
use test_support::web_socket::{Socket, event};

use super::stage::{AFTER, BEFORE, Stage};
use super::{Case, has};

/// Returns the messages to a client on a WebSocket that follows the session. `new`: the client speaks 1.0.
pub(super) async fn shown(case: &Case, new: bool) -> Vec<String> {
    // After this event, a client without a token gets no events, so a wait for one would not end.
    if matches!(case.event, Event::Task(TaskEvent::Owned { .. })) {
        return Vec::new();
    }
    let stage = Stage::new();
    let server = Server::of(shared(std::sync::Arc::clone(&stage.session))).await;
    let mut socket = Socket::open(server.port, "/ws", &[]).await.unwrap();
    let hello = if new { "ListTasks" } else { "commands/get" };
    socket.call("hi", hello, json!({})).await;
    stage.begin_elsewhere();
    stage.prepare(case).await;
    stage.act(case).await;
    socket.until(|frame| has(frame, BEFORE)).await;
    let mut sent = socket.until(|frame| has(frame, AFTER)).await;
    sent.pop();
    stage.session.close();
    sent.iter().map(|frame| kind(event(frame).unwrap())).collect()
}

fn kind(event: &Value) -> String {
    let update = event.get("statusUpdate").or(event.get("artifactUpdate")).unwrap_or(event);
    if update["artifact"].is_object() {
        return "artifact".to_owned();
    }
    let kind = update["metadata"][URI]["kind"].as_str().unwrap_or_default();
    let message = &update["status"]["message"];
    let state = update["status"]["state"].as_str().unwrap_or_default();
    let state = state.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-");
    let call = message["parts"][0]["data"]["status"].as_str().unwrap_or_default();
    match kind {
        "TOOL_CALL_UPDATE" => format!("`{kind}` {call}"),
        _ => format!("`{kind}` {state}"),
    }
}
