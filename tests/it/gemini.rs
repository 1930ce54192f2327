//! The Gemini model, against a stand-in for its API.

mod answers;
mod calls;
mod cancel;
mod credentials;
mod failures;
mod limits;
pub(crate) mod server;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tandem::model::catalog::Catalog;
use tandem::model::endpoint::{Connect, Endpoint};
use tandem::model::gemini::Gemini;
use tandem::model::options::Options;
use tandem::model::retry::Policy;
use tandem::model::{
    Chunk, Error, Finish, FinishReason, Message, Model as _, Native, Part, Prompt, Secret,
    ToolDeclaration,
};

use self::server::{Reply, Server};

const MODEL: &str = "gemini-3.8-flash";
const KEY: &str = "AIzaSyTestKey0123456789";

/// Waits as short as they can be, and everything else as it is.
fn options() -> Options {
    let quick = |policy: Policy| Policy {
        first: Duration::from_millis(5),
        cap: Duration::from_millis(20),
        ..policy
    };
    let usual = Options::default();
    Options {
        retry: quick(usual.retry.clone()),
        content_retry: quick(usual.content_retry.clone()),
        ..usual
    }
}

fn endpoint(server: &Server) -> Endpoint {
    Endpoint {
        url: server.models_url(),
        key: Some(Secret::new(KEY)),
        bearer: false,
        headers: Vec::new(),
    }
}

fn gemini(server: &Server, options: Options) -> Gemini {
    of_model(MODEL, endpoint(server), options)
}

fn of_model(id: &str, endpoint: Endpoint, options: Options) -> Gemini {
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    Gemini::new(Catalog::embedded().lookup(id), connect, options).unwrap()
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User(vec![Part::Text(text.to_owned())]))
}

fn prompt(messages: Vec<Arc<Message>>) -> Prompt {
    let tool = ToolDeclaration {
        name: "glob".to_owned(),
        description: "Finds files.".to_owned(),
        parameters: serde_json::json!({"type": "object"}),
    };
    Prompt { system: "Be brief.".into(), messages, tools: [tool].into() }
}

/// What comes of one prompt: a line for each thing, texts joined.
async fn ask(gemini: &Gemini, prompt: Prompt) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut chunks = gemini.stream(prompt);
    while let Some(chunk) = chunks.next().await {
        let joined = |lines: &mut Vec<String>, kind: &str, text: &str| match lines.last_mut() {
            Some(last) if last.starts_with(kind) => last.push_str(text),
            _ => lines.push(format!("{kind}{text}")),
        };
        match chunk {
            Ok(Chunk::Text(text)) => joined(&mut lines, "text: ", &text),
            Ok(Chunk::Thought(text)) => joined(&mut lines, "thought: ", &text),
            Ok(Chunk::Call(call)) => {
                // Ids that are made up hold the time.
                let made = call.id.starts_with(&format!("{}_1", call.name));
                let id = if made { "made" } else { call.id.as_str() };
                lines.push(format!("call: {}({}) {id}", call.name, call.args));
            }
            Ok(Chunk::Retry(retry)) => {
                let discard = if retry.discard { ", discard" } else { "" };
                let again = format!("{}/{}", retry.attempt, retry.of);
                lines.push(format!("retry: {}, {again}{discard}", retry.reason));
            }
            Ok(Chunk::Finish(finish)) => lines.extend(finished(finish)),
            Err(error) => lines.push(format!("error: {error:?}")),
        }
    }
    lines
}

fn finished(Finish { reason, usage, native }: Finish) -> Vec<String> {
    let reason = match reason {
        FinishReason::Refused(why) => format!("refused: {why}"),
        reason => format!("finish: {reason:?}"),
    };
    let tandem::model::Usage { input, cached, output, thoughts } = usage;
    let mut lines = vec![format!("{reason} {input}/{cached}/{output}/{thoughts}")];
    if let Some(Native { backend, model, parts }) = native {
        assert_eq!((backend.as_str(), model.as_str()), ("gemini", MODEL));
        lines.extend(parts.iter().map(|part| format!("native: {part}")));
    }
    lines
}

/// Asks once, and gets these replies.
async fn play(replies: Vec<Reply>, options: Options) -> (Vec<String>, Server) {
    let server = Server::start(replies).await;
    let lines = ask(&gemini(&server, options), prompt(vec![user("hi")])).await;
    (lines, server)
}

#[track_caller]
fn assert_lines(lines: &[String], expected: &[&str]) {
    assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
}

/// What an error says, without its kind.
async fn error_of(gemini: &Gemini) -> Error {
    let chunks: Vec<_> = gemini.stream(prompt(vec![user("hi")])).collect().await;
    chunks.into_iter().last().unwrap().unwrap_err()
}

/// The contents of a recorded request.
fn contents(body: &Value) -> &[Value] {
    body["contents"].as_array().unwrap()
}
