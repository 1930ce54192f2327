//! Editors, of both versions of ACP.

use serde_json::{Value, json};

use super::stage::{AFTER, BEFORE, Stage};
use super::{Case, has};
use crate::shared::Editor;

/// Returns the messages to an editor of 0.0.9.
pub(super) async fn old(case: &Case) -> Vec<String> {
    let stage = Stage::new();
    let mut editor = Editor::of(&stage.session).await;
    if case.own {
        let chunks = json!({ "chunks": [{ "text": "go" }] });
        editor.send(json!({ "id": "p", "method": "sendUserMessage", "params": chunks })).await;
    } else {
        stage.begin_elsewhere();
    }
    stage.prepare(case).await;
    // Two requests are answered before the event happens, so that all earlier messages have been read.
    editor.send(json!({ "id": "sync", "method": "initialize" })).await;
    until(&mut editor, |message| message["id"] == "sync" && message["method"].is_null()).await;
    editor.send(json!({ "id": "sync again", "method": "initialize" })).await;
    until(&mut editor, |message| message["id"] == "sync again").await;
    stage.act(case).await;
    until(&mut editor, |message| has(message, BEFORE)).await;
    let mut sent = until(&mut editor, |message| has(message, AFTER)).await;
    sent.pop();
    stage.session.close();
    sent.iter().map(of_old).collect()
}

fn of_old(message: &Value) -> String {
    let params = &message["params"];
    match message["method"].as_str() {
        Some("streamAssistantMessageChunk") => {
            let voice = if params["chunk"]["text"].is_string() { "text" } else { "thought" };
            format!("chunk of {voice}")
        }
        Some("updateToolCall") => format!("`updateToolCall` {}", word(&params["status"])),
        Some(method) => format!("`{method}`"),
        None if message["error"].is_object() => format!("error {}", message["error"]["code"]),
        None => "the answer".to_owned(),
    }
}

/// Returns the messages to an editor of ACP 1.
pub(super) async fn new(case: &Case) -> Vec<String> {
    let stage = Stage::new();
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let mut editor = Editor::with(&stage.session, initialize).await;
    let cwd = &stage.session.roots()[0];
    let params = json!({ "cwd": cwd, "mcpServers": [] });
    editor.send(json!({ "id": "n", "method": "session/new", "params": params })).await;
    let begun = until(&mut editor, |message| message["id"] == "n").await;
    let session = &begun[begun.len() - 1]["result"]["sessionId"];
    if case.own {
        let prompt = json!([{ "type": "text", "text": "go" }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        editor.send(json!({ "id": "p", "method": "session/prompt", "params": params })).await;
    } else {
        stage.begin_elsewhere();
    }
    stage.prepare(case).await;
    stage.act(case).await;
    until(&mut editor, |message| has(message, BEFORE)).await;
    let mut sent = until(&mut editor, |message| has(message, AFTER)).await;
    sent.pop();
    // The list of commands is read from the disk beside the other messages, and may come at any place.
    sent.retain(|message| !has(message, "available_commands_update"));
    stage.session.close();
    sent.iter().map(of_new).collect()
}

fn of_new(message: &Value) -> String {
    let update = &message["params"]["update"];
    match (update["sessionUpdate"].as_str(), message["method"].as_str()) {
        (Some(kind), _) if kind.starts_with("tool_call") => {
            format!("`{kind}` {}", word(&update["status"])).trim_end().to_owned()
        }
        (Some(kind), _) => format!("`{kind}`"),
        (None, Some(method)) => format!("`{method}`"),
        (None, None) if message["error"].is_object() => {
            format!("error {}", message["error"]["code"])
        }
        (None, None) => format!("the answer `{}`", word(&message["result"]["stopReason"])),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Reads until a message fits; all, that last. Calls get an id, and questions no answer.
async fn until(editor: &mut Editor, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut read = Vec::new();
    loop {
        let message = editor.message().await;
        if message["method"] == "pushToolCall" {
            editor.send(json!({ "id": message["id"], "result": { "id": 1 } })).await;
        }
        read.push(message);
        if fits(&read[read.len() - 1]) {
            return read;
        }
    }
}
