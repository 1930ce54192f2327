//! The Responses API, against a stand-in that refuses what the API refuses.

mod failures;
mod history;
mod learning;
mod requests;
mod streams;
mod strict;
mod which;
mod whole;

use std::sync::Arc;

use serde_json::{Value, json};
use tandem_model::catalog::Catalog;
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::openai::{LearnedWires, OpenAi};
use tandem_model::options::RequestOptions;
use tandem_model::{Assistant, Call, Finish, Message, Prompt, Secret, ToolResult};

use crate::api::server::{Reply, Server};
use crate::api::{ask_for_all as ask, assert_lines, options, prompt, user};

pub(crate) use strict::check;

const MODEL: &str = "openai:gpt-6-sol";
const KEY: &str = "sk-Test0123456789abcdef";
const STOP: &str = "finish: Stop 40/8/6/4";

fn endpoint(server: &Server) -> Endpoint {
    let url = format!("{}/v1", server.address());
    Endpoint { url, key: Some(Secret::new(KEY)), bearer: true, headers: Vec::new() }
}

fn of_model(id: &str, endpoint: Endpoint, options: RequestOptions) -> OpenAi {
    learning(id, endpoint, options, &Arc::default())
}

fn learning(
    id: &str,
    endpoint: Endpoint,
    options: RequestOptions,
    learned: &Arc<LearnedWires>,
) -> OpenAi {
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    OpenAi::new(Catalog::embedded().lookup(id), connect, options, Arc::clone(learned)).unwrap()
}

pub(crate) fn model(server: &Server, options: RequestOptions) -> OpenAi {
    of_model(MODEL, endpoint(server), options)
}

pub(crate) async fn start(replies: Vec<Reply>) -> Server {
    Server::of_pages(replies, &[], Some(check)).await
}

/// A stand-in that refuses nothing but what the replies refuse.
async fn lenient(replies: Vec<Reply>) -> Server {
    Server::with_pages(replies, &[]).await
}

/// One event.
fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}

/// Events of the items, as the API streams them.
fn items(items: &[Value]) -> String {
    items.iter().enumerate().map(|(n, item)| item_events(n, item)).collect()
}

/// Events of one item: its beginning without content, its content in pieces, and its end.
fn item_events(n: usize, item: &Value) -> String {
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

/// The event that ends an answer: `completed` or `incomplete`.
fn end(kind: &str, more: Value) -> String {
    let mut response = json!({ "object": "response", "status": kind, "output": [], "usage": {
        "input_tokens": 40, "input_tokens_details": { "cached_tokens": 8, "cache_write_tokens": 2 },
        "output_tokens": 10, "output_tokens_details": { "reasoning_tokens": 4 },
        "total_tokens": 50,
    } });
    response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(&json!({ "type": format!("response.{kind}"), "response": response }))
}

/// A whole answer of these items.
fn answer(list: &[Value]) -> Reply {
    Reply::stream(items(list) + &end("completed", json!({})))
}

/// A whole answer with other usage.
/// Returns an answer of these items. `input` and `output` are numbers of tokens.
pub(crate) fn answer_of(list: &[Value], input: u64, output: u64) -> Reply {
    let usage = json!({ "input_tokens": input, "output_tokens": output });
    Reply::stream(items(list) + &end("completed", json!({ "usage": usage })))
}

pub(crate) fn message(id: &str, text: &str, phase: &str) -> Value {
    let content =
        json!([{ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }]);
    json!({ "type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": content, "phase": phase })
}

pub(crate) fn reasoning(id: &str, encrypted: &str, summary: &str) -> Value {
    let summary = json!([{ "type": "summary_text", "text": summary }]);
    json!({ "type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted })
}

pub(crate) fn call(id: &str, call_id: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": call_id, "name": "glob",
        "arguments": arguments, "status": "completed" })
}

/// A whole answer that says one thing.
fn text(text: &str) -> Reply {
    answer(&[message("msg_text", text, "final_answer")])
}

fn refused(status: u16, message: &str, param: &str, code: &str) -> Reply {
    let error = json!({ "error": { "message": message, "type": "invalid_request_error",
        "param": param, "code": code } });
    Reply::error(status, error.to_string())
}

/// Asks once, and gets these replies.
async fn play(replies: Vec<Reply>) -> (Vec<String>, Option<Finish>, Server) {
    let server = start(replies).await;
    let (lines, end) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    (lines, end, server)
}

/// Returns the messages of an answer and of its calls' results, as a session keeps them.
fn after(lines: &[String], finish: &Finish) -> Vec<Arc<Message>> {
    let text = lines.iter().filter_map(|line| line.strip_prefix("text: ")).collect();
    let parts = finish.native.iter().flat_map(|native| &native.parts);
    let called = parts.filter(|part| part["type"] == "function_call");
    let calls: Vec<_> = called
        .map(|part| Call {
            id: part["call_id"].as_str().unwrap().to_owned(),
            name: part["name"].as_str().unwrap().to_owned(),
            args: serde_json::from_str(part["arguments"].as_str().unwrap()).unwrap(),
        })
        .collect();
    let result = |call: &Call| result(&call.id, "done");
    let results = calls.iter().map(result).collect();
    let answer = Assistant { text, calls, native: finish.native.clone() };
    vec![user("hi"), Arc::new(Message::Assistant(answer)), Arc::new(Message::Results(results))]
}

fn result(call: &str, text: &str) -> ToolResult {
    let (call, name, text) = (call.to_owned(), "glob".to_owned(), text.to_owned());
    ToolResult { call, name, text, failed: false, media: Vec::new() }
}

/// Returns the body of the only request for a prompt.
async fn sent(id: &str, prompt: Prompt, options: RequestOptions) -> Value {
    let server = start(vec![text("ok")]).await;
    let (lines, _) = ask(&of_model(id, endpoint(&server), options), prompt).await;
    assert_lines(&lines, &["text: ok", STOP]);
    server.asked().pop().unwrap().body
}

/// Returns the input of a recorded request.
fn input(server: &Server, request: usize) -> Vec<Value> {
    server.asked()[request].body["input"].as_array().unwrap().clone()
}
