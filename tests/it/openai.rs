//! Chat completions, against a stand-in that has every server's ways.

mod calls;
mod context;
mod editor;
mod failures;
mod learning;
mod reasoning;
mod streams;

use std::sync::Arc;

use serde_json::{Value, json};
use tandem_model::catalog::Catalog;
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::openai::OpenAi;
use tandem_model::options::RequestOptions;
use tandem_model::{Finish, Message, Prompt, Secret, ToolDeclaration};

use crate::api::server::{Reply, Server};
use crate::api::{ask_for_all as ask, assert_lines, options, prompt, user};

const MODEL: &str = "some/model-7b";
const KEY: &str = "sk-Test0123456789abcdef";
const STOP: &str = "finish: Stop 0/0/0/0";

fn endpoint(url: String) -> Endpoint {
    Endpoint { url, key: Some(Secret::new(KEY)), bearer: true, headers: Vec::new() }
}

fn model_at(endpoint: Endpoint, options: RequestOptions) -> OpenAi {
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let model = Catalog::embedded().lookup(&format!("openai:{MODEL}"));
    OpenAi::new(model, connect, options, Arc::default()).unwrap()
}

pub(crate) fn model(server: &Server, options: RequestOptions) -> OpenAi {
    model_at(endpoint(format!("{}/v1", server.address())), options)
}

async fn start(replies: Vec<Reply>) -> Server {
    Server::with_pages(replies, &[]).await
}

/// One event.
fn event(json: &Value) -> String {
    format!("data: {json}\n\n")
}

/// An event with this delta.
fn delta(delta: Value) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }))
}

/// An event that ends the answer.
fn end(reason: &str) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
}

const DONE: &str = "data: [DONE]\n\n";

/// A whole answer that says one thing.
fn text(text: &str) -> Reply {
    Reply::stream([&delta(json!({ "content": text })), &end("stop"), DONE].concat())
}

/// A stream of these deltas, ended as most servers do.
fn stream(deltas: Vec<Value>, reason: &str) -> Reply {
    let mut body: String = deltas.into_iter().map(delta).collect();
    body.push_str(&end(reason));
    Reply::stream(body + DONE)
}

/// Deltas with these tool calls, one each.
fn pieces(pieces: Vec<Value>) -> Vec<Value> {
    pieces.into_iter().map(|piece| json!({ "tool_calls": [piece] })).collect()
}

fn refused(status: u16, message: &str) -> Reply {
    let error = json!({ "error": { "message": message, "type": "invalid_request_error" } });
    Reply::error(status, error.to_string())
}

fn tool(name: &str, parameters: Value) -> ToolDeclaration {
    let description = "Does something.".to_owned();
    ToolDeclaration { name: name.to_owned(), description, parameters }
}

/// Asks once, and gets these replies.
async fn play(replies: Vec<Reply>) -> (Vec<String>, Server) {
    let (lines, _, server) = play_to(replies, prompt(vec![user("hi")]), options()).await;
    (lines, server)
}

async fn play_to(
    replies: Vec<Reply>,
    prompt: Prompt,
    options: RequestOptions,
) -> (Vec<String>, Option<Finish>, Server) {
    let server = start(replies).await;
    let (lines, end) = ask(&model(&server, options), prompt).await;
    (lines, end, server)
}

/// The messages of a recorded request.
fn messages(server: &Server, request: usize) -> Vec<Value> {
    server.asked()[request].body["messages"].as_array().unwrap().clone()
}

/// Returns the messages of an answer and of its calls' results, as a session keeps them.
fn after(finish: &Finish, text: &str, calls: &[(&str, &str, Value)]) -> Vec<Arc<Message>> {
    use tandem_model::{Assistant, Call, ToolResult};
    let call = |(id, name, args): &(&str, &str, Value)| Call {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        args: args.clone(),
    };
    let result = |(id, name, _): &(&str, &str, Value)| ToolResult {
        call: (*id).to_owned(),
        name: (*name).to_owned(),
        text: "done".to_owned(),
        failed: false,
        media: Vec::new(),
    };
    let native = finish.native.clone();
    let said = Assistant { text: text.to_owned(), calls: calls.iter().map(call).collect(), native };
    let results = Message::Results(calls.iter().map(result).collect());
    vec![user("hi"), Arc::new(Message::Assistant(said)), Arc::new(results)]
}
