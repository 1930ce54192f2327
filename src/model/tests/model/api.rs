//! Stand-ins for the APIs of models, and functions that send prompts to a model.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tandem_model::answer_schema::AnswerSchema;
use tandem_model::catalog::{ModelProperties, SchemaEnforcement};
use tandem_model::options::RequestOptions;
use tandem_model::retry::RetryPolicy;
use tandem_model::{
    Chunk, Finish, FinishReason, Message, Model, Native, Part, Prompt, ToolDeclaration, Usage,
};
use tandem_net::Backoff;
use test_support::api_server::{Reply, Server};
use test_support::limit::HANG;

/// Number of times that a stream is cut at random.
const CUTS: u64 = 40;

/// Returns options with the shortest possible waits, and defaults otherwise.
pub(crate) fn options() -> RequestOptions {
    let quick = |RetryPolicy { attempts, backoff, patience }| {
        let (first, longest) = (Duration::from_millis(5), Duration::from_millis(20));
        RetryPolicy { attempts, backoff: Backoff { first, longest, ..backoff }, patience }
    };
    let usual = RequestOptions::default();
    RequestOptions {
        retry: quick(usual.retry.clone()),
        content_retry: quick(usual.content_retry.clone()),
        // The wait for the server's facts is long, because a busy machine may answer late.
        facts_wait: HANG,
        ..usual
    }
}

/// Returns the recorded bytes of an API's answer.
pub(crate) fn recorded(path: &str) -> Vec<u8> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models");
    std::fs::read(fixtures.join(path)).unwrap()
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User(vec![Part::Text(text.to_owned())]))
}

pub(crate) fn prompt(messages: Vec<Arc<Message>>) -> Prompt {
    let parameters = serde_json::json!({"type": "object"});
    let tool = ToolDeclaration::new("glob", "Finds files.", parameters);
    Prompt { system: "Be brief.".into(), messages, tools: [tool].into(), ..Prompt::default() }
}

/// Returns a prompt for an answer of this schema.
pub(crate) fn wanting(schema: serde_json::Value) -> Prompt {
    let answer_schema = Some(Arc::new(AnswerSchema::new(schema).unwrap()));
    Prompt { answer_schema, ..prompt(vec![user("hi")]) }
}

/// Returns the facts on a model as if its stand-in were the provider's own server.
pub(crate) fn at_provider(model: ModelProperties) -> ModelProperties {
    match model.answer_schema {
        SchemaEnforcement::Nowhere => model,
        _ => ModelProperties { answer_schema: SchemaEnforcement::Everywhere, ..model },
    }
}

/// Returns a schema that every API takes.
pub(crate) fn closed_schema() -> serde_json::Value {
    serde_json::json!({ "type": "object", "properties": { "a": { "type": "string" } },
        "required": ["a"], "additionalProperties": false })
}

/// Returns a line for each chunk of the answer to one prompt, with texts joined.
pub(crate) async fn ask(model: &dyn Model, prompt: Prompt) -> Vec<String> {
    let (mut lines, end) = ask_for_all(model, prompt).await;
    let native = end.and_then(|finish| finish.native);
    lines.extend(native.into_iter().flat_map(|native| kept(&native, model.id())));
    lines
}

/// Returns the lines of the answer to one prompt, without those of the native form, and the end of the answer.
pub(crate) async fn ask_for_all(
    model: &dyn Model,
    prompt: Prompt,
) -> (Vec<String>, Option<Finish>) {
    let mut lines: Vec<String> = Vec::new();
    let mut end = None;
    let mut chunks = model.stream(prompt);
    while let Some(chunk) = chunks.next().await {
        let joined = |lines: &mut Vec<String>, kind: &str, text: &str| match lines.last_mut() {
            Some(last) if last.starts_with(kind) => last.push_str(text),
            _ => lines.push(format!("{kind}{text}")),
        };
        match chunk {
            Ok(Chunk::Text(text)) => joined(&mut lines, "text: ", &text),
            Ok(Chunk::Thought(text)) => joined(&mut lines, "thought: ", &text),
            Ok(Chunk::Call(call)) => {
                // An id that the model has made up contains the time, so it is replaced by a fixed word.
                let made = call.id.starts_with(&format!("{}_1", call.name));
                let id = if made { "made" } else { call.id.as_str() };
                lines.push(format!("call: {}({}) {id}", call.name, call.args));
            }
            Ok(Chunk::Retry(retry)) => {
                let discard = if retry.discard { ", discard" } else { "" };
                let again = format!("{}/{}", retry.attempt, retry.of);
                lines.push(format!("retry: {}, {again}{discard}", retry.reason));
            }
            Ok(Chunk::Finish(finish)) => {
                lines.push(finished(&finish));
                end = Some(finish);
            }
            Err(error) => lines.push(format!("error: {error:?}")),
        }
    }
    (lines, end)
}

/// Returns the line for the end of an answer.
fn finished(Finish { reason, usage, .. }: &Finish) -> String {
    let reason = match reason {
        FinishReason::Refused(why) => format!("refused: {why}"),
        reason => format!("finish: {reason:?}"),
    };
    let Usage { input, cached, output, thoughts, .. } = usage;
    format!("{reason} {input}/{cached}/{output}/{thoughts}")
}

/// Returns the lines for the native form of an answer.
fn kept(Native { backend, model, parts }: &Native, asked: &str) -> Vec<String> {
    // A model id without a provider is an id of the Gemini API.
    let provider = backend.trim_end_matches("-responses");
    let id = if backend == "gemini" { model.clone() } else { format!("{provider}:{model}") };
    assert_eq!(id, asked);
    parts.iter().map(|part| format!("native: {part}")).collect()
}

#[track_caller]
pub(crate) fn assert_lines(lines: &[String], expected: &[&str]) {
    assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
}

/// Checks that a recorded stream gives the same lines when it is whole, has other line ends, or is cut at random.
pub(crate) async fn plays_however_cut<M: Model>(
    path: &str,
    model: impl FnOnce(&Server) -> M,
    expected: &[&str],
) {
    let whole = recorded(path);
    let text = String::from_utf8(whole.clone()).unwrap();
    let mut streams = vec![whole.clone()];
    if !text.contains("\r\n") {
        streams.extend(["\r\n", "\r"].map(|end| text.replace('\n', end).into_bytes()));
    }
    let replies = streams.into_iter().map(Reply::stream);
    let cut = (0..CUTS).map(|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let places = (0..random.usize(1..60)).map(|_| random.usize(..whole.len())).collect();
        Reply::stream(whole.clone()).cut_at(places)
    });
    let bytes = Reply::stream(whole.clone()).cut_at((1..whole.len()).collect());
    let replies: Vec<_> = replies.chain(cut).chain([bytes]).collect();
    let times = replies.len();
    let server = Server::with_pages(replies, &[]).await;
    let model = model(&server);
    for time in 0..times {
        let lines = ask(&model, prompt(vec![user("hi")])).await;
        assert_eq!(lines, expected, "{path}, time {time}:\n{}\n", lines.join("\n"));
    }
}
