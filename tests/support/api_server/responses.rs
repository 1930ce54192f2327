//! The Responses API: answers in its own words, and a stand-in that refuses what the API refuses.

mod strict;

use serde_json::{Value, json};

use super::{Reply, Server, fields};

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
    let content = match item["type"].as_str().unwrap() {
        "message" => {
            begun["content"] = json!([]);
            begun["status"] = json!("in_progress");
            listed(item, "content")
                .iter()
                .enumerate()
                .flat_map(|(at, part)| message_part(at, part))
                .collect()
        }
        "reasoning" => {
            begun["summary"] = json!([]);
            begun["encrypted_content"] = json!("not whole");
            listed(item, "summary")
                .iter()
                .enumerate()
                .flat_map(|(at, part)| summary_part(at, part))
                .collect()
        }
        "function_call" => {
            begun["arguments"] = json!("");
            begun["status"] = json!("in_progress");
            let arguments = item["arguments"].as_str().unwrap();
            let done = json!({ "name": item["name"], "arguments": arguments });
            pieces("function_call_arguments", &json!({}), arguments, done)
        }
        "custom_tool_call" => {
            begun["input"] = json!("");
            let input = item["input"].as_str().unwrap();
            pieces("custom_tool_call_input", &json!({}), input, json!({ "input": input }))
        }
        _ => Vec::new(),
    };
    let added = json!({ "type": "response.output_item.added", "output_index": n, "item": begun });
    let done = json!({ "type": "response.output_item.done", "output_index": n, "item": item });
    let place = json!({ "item_id": item["id"], "output_index": n });
    let content = content.into_iter().map(|event| merged(event, &place));
    [added].into_iter().chain(content).chain([done]).map(|json| event(&json)).collect()
}

fn listed(item: &Value, field: &str) -> Vec<Value> {
    item[field].as_array().cloned().unwrap_or_default()
}

/// Returns the events of a part of a message.
fn message_part(at: usize, part: &Value) -> Vec<Value> {
    let place = json!({ "content_index": at });
    let (field, name, more) = if part["type"] == "refusal" {
        ("refusal", "refusal", json!({}))
    } else {
        ("text", "output_text", json!({ "logprobs": [] }))
    };
    let text = part[field].as_str().unwrap();
    let events = pieces(name, &merged(more, &place), text, json!({ field: text }));
    enclosed("content_part", &place, part, field, events)
}

/// Returns the events of a part of the summary of reasoning.
fn summary_part(at: usize, part: &Value) -> Vec<Value> {
    let place = json!({ "summary_index": at });
    let text = part["text"].as_str().unwrap();
    let events = pieces("reasoning_summary_text", &place, text, json!({ "text": text }));
    enclosed("reasoning_summary_part", &place, part, "text", events)
}

/// Returns events between the beginning of a part, whose text in `field` is still empty, and its end.
fn enclosed(
    name: &str,
    place: &Value,
    part: &Value,
    field: &str,
    events: Vec<Value>,
) -> Vec<Value> {
    let mut begun = part.clone();
    begun[field] = json!("");
    let edge = |edge: &str, part: &Value| {
        merged(json!({ "type": format!("response.{name}.{edge}"), "part": part }), place)
    };
    [edge("added", &begun)].into_iter().chain(events).chain([edge("done", part)]).collect()
}

/// Returns the events of a text in pieces, and the event of its end with the fields of `done`.
fn pieces(name: &str, place: &Value, text: &str, done: Value) -> Vec<Value> {
    let chars: Vec<_> = text.chars().collect();
    let deltas = chars.chunks(5).map(|piece| {
        let piece: String = piece.iter().collect();
        merged(json!({ "type": format!("response.{name}.delta"), "delta": piece }), place)
    });
    let done = merged(merged(json!({ "type": format!("response.{name}.done") }), place), &done);
    deltas.chain([done]).collect()
}

fn merged(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Returns the event that ends an answer: `completed` or `incomplete`.
pub fn end(kind: &str, more: Value) -> String {
    let response = merged(json!({ "usage": detailed_usage() }), &more);
    let response = merged(response_object(kind), &response);
    event(&json!({ "type": format!("response.{kind}"), "response": response }))
}

fn response_object(status: &str) -> Value {
    json!({ "id": "resp_1", "object": "response", "created_at": 1_795_900_000, "status": status,
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
        "model": "gpt-6-sol-2026-09-22", "output": [], "parallel_tool_calls": true, "store": false,
        "tool_choice": "auto", "tools": [], "usage": null })
}

/// Returns the usage of an answer for which a part of the prompt was in the cache, and the model has thought.
fn detailed_usage() -> Value {
    let mut usage = usage(40, 10);
    usage["input_tokens_details"] = json!({ "cached_tokens": 8, "cache_write_tokens": 2 });
    usage["output_tokens_details"] = json!({ "reasoning_tokens": 4 });
    usage
}

fn usage(input: u64, output: u64) -> Value {
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + output,
    })
}

/// Returns a whole answer with these items.
pub fn answer(list: &[Value]) -> Reply {
    whole(list, &detailed_usage())
}

/// Returns an answer of these items. `input` and `output` are numbers of tokens.
pub fn answer_of(list: &[Value], input: u64, output: u64) -> Reply {
    whole(list, &usage(input, output))
}

fn whole(list: &[Value], usage: &Value) -> Reply {
    let begun = ["created", "in_progress"].map(|name| {
        event(&json!({ "type": format!("response.{name}"), "response": response_object("in_progress") }))
    });
    let done = end("completed", json!({ "output": list, "usage": usage }));
    let stream = begun.concat() + &items(list) + &done;
    let events = fields::events(stream.as_bytes()).into_iter().enumerate();
    let numbered = events.map(|(n, event)| {
        let event = merged(event, &json!({ "sequence_number": n }));
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    });
    Reply::stream(numbered.collect::<String>())
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
    step_with("glob", r#"{"pattern":"a"}"#)
}

/// Returns the first answer of a conversation, which calls another tool: with these arguments, and without any.
pub fn step_with(tool: &str, arguments: &str) -> Reply {
    let named = |call: Value| merged(call, &json!({ "name": tool }));
    let step = [
        reasoning("rs_1", "c2lnbmVk", "I must look"),
        message("msg_1", "Looking.", "commentary"),
        named(call("fc_1", "c1", arguments)),
        named(call("fc_2", "c2", "{}")),
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
