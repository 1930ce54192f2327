//! Chat completions: answers in their own words.

pub(super) mod refusal;

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

/// Returns the first answer of a conversation: thinks `I must look`, says `Looking.`, and calls `glob` twice.
pub fn step() -> Reply {
    let call = |id: &str, n: u64, arguments: &str| {
        json!({ "index": n, "id": id,
        "type": "function", "function": { "name": "glob", "arguments": arguments } })
    };
    let deltas = vec![
        json!({ "reasoning_content": "I must look" }),
        json!({ "content": "Looking." }),
        json!({ "tool_calls": [call("c1", 0, "{\"pattern\":\"a\"}")] }),
        json!({ "tool_calls": [call("c2", 1, "{}")] }),
    ];
    answer(deltas, "tool_calls", (20, 10))
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    answer(vec![json!({ "content": "All is well." })], "stop", (30, 5))
}

fn answer(deltas: Vec<Value>, reason: &str, (input, output): (u64, u64)) -> Reply {
    let event = |json: Value| format!("data: {json}\n\n");
    let deltas = deltas.into_iter().map(|it| event(json!({ "choices": [{ "delta": it }] })));
    let end = event(json!({ "choices": [{ "delta": {}, "finish_reason": reason }] }));
    let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
    let usage = event(json!({ "choices": [], "usage": usage }));
    let rest = [end, usage, "data: [DONE]\n\n".to_owned()];
    Reply::stream(deltas.chain(rest).collect::<String>())
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
