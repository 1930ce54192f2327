//! Converts conversations to messages of the API. The model's own answers are sent back exactly as they came.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::names::{self, CallIds};
use crate::{Assistant, Message, Native, ToolResult};
use tandem_content::media::Media;

/// Backend name of native answers.
pub(super) const BACKEND_NAME: &str = "anthropic";
/// Text of a failed result without a text: the API accepts no empty error.
const UNKNOWN_ERROR: &str = "It failed, and nothing is known of why.";

/// Capabilities of the target model.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnthropicTarget<'a> {
    /// Id of the model.
    pub(super) model: &'a str,
    /// Signatures of thinking that the server has refused.
    pub(super) refused: &'a RefusedSignatures,
}

/// Signatures that a server has refused.
pub(super) type RefusedSignatures = HashSet<String>;

/// One turn of the user or the model.
#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    pub(super) role: &'static str,
    pub(super) content: Vec<ContentBlock<'a>>,
}

/// A content block, with the mark that the prompt up to it is to be cached.
#[derive(Debug, Serialize)]
pub(super) struct ContentBlock<'a> {
    #[serde(flatten)]
    block: SentBlock<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// A mark that the prompt up to here is to be cached.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(super) struct CacheControl {}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum SentBlock<'a> {
    /// A part as it was received.
    Native(&'a Map<String, Value>),
    /// A part as it was received, except for a few fields.
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
    /// Adds a text.
    pub(super) fn say(&mut self, text: &'a str) {
        self.content.push(Own::Text { text: text.into() }.into());
    }
}

impl<'a> From<Own<'a>> for ContentBlock<'a> {
    fn from(own: Own<'a>) -> Self {
        Self { block: SentBlock::Own(own), cache_control: None }
    }
}

/// Converts a conversation that was hardened with [`speaks`].
pub(super) fn turns<'a>(
    messages: &'a [Arc<Message>],
    target: AnthropicTarget<'_>,
) -> Vec<Turn<'a>> {
    let mut ids = CallIds::default();
    let mut called = Vec::new();
    let turns = messages.iter().map(|message| match &**message {
        Message::User(parts) => {
            Turn { role: "user", content: parts.iter().map(content_block).collect() }
        }
        Message::Assistant(answer) => {
            let content;
            (content, called) =
                echoed(answer, target, &mut ids).unwrap_or_else(|| retold(answer, &mut ids));
            Turn { role: "assistant", content }
        }
        Message::Results(results) => {
            Turn { role: "user", content: result_blocks(results, mem::take(&mut called)) }
        }
    });
    turns.collect()
}

/// Returns the turn with the first part of an unfinished answer, which the next answer continues.
pub(super) fn so_far(parts: &[Value]) -> Turn<'_> {
    let parts = parts.iter().filter_map(Value::as_object).filter(|part| !is_blank(part));
    let content = |part| ContentBlock { block: SentBlock::Native(part), cache_control: None };
    Turn { role: "assistant", content: parts.map(content).collect() }
}

/// Marks the ends of the last two turns of the user for the cache: the prompt before them is the same in the next
/// request.
pub(super) fn mark(turns: &mut [Turn<'_>]) {
    let users = turns.iter_mut().rev().filter(|turn| turn.role == "user");
    // The API allows four marks in a request: one is on the tools, and one on the system text.
    for last in users.take(2).filter_map(|turn| turn.content.last_mut()) {
        last.cache_control = Some(CacheControl {});
    }
}

/// Returns `true` if any of an answer's native parts are sent to the target.
pub(super) fn speaks(answer: &Assistant, native: &Native, target: AnthropicTarget<'_>) -> bool {
    holds(native, answer) && native.parts.iter().any(|part| kept(part, native, target).is_some())
}

/// Returns `true` if the running turn began with thinking, or has only begun. A model that thinks at the beginning
/// of turns must not begin to think in the middle of a turn.
pub(super) fn turn_thinks(messages: &[Arc<Message>], target: AnthropicTarget<'_>) -> bool {
    let turn = messages.iter().rposition(|message| matches!(&**message, Message::User(_)));
    let first = turn.and_then(|turn| messages.get(turn + 1));
    let Some(Message::Assistant(answer)) = first.map(|message| &**message) else { return true };
    let native = answer.native.as_ref().filter(|native| holds(native, answer));
    let mut parts = native
        .into_iter()
        .flat_map(|native| native.parts.iter().filter_map(|part| kept(part, native, target)));
    parts.next().is_some_and(is_thinking)
}

/// Returns the signatures of thinking in a conversation.
pub(super) fn signatures(messages: &[Arc<Message>]) -> impl Iterator<Item = &str> {
    let natives = messages.iter().filter_map(|message| match &**message {
        Message::Assistant(answer) => answer.native.as_ref(),
        Message::User(_) | Message::Results(_) => None,
    });
    let ours = natives.filter(|native| native.backend == BACKEND_NAME);
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

fn content_block(part: &crate::Part) -> ContentBlock<'_> {
    match part {
        crate::Part::Text(text) => Own::Text { text: text.into() }.into(),
        crate::Part::Media(media) => media_block(media).into(),
    }
}

/// Returns the answer's native parts and the ids of its calls, if the parts are this API's and fit the answer.
fn echoed<'a>(
    answer: &'a Assistant,
    target: AnthropicTarget<'_>,
    ids: &mut CallIds,
) -> Option<(Vec<ContentBlock<'a>>, Vec<String>)> {
    let native = answer.native.as_ref().filter(|native| holds(native, answer))?;
    let mut called = Vec::new();
    let content = native.parts.iter().filter_map(|part| {
        let part = kept(part, native, target)?;
        let block = if kind(part) == "tool_use" {
            call_again(part, ids, &mut called)
        } else {
            SentBlock::Native(part)
        };
        Some(ContentBlock { block, cache_control: None })
    });
    let content: Vec<_> = content.collect();
    (!content.is_empty()).then_some((content, called))
}

/// Returns a call as it was received, except that an id or arguments which the API would refuse are replaced.
fn call_again<'a>(
    part: &'a Map<String, Value>,
    ids: &mut CallIds,
    called: &mut Vec<String>,
) -> SentBlock<'a> {
    let came = part.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = ids.unique(came);
    called.push(id.clone());
    let input = part.get("input").unwrap_or(&Value::Null);
    if id == came && input.is_object() {
        return SentBlock::Native(part);
    }
    let mut changed = part.clone();
    changed.insert("id".to_owned(), json!(id));
    changed.insert("input".to_owned(), names::arguments(input).into_owned());
    SentBlock::Changed(changed)
}

/// Returns `true` if the native parts are this API's and have the same calls as the answer.
fn holds(native: &Native, answer: &Assistant) -> bool {
    let parts = native.parts.iter().filter_map(Value::as_object);
    let calls = parts.filter(|part| kind(part) == "tool_use");
    let called = calls.map(|call| call.get("name").and_then(Value::as_str).unwrap_or_default());
    native.backend == BACKEND_NAME
        && called.eq(answer.calls.iter().map(|call| names::accepted(&call.name)))
}

/// Returns a native part if the API accepts it back. Blank text, refused thinking and thinking of another model are
/// left out; of another model's parts, only the kinds are sent that every model understands.
fn kept<'a>(
    part: &'a Value,
    native: &Native,
    target: AnthropicTarget<'_>,
) -> Option<&'a Map<String, Value>> {
    let part = part.as_object()?;
    let own = native.model == target.model;
    let keeps = match kind(part) {
        "text" => !is_blank(part),
        "tool_use" => true,
        "thinking" | "redacted_thinking" => {
            own && signature(part).is_none_or(|it| !target.refused.contains(it))
        }
        _ => own,
    };
    keeps.then_some(part)
}

fn is_blank(part: &Map<String, Value>) -> bool {
    let text = part.get("text").and_then(Value::as_str);
    kind(part) == "text" && text.is_none_or(|text| text.trim().is_empty())
}

/// Converts an answer that has no native parts for this API.
fn retold<'a>(answer: &'a Assistant, ids: &mut CallIds) -> (Vec<ContentBlock<'a>>, Vec<String>) {
    let text = Some(answer.text.as_str()).filter(|text| !text.trim().is_empty());
    let mut content: Vec<ContentBlock<'_>> =
        text.map(|text| Own::Text { text: text.into() }.into()).into_iter().collect();
    let called: Vec<_> = answer.calls.iter().map(|call| ids.unique(&call.id)).collect();
    content.extend(answer.calls.iter().zip(&called).map(|(call, id)| {
        let name = names::accepted(&call.name);
        Own::ToolUse { id: id.clone(), name, input: names::arguments(&call.args) }.into()
    }));
    (content, called)
}

/// Returns one result for each call, followed by the media that cannot be in a result.
fn result_blocks(results: &[ToolResult], called: Vec<String>) -> Vec<ContentBlock<'_>> {
    let parts = results.iter().zip(called).map(|(result, tool_use_id)| {
        let text = match result.text.as_str() {
            text if !text.trim().is_empty() => Some(text),
            _ => result.failed.then_some(UNKNOWN_ERROR),
        };
        let text = text.map(|text| Own::Text { text: text.into() });
        // The API accepts only text in an error.
        let media = result.media.iter().filter(|_| !result.failed).map(media_block);
        let content = text.into_iter().chain(media).collect();
        Own::ToolResult { tool_use_id, content, is_error: result.failed }.into()
    });
    let failed = results.iter().filter(|result| result.failed);
    let beside = failed.flat_map(|result| &result.media).map(|media| media_block(media).into());
    parts.chain(beside).collect()
}

/// Converts media, or replaces them with a text if the API does not accept their type.
fn media_block(media: &Media) -> Own<'_> {
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

#[cfg(test)]
mod tests;
