//! The Responses API, against a stand-in that refuses what the API refuses.

mod failures;
mod history;
mod learning;
mod requests;
mod streams;
mod which;

use std::sync::Arc;

use serde_json::{Value, json};
use tandem_model::catalog::Catalog;
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::openai::{LearnedWires, OpenAi};
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::{Assistant, Call, Error, Finish, Message, Prompt, Secret, ToolResult};
use test_support::api_server::responses::{
    answer, call, end, event, input, item_events, items, message, reasoning, refused, start, text,
};
use test_support::api_server::{Reply, Server};

use crate::api::{
    ask_for_all as ask, assert_lines, at_provider, closed_schema, options, prompt, user, wanting,
};

const MODEL: &str = "openai:gpt-6-sol";
const KEY: &str = "sk-Test0123456789abcdef";
const STOP: &str = "finish: Stop 40/8/6/4";

fn endpoint(server: &Server) -> Endpoint {
    let url = format!("{}/v1", server.address());
    let key = Some(Secret::new(KEY));
    Endpoint { key, bearer: true, ..Endpoint::new(Provider::OpenAi, url) }
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
    OpenAi::new(at_provider(Catalog::embedded().lookup(id)), connect, options, Arc::clone(learned))
        .unwrap()
}

fn model(server: &Server, options: RequestOptions) -> OpenAi {
    of_model(MODEL, endpoint(server), options)
}

/// Starts a stand-in that refuses only what the replies refuse.
async fn lenient(replies: Vec<Reply>) -> Server {
    Server::with_pages(replies, &[]).await
}

/// Sends a prompt to a server with these replies. Returns the lines, the end of the answer, and the server.
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
