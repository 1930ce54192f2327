//! Chat completions: answers in their own words.

use serde_json::{Value, json};

use super::{Reply, Server};

/// Returns an event.
pub fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}

/// Returns an event with this delta.
pub fn delta(delta: Value) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }))
}

/// Returns an event that ends the answer.
pub fn end(reason: &str) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
}

/// The last event of a stream.
pub const DONE: &str = "data: [DONE]\n\n";

/// Returns a whole answer with one text.
pub fn text(text: &str) -> Reply {
    Reply::stream([&delta(json!({ "content": text })), &end("stop"), DONE].concat())
}

/// Returns a stream of these deltas, ended as by most servers.
pub fn stream(deltas: Vec<Value>, reason: &str) -> Reply {
    let mut body: String = deltas.into_iter().map(delta).collect();
    body.push_str(&end(reason));
    Reply::stream(body + DONE)
}

/// Returns an error of the API.
pub fn refused(status: u16, message: &str) -> Reply {
    let error = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    Reply::error(status, error.to_string())
}

/// Returns the messages of a recorded request.
pub fn messages(server: &Server, request: usize) -> Vec<Value> {
    server.asked()[request].body["messages"].as_array().unwrap().clone()
}
