//! The conversation as the API takes it: what the model said goes back exactly as it came.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::BACKEND;
use crate::media::Media;
use crate::model::names::{self, Ids};
use crate::model::{self, Assistant, Message, Native, ToolResult};

/// What a result says that says nothing: the API takes no empty error.
const NOTHING: &str = "It failed, and nothing is known of why.";

/// Who is told the conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listener<'a> {
    /// The model that is asked.
    pub(super) model: &'a str,
    /// The thinking, by its signatures, that has been refused.
    pub(super) refused: &'a Refused,
}

/// Signatures that a server has refused.
pub(super) type Refused = HashSet<String>;

/// One turn of one side.
#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    pub(super) role: &'static str,
    pub(super) content: Vec<Content<'a>>,
}

/// A block; all that the model was told up to it may be kept for the next request.
#[derive(Debug, Serialize)]
pub(super) struct Content<'a> {
    #[serde(flatten)]
    block: Block<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// Until where the prompt is to be cached.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(super) struct CacheControl {}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Block<'a> {
    /// As it came.
    Native(&'a Map<String, Value>),
    /// Nearly as it came.
    Changed(Map<String, Value>),
    Own(Own<'a>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Own<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Self>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "base64")]
struct Source<'a> {
    media_type: &'a str,
    data: &'a str,
}

impl<'a> Turn<'a> {
    /// Says one thing more.
    pub(super) fn say(&mut self, text: &'a str) {
        self.content.push(Own::Text { text: text.into() }.into());
    }
}

impl<'a> From<Own<'a>> for Content<'a> {
    fn from(own: Own<'a>) -> Self {
        Self { block: Block::Own(own), cache_control: None }
    }
}

/// A conversation in the API's words. It must have been hardened with [`speaks`].
pub(super) fn turns<'a>(messages: &'a [Arc<Message>], listener: Listener<'_>) -> Vec<Turn<'a>> {
    let mut ids = Ids::default();
    let mut called = Vec::new();
    let turns = messages.iter().map(|message| match &**message {
        Message::User(parts) => Turn { role: "user", content: parts.iter().map(said).collect() },
        Message::Assistant(answer) => {
            let content;
            (content, called) =
                echoed(answer, listener, &mut ids).unwrap_or_else(|| retold(answer, &mut ids));
            Turn { role: "assistant", content }
        }
        Message::Results(results) => {
            Turn { role: "user", content: told(results, mem::take(&mut called)) }
        }
    });
    turns.collect()
}

/// What the model has said so far of an answer that goes on.
pub(super) fn so_far(parts: &[Value]) -> Turn<'_> {
    let parts = parts.iter().filter_map(Value::as_object).filter(|part| !is_blank(part));
    let content = |part| Content { block: Block::Native(part), cache_control: None };
    Turn { role: "assistant", content: parts.map(content).collect() }
}

/// Marks the ends of the last two turns of the user: what comes before them is the same the next
/// time.
pub(super) fn mark(turns: &mut [Turn<'_>]) {
    let users = turns.iter_mut().rev().filter(|turn| turn.role == "user");
    for last in users.take(2).filter_map(|turn| turn.content.last_mut()) {
        last.cache_control = Some(CacheControl {});
    }
}

/// Whether anything of an answer's native parts can be sent to this listener.
pub(super) fn speaks(answer: &Assistant, native: &Native, listener: Listener<'_>) -> bool {
    holds(native, answer) && native.parts.iter().any(|part| kept(part, native, listener).is_some())
}

/// Whether a model that thinks whenever a turn begins did so in the turn that runs: it is not to
/// think in the middle of one.
pub(super) fn turn_thinks(messages: &[Arc<Message>], listener: Listener<'_>) -> bool {
    let turn = messages.iter().rposition(|message| matches!(&**message, Message::User(_)));
    let first = turn.and_then(|turn| messages.get(turn + 1));
    let Some(Message::Assistant(answer)) = first.map(|message| &**message) else { return true };
    let native = answer.native.as_ref().filter(|native| holds(native, answer));
    let mut parts = native
        .into_iter()
        .flat_map(|native| native.parts.iter().filter_map(|part| kept(part, native, listener)));
    parts.next().is_some_and(is_thinking)
}

/// The signatures of a conversation, as [`Refused`] has them.
pub(super) fn signatures(messages: &[Arc<Message>]) -> impl Iterator<Item = &str> {
    let natives = messages.iter().filter_map(|message| match &**message {
        Message::Assistant(answer) => answer.native.as_ref(),
        Message::User(_) | Message::Results(_) => None,
    });
    let ours = natives.filter(|native| native.backend == BACKEND);
    ours.flat_map(|native| &native.parts).filter_map(|part| signature(part.as_object()?))
}

fn signature(part: &Map<String, Value>) -> Option<&str> {
    let text = |field| part.get(field).and_then(Value::as_str);
    text("signature").or(text("data")).filter(|_| is_thinking(part))
}

fn kind(part: &Map<String, Value>) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_thinking(part: &Map<String, Value>) -> bool {
    matches!(kind(part), "thinking" | "redacted_thinking")
}

fn said(part: &model::Part) -> Content<'_> {
    match part {
        model::Part::Text(text) => Own::Text { text: text.into() }.into(),
        model::Part::Media(media) => shown(media).into(),
    }
}

/// What the model said as it came, if it came from this API and has not been tampered with.
fn echoed<'a>(
    answer: &'a Assistant,
    listener: Listener<'_>,
    ids: &mut Ids,
) -> Option<(Vec<Content<'a>>, Vec<String>)> {
    let native = answer.native.as_ref().filter(|native| holds(native, answer))?;
    let mut called = Vec::new();
    let content = native.parts.iter().filter_map(|part| {
        let part = kept(part, native, listener)?;
        let block = if kind(part) == "tool_use" {
            call_again(part, ids, &mut called)
        } else {
            Block::Native(part)
        };
        Some(Content { block, cache_control: None })
    });
    let content: Vec<_> = content.collect();
    (!content.is_empty()).then_some((content, called))
}

/// A call as it came, but for what the API would refuse.
fn call_again<'a>(
    part: &'a Map<String, Value>,
    ids: &mut Ids,
    called: &mut Vec<String>,
) -> Block<'a> {
    let came = part.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = ids.unique(came);
    called.push(id.clone());
    let input = part.get("input").unwrap_or(&Value::Null);
    if id == came && input.is_object() {
        return Block::Native(part);
    }
    let mut changed = part.clone();
    changed.insert("id".to_owned(), json!(id));
    changed.insert("input".to_owned(), object(input).into_owned());
    Block::Changed(changed)
}

/// Whether the native parts have the same calls as the answer.
fn holds(native: &Native, answer: &Assistant) -> bool {
    let parts = native.parts.iter().filter_map(Value::as_object);
    let calls = parts.filter(|part| kind(part) == "tool_use");
    let called = calls.map(|call| call.get("name").and_then(Value::as_str).unwrap_or_default());
    native.backend == BACKEND
        && called.eq(answer.calls.iter().map(|call| names::accepted(&call.name)))
}

/// A native part, if the API takes it back: no text that says nothing, and no thinking but the
/// model's own. Of another model only what all understand.
fn kept<'a>(
    part: &'a Value,
    native: &Native,
    listener: Listener<'_>,
) -> Option<&'a Map<String, Value>> {
    let part = part.as_object()?;
    let own = native.model == listener.model;
    let keeps = match kind(part) {
        "text" => !is_blank(part),
        "tool_use" => true,
        "thinking" | "redacted_thinking" => {
            own && signature(part).is_none_or(|it| !listener.refused.contains(it))
        }
        _ => own,
    };
    keeps.then_some(part)
}

fn is_blank(part: &Map<String, Value>) -> bool {
    let text = part.get("text").and_then(Value::as_str);
    kind(part) == "text" && text.is_none_or(|text| text.trim().is_empty())
}

/// What a model of another provider said, or what nobody knows the parts of any more.
fn retold<'a>(answer: &'a Assistant, ids: &mut Ids) -> (Vec<Content<'a>>, Vec<String>) {
    let text = Some(answer.text.as_str()).filter(|text| !text.trim().is_empty());
    let mut content: Vec<Content<'_>> =
        text.map(|text| Own::Text { text: text.into() }.into()).into_iter().collect();
    let called: Vec<_> = answer.calls.iter().map(|call| ids.unique(&call.id)).collect();
    content.extend(answer.calls.iter().zip(&called).map(|(call, id)| {
        let name = names::accepted(&call.name);
        Own::ToolUse { id: id.clone(), name, input: object(&call.args) }.into()
    }));
    (content, called)
}

/// One result for each call, before all else, and after them what cannot be in a result.
fn told(results: &[ToolResult], called: Vec<String>) -> Vec<Content<'_>> {
    let parts = results.iter().zip(called).map(|(result, tool_use_id)| {
        let text = match result.text.as_str() {
            text if !text.trim().is_empty() => Some(text),
            _ => result.failed.then_some(NOTHING),
        };
        let text = text.map(|text| Own::Text { text: text.into() });
        // The API takes nothing but text in an error.
        let media = result.media.iter().filter(|_| !result.failed).map(shown);
        let content = text.into_iter().chain(media).collect();
        Own::ToolResult { tool_use_id, content, is_error: result.failed }.into()
    });
    let failed = results.iter().filter(|result| result.failed);
    let beside = failed.flat_map(|result| &result.media).map(|media| shown(media).into());
    parts.chain(beside).collect()
}

/// What the model can look at, or a word in its place.
fn shown(media: &Media) -> Own<'_> {
    let source = Source { media_type: &media.mime_type, data: &media.data };
    match media.mime_type.as_str() {
        "image/jpeg" | "image/png" | "image/gif" | "image/webp" => Own::Image { source },
        "application/pdf" => Own::Document { source },
        other => Own::Text {
            text: format!("[Something of the type {other} is here, which you cannot be shown.]")
                .into(),
        },
    }
}

/// Arguments are always an object; what is not becomes the only field of one.
fn object(args: &Value) -> Cow<'_, Value> {
    match args {
        Value::Object(_) => Cow::Borrowed(args),
        Value::Null => Cow::Owned(json!({})),
        other => Cow::Owned(json!({ "input": other })),
    }
}

#[cfg(test)]
mod tests;
