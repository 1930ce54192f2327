//! What the models of all APIs have in common.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tandem::model::options::Options;
use tandem::model::retry::Policy;
use tandem::model::{
    Chunk, Finish, FinishReason, Message, Model, Part, Prompt, ToolDeclaration, Usage,
};

/// Waits as short as they can be, and everything else as it is.
pub(crate) fn options() -> Options {
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

pub(crate) fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User(vec![Part::Text(text.to_owned())]))
}

pub(crate) fn tool(name: &str, parameters: Value) -> ToolDeclaration {
    let description = "Does something.".to_owned();
    ToolDeclaration { name: name.to_owned(), description, parameters }
}

/// A prompt with one tool, `glob`.
pub(crate) fn prompt(messages: Vec<Arc<Message>>) -> Prompt {
    let tools = [tool("glob", json!({ "type": "object", "properties": {} }))];
    Prompt { system: "Be brief.".into(), messages, tools: tools.into() }
}

/// What comes of one prompt: a line for each thing, texts joined; and the end of it.
pub(crate) async fn ask(model: &dyn Model, prompt: Prompt) -> (Vec<String>, Option<Finish>) {
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
                lines.push(format!("call: {}({}) {}", call.name, call.args, call.id));
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

fn finished(Finish { reason, usage, .. }: &Finish) -> String {
    let Usage { input, cached, output, thoughts } = usage;
    match reason {
        FinishReason::Refused(why) => format!("refused: {why}"),
        reason => format!("finish: {reason:?} {input}/{cached}/{output}/{thoughts}"),
    }
}

#[track_caller]
pub(crate) fn assert_lines(lines: &[String], expected: &[&str]) {
    assert_eq!(lines, expected, "\n{}\n", lines.join("\n"));
}
