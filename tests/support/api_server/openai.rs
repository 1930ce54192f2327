//! Chat completions: answers in their own words.

pub(super) mod refusal;
mod strict;

use serde_json::{Value, json};

use super::{Reply, Server};

pub use self::strict::check;

/// Returns an event.
pub fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}

/// Returns an event with this delta.
pub fn delta(delta: Value) -> String {
    chunk(
        &json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }]),
        &Value::Null,
    )
}

/// Returns an event that ends the answer.
pub fn end(reason: &str) -> String {
    chunk(
        &json!([{ "index": 0, "delta": {}, "logprobs": null, "finish_reason": reason }]),
        &Value::Null,
    )
}

fn chunk(choices: &Value, usage: &Value) -> String {
    event(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_795_900_000,
        "model": "some-model", "choices": choices, "usage": usage }))
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
    let call = |n: u64, piece: Value| {
        let mut call = json!({ "index": n });
        call.as_object_mut().unwrap().extend(piece.as_object().unwrap().clone());
        json!({ "tool_calls": [call] })
    };
    let begin = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "glob", "arguments": "" } });
    let more = |text: &str| json!({ "function": { "arguments": text } });
    let deltas = vec![
        json!({ "role": "assistant", "content": "" }),
        json!({ "reasoning_content": "I must look" }),
        json!({ "content": "Looking." }),
        call(0, begin("c1")),
        call(0, more("{\"pattern\":")),
        call(0, more("\"a\"}")),
        call(1, begin("c2")),
        call(1, more("{}")),
    ];
    answer(deltas, "tool_calls", 20, 10)
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    let begin = json!({ "role": "assistant", "content": "" });
    answer(vec![begin, json!({ "content": "All is well." })], "stop", 30, 5)
}

fn answer(deltas: Vec<Value>, reason: &str, input: u64, output: u64) -> Reply {
    let usage = json!({ "prompt_tokens": input, "completion_tokens": output,
        "total_tokens": input + output, "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0 } });
    let rest = [end(reason), chunk(&json!([]), &usage), DONE.to_owned()];
    Reply::stream(deltas.into_iter().map(delta).chain(rest).collect::<String>())
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
