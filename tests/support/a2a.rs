//! A client of A2A, its messages, and what it reads from events of version 0.3.

use serde_json::{Value, json};

use crate::http::{Response, Sse, request};
use crate::web_socket::Socket;

/// The extension's URI.
pub const URI: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// A client of a server.
#[derive(Clone, Copy)]
pub struct Client {
    /// Port of the server on this machine.
    pub port: u16,
}

impl Client {
    /// Sends a request with the usual headers, and these.
    pub async fn send(self, line: &str, headers: &[&str], body: &[u8]) -> Response {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let kind = "Content-Type: application/json";
        let headers = [&[host.as_str(), kind, "Connection: close"], headers].concat();
        request(self.port, line, &headers, body).await.whole().await
    }

    /// Gets a path.
    pub async fn get(self, path: &str) -> Response {
        self.send(&format!("GET {path}"), &[], b"").await
    }

    /// Posts JSON to a path.
    pub async fn post(self, path: &str, body: &Value) -> Response {
        self.send(&format!("POST {path}"), &[], body.to_string().as_bytes()).await
    }

    /// Calls a method over HTTP; returns the whole response.
    pub async fn call(self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = self.post("/", &call).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    /// Calls a method; returns its result.
    pub async fn result(self, method: &str, params: Value) -> Value {
        let response = self.call(method, params).await;
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    /// Calls a method that fails; returns the code and the message of the error.
    pub async fn error(self, method: &str, params: Value) -> (i64, String) {
        let response = self.call(method, params).await;
        let error = &response["error"];
        (error["code"].as_i64().unwrap_or_default(), error["message"].to_string())
    }

    /// Calls a method whose answer is a stream.
    pub async fn stream(self, method: &str, params: Value) -> Sse {
        self.stream_with(method, params, &[]).await
    }

    /// Calls a method whose answer is a stream, with more headers.
    pub async fn stream_with(self, method: &str, params: Value, with: &[&str]) -> Sse {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let headers = [&[host.as_str(), "Content-Type: application/json"], with].concat();
        let call = call.to_string();
        request(self.port, "POST /", &headers, call.as_bytes()).await.events()
    }

    /// Opens a WebSocket.
    pub async fn socket(self) -> Socket {
        self.socket_at("/ws").await
    }

    /// Opens a WebSocket at a path.
    pub async fn socket_at(self, path: &str) -> Socket {
        Socket::open(self.port, path, &[]).await.unwrap()
    }
}

/// Returns a message with this text.
pub fn prompt(text: &str) -> Value {
    parts(json!([{ "kind": "text", "text": text }]))
}

/// Returns a message of these parts.
pub fn parts(parts: Value) -> Value {
    json!({ "message": {
        "kind": "message", "messageId": uuid::Uuid::new_v4().to_string(), "role": "user",
        "parts": parts,
    } })
}

/// Returns a message in a task.
pub fn within(task: &Value, mut params: Value) -> Value {
    params["message"]["taskId"] = task.clone();
    params
}

/// Returns a message that answers a question.
pub fn answer(call: &Value, option: &str) -> Value {
    parts(json!([{ "kind": "data", "data": {
        "tool_call_id": call, "selected_option_id": option,
    } }]))
}

/// Returns a message whose session works in this directory.
pub fn works_in(path: &std::path::Path, mut params: Value) -> Value {
    params["message"]["metadata"] = json!({ URI: { "workspace_path": path } });
    params
}

/// Returns the first part of an event's message.
pub fn first_part(event: &Value) -> &Value {
    &event["status"]["message"]["parts"][0]
}

/// Returns the tool call that an event or a task is about.
pub fn tool_call(event: &Value) -> &Value {
    let parts = event["status"]["message"]["parts"].as_array();
    let data = parts.into_iter().flatten().find_map(|part| part.get("data"));
    data.unwrap_or(&Value::Null)
}

/// Returns the kind of an event.
pub fn kind(event: &Value) -> &str {
    event["metadata"][URI]["kind"].as_str().unwrap_or_default()
}

/// Returns whether an event asks a question.
pub fn asks(event: &Value) -> bool {
    kind(event) == "TOOL_CALL_UPDATE" && tool_call(event)["confirmation_request"].is_object()
}

/// Returns whether an event ends a turn.
pub fn ends(event: &Value) -> bool {
    let state = event["status"]["state"].as_str().unwrap_or_default();
    event["final"] == true && matches!(state, "completed" | "failed" | "canceled")
}

/// Returns the text of the model in these events.
pub fn text(events: &[Value]) -> String {
    let said = events.iter().filter(|event| {
        kind(event) == "TEXT_CONTENT" && event["status"]["message"]["role"] != "user"
    });
    said.filter_map(|event| first_part(event)["text"].as_str()).collect()
}

/// Returns the statuses of calls, in order, without repetitions.
pub fn statuses(events: &[Value]) -> Vec<&str> {
    let mut all: Vec<_> = events.iter().filter_map(|it| tool_call(it)["status"].as_str()).collect();
    all.dedup();
    all
}

/// Returns the states of the task, in order, without repetitions.
pub fn states(events: &[Value]) -> Vec<&str> {
    let mut all: Vec<_> = events.iter().filter_map(|it| it["status"]["state"].as_str()).collect();
    all.dedup();
    all
}
