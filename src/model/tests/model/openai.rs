//! Chat completions, against a stand-in that behaves like each of many servers.

mod calls;
mod context;
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
use tandem_model::provider::Provider;
use tandem_model::{Finish, Message, Prompt, Secret, ToolDeclaration};
use test_support::api_server::openai::{DONE, delta, end, event, messages, refused, stream, text};
use test_support::api_server::{Reply, Server};

use crate::api::{
    ask_for_all as ask, assert_lines, at_provider, closed_schema, options, prompt, user, wanting,
};

const MODEL: &str = "some/model-7b";
const KEY: &str = "sk-Test0123456789abcdef";
const STOP: &str = "finish: Stop 0/0/0/0";

fn endpoint(url: String) -> Endpoint {
    let key = Some(Secret::new(KEY));
    Endpoint { key, bearer: true, ..Endpoint::new(Provider::OpenAi, url) }
}

fn model_at(endpoint: Endpoint, options: RequestOptions) -> OpenAi {
    of_model(MODEL, endpoint, options)
}

fn of_model(id: &str, endpoint: Endpoint, options: RequestOptions) -> OpenAi {
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let model = Catalog::embedded().lookup(&format!("openai:{id}"));
    OpenAi::new(at_provider(model), connect, options, Arc::default()).unwrap()
}

fn model(server: &Server, options: RequestOptions) -> OpenAi {
    model_at(endpoint(format!("{}/v1", server.address())), options)
}

async fn start(replies: Vec<Reply>) -> Server {
    Server::with_pages(replies, &[]).await
}

/// Returns deltas, each with one of these pieces of tool calls.
fn pieces(pieces: Vec<Value>) -> Vec<Value> {
    pieces.into_iter().map(|piece| json!({ "tool_calls": [piece] })).collect()
}

fn tool(name: &str, parameters: Value) -> ToolDeclaration {
    let description = "Does something.".to_owned();
    ToolDeclaration::new(name, description, parameters)
}

/// Sends a prompt to a server with these replies. Returns the lines of the answer, and the server.
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
