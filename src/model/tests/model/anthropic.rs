//! Anthropic's models, against a stand-in for their API.

mod answers;
mod conversations;
mod failures;
mod requests;
mod thinking;

use std::sync::Arc;

use serde_json::{Value, json};
use tandem_model::anthropic::Anthropic;
use tandem_model::catalog::Catalog;
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::{Error, Prompt, Secret};
use test_support::api_server::anthropic::says;
use test_support::api_server::{Reply, Server};

use crate::api::{self, ask, at_provider, closed_schema, options, prompt, user, wanting};

const MODEL: &str = "claude-opus-5-5";
const KEY: &str = "sk-ant-api03-TestKey0123456789";

fn endpoint(server: &Server) -> Endpoint {
    let key = Some(Secret::new(KEY));
    Endpoint { key, ..Endpoint::new(Provider::Anthropic, server.address().to_owned()) }
}

fn anthropic(server: &Server, options: RequestOptions) -> Anthropic {
    of_model(MODEL, endpoint(server), options)
}

fn of_model(id: &str, endpoint: Endpoint, options: RequestOptions) -> Anthropic {
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let model = Catalog::embedded().lookup(&format!("anthropic:{id}"));
    Anthropic::new(at_provider(model), connect, options).unwrap()
}

/// Returns a reply with a recorded stream.
fn recorded(name: &str) -> Reply {
    Reply::stream(api::recorded(&format!("anthropic/{name}.sse")))
}

/// Sends a prompt to a server with these replies. Returns the lines of the answer, and the server.
async fn play(replies: Vec<Reply>) -> (Vec<String>, Server) {
    let server = Server::start(replies).await;
    let lines = ask(&anthropic(&server, options()), prompt(vec![user("hi")])).await;
    (lines, server)
}

/// Returns the body of the request for a prompt.
async fn sent(id: &str, prompt: Prompt) -> Value {
    let server = Server::start(vec![says("ok")]).await;
    let lines = ask(&of_model(id, endpoint(&server), options()), prompt).await;
    assert_eq!(lines, ["text: ok", "finish: Stop 1/0/1/0"]);
    server.asked().pop().unwrap().body
}
