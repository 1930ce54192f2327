//! The Responses API: answers in its own words, and a stand-in that refuses what the API refuses.

mod strict;

use serde_json::{Value, json};

use super::{Reply, Server};

pub use self::strict::check;

/// Starts a stand-in with these replies, which refuses what the API refuses.
pub async fn start(replies: Vec<Reply>) -> Server {
    Server::of_pages(replies, &[], Some(check)).await
}

/// Returns an event.
pub fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}

/// Returns the events of the items, as the API streams them.
pub fn items(items: &[Value]) -> String {
    items.iter().enumerate().map(|(n, item)| item_events(n, item)).collect()
}

/// Returns the events of one item: its beginning without content, its content in pieces, and its end.
pub fn item_events(n: usize, item: &Value) -> String {
    let mut begun = item.clone();
    let id = item["id"].clone();
    let mut events = Vec::new();
    let mut pieces = |name: &str, text: &str| {
        let chars: Vec<_> = text.chars().collect();
        for piece in chars.chunks(5) {
            let piece: String = piece.iter().collect();
            events.push(json!({ "type": format!("response.{name}.delta"), "item_id": id,
                "output_index": n, "content_index": 0, "delta": piece }));
        }
    };
    let list = |field: &str| item[field].as_array().cloned().unwrap_or_default();
    match item["type"].as_str().unwrap() {
        "message" => {
            begun["content"] = json!([]);
            for part in list("content") {
                match part["text"].as_str() {
                    Some(text) => pieces("output_text", text),
                    None => pieces("refusal", part["refusal"].as_str().unwrap()),
                }
            }
        }
        "reasoning" => {
            begun["summary"] = json!([]);
            begun["encrypted_content"] = json!("not whole");
            for (summary, part) in list("summary").iter().enumerate() {
                let text = part["text"].as_str().unwrap();
                let added = json!({ "type": "response.reasoning_summary_part.added",
                    "item_id": id, "output_index": n, "summary_index": summary, "part": part });
                events.push(added);
                let piece = json!({ "type": "response.reasoning_summary_text.delta",
                    "item_id": id, "output_index": n, "summary_index": summary, "delta": text });
                events.push(piece);
            }
        }
        "function_call" => {
            begun["arguments"] = json!("");
            pieces("function_call_arguments", item["arguments"].as_str().unwrap());
        }
        _ => {}
    }
    let added = json!({ "type": "response.output_item.added", "output_index": n, "item": begun });
    let done = json!({ "type": "response.output_item.done", "output_index": n, "item": item });
    [added].iter().chain(&events).chain([&done]).map(event).collect()
}

/// Returns the event that ends an answer: `completed` or `incomplete`.
pub fn end(kind: &str, more: Value) -> String {
    let mut response = json!({ "object": "response", "status": kind, "output": [], "usage": {
        "input_tokens": 40, "input_tokens_details": { "cached_tokens": 8, "cache_write_tokens": 2 },
        "output_tokens": 10, "output_tokens_details": { "reasoning_tokens": 4 },
        "total_tokens": 50,
    } });
    response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(&json!({ "type": format!("response.{kind}"), "response": response }))
}

/// Returns a whole answer with these items.
pub fn answer(list: &[Value]) -> Reply {
    Reply::stream(items(list) + &end("completed", json!({})))
}

/// Returns an answer of these items. `input` and `output` are numbers of tokens.
pub fn answer_of(list: &[Value], input: u64, output: u64) -> Reply {
    let usage = json!({ "input_tokens": input, "output_tokens": output });
    Reply::stream(items(list) + &end("completed", json!({ "usage": usage })))
}

/// Returns a message of the model; `phase` is `commentary` or `final_answer`.
pub fn message(id: &str, text: &str, phase: &str) -> Value {
    let content =
        json!([{ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }]);
    json!({ "type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": content, "phase": phase })
}

/// Returns an item of reasoning.
pub fn reasoning(id: &str, encrypted: &str, summary: &str) -> Value {
    let summary = json!([{ "type": "summary_text", "text": summary }]);
    json!({ "type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted })
}

/// Returns a call of the tool `glob`.
pub fn call(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": call_id, "name": "glob",
        "arguments": arguments, "status": "completed" })
}

/// Returns a whole answer with one text.
pub fn text(text: &str) -> Reply {
    answer(&[message("msg_text", text, "final_answer")])
}

/// Returns the first answer of a conversation: thinks `I must look`, says `Looking.`, and calls `glob` twice.
pub fn step() -> Reply {
    let step = [
        reasoning("rs_1", "c2lnbmVk", "I must look"),
        message("msg_1", "Looking.", "commentary"),
        call("fc_1", "c1", "{\"pattern\":\"a\"}"),
        call("fc_2", "c2", "{}"),
    ];
    answer_of(&step, 20, 10)
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    answer_of(&[message("msg_2", "All is well.", "final_answer")], 30, 5)
}

/// Returns an error of the API.
pub fn refused(status: u16, message: &str, param: &str, code: &str) -> Reply {
    let error = json!({ "error": { "message": message, "type": "invalid_request_error",
        "param": param, "code": code } });
    Reply::error(status, error.to_string())
}

/// Returns the input of a recorded request.
pub fn input(server: &Server, request: usize) -> Vec<Value> {
    server.asked()[request].body["input"].as_array().unwrap().clone()
}
