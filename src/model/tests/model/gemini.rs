//! The Gemini model, against a stand-in for its API.

mod answers;
mod calls;
mod cancel;
mod credentials;
mod failures;
mod limits;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tandem_model::catalog::Catalog;
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::gemini::Gemini;
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::retry::RetryPolicy;
use tandem_model::{Chunk, Error, Message, Model as _, Native, Part, Prompt, Secret};
use test_support::api_server::{Reply, Server, event};

use crate::api::{
    self, ask, assert_lines, at_provider, closed_schema, options, prompt, user, wanting,
};

const MODEL: &str = "gemini-3.8-flash";
const KEY: &str = "AIzaSyTestKey0123456789";

fn endpoint(server: &Server) -> Endpoint {
    let key = Some(Secret::new(KEY));
    Endpoint { key, ..Endpoint::new(Provider::Gemini, server.models_url()) }
}

fn gemini(server: &Server, options: RequestOptions) -> Gemini {
    of_model(MODEL, endpoint(server), options)
}

fn of_model(id: &str, endpoint: Endpoint, options: RequestOptions) -> Gemini {
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    Gemini::new(at_provider(Catalog::embedded().lookup(id)), connect, options).unwrap()
}

/// Returns a reply with a recorded stream.
fn recorded(name: &str) -> Reply {
    Reply::stream(api::recorded(&format!("gemini/{name}.sse")))
}

/// Sends a prompt to a server with these replies. Returns the lines of the answer, and the server.
async fn play(replies: Vec<Reply>, options: RequestOptions) -> (Vec<String>, Server) {
    let server = Server::start(replies).await;
    let lines = ask(&gemini(&server, options), prompt(vec![user("hi")])).await;
    (lines, server)
}

/// Returns the error of a prompt that fails.
async fn error_of(gemini: &Gemini) -> Error {
    let chunks: Vec<_> = gemini.stream(prompt(vec![user("hi")])).collect().await;
    chunks.into_iter().last().unwrap().unwrap_err()
}

/// Returns the contents of a recorded request.
fn contents(body: &Value) -> &[Value] {
    body["contents"].as_array().unwrap()
}
