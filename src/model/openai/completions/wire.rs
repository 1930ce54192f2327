//! Events of servers, as far as they are read. Any field may be missing, null or of another type.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::Usage;
use crate::answer_size::json_values;

type Raw<'a> = Option<&'a RawValue>;

/// Data of one event, or the complete answer of a server that does not stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatCompletionChunk<'a> {
    #[serde(borrow)]
    choices: Raw<'a>,
    #[serde(borrow)]
    pub(super) error: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
}

/// The only answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    delta: Raw<'a>,
    #[serde(borrow)]
    message: Raw<'a>,
    #[serde(borrow)]
    finish_reason: Raw<'a>,
    #[serde(borrow)]
    pub(super) error: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
}

/// A piece of the message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    refusal: Raw<'a>,
    #[serde(borrow)]
    reasoning_content: Raw<'a>,
    #[serde(borrow)]
    reasoning: Raw<'a>,
    #[serde(borrow)]
    reasoning_details: Raw<'a>,
    #[serde(borrow)]
    tool_calls: Raw<'a>,
}

/// A part of a message's content.
pub(super) enum ContentPart {
    Text(String),
    /// Mistral's reasoning, as it was received.
    Thinking(Value),
}

impl<'a> ChatCompletionChunk<'a> {
    /// Returns the only answer.
    pub(super) fn choice(&self) -> Option<Choice<'a>> {
        let choices: Vec<Choice<'a>> = serde_json::from_str(self.choices?.get()).ok()?;
        choices.into_iter().next()
    }

    /// Returns the tokens used so far, if the event has them.
    pub(super) fn usage(&self, choice: Option<&Choice<'_>>) -> Option<Usage> {
        let usage = self.usage.or(choice.and_then(|choice| choice.usage));
        read(usage).and_then(|usage| read_usage(&usage))
    }
}

impl<'a> Choice<'a> {
    pub(super) fn delta(&self) -> Delta<'a> {
        let raw = self.delta.or(self.message);
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    pub(super) fn finish_reason(&self) -> Option<String> {
        string(self.finish_reason)
    }
}

impl Delta<'_> {
    /// Returns the size in bytes of the fields that are preserved.
    pub(super) fn size(&self) -> usize {
        let fields = [
            self.content,
            self.refusal,
            self.reasoning_content,
            self.reasoning,
            self.reasoning_details,
            self.tool_calls,
        ];
        fields.into_iter().flatten().map(|raw| raw.get().len()).sum()
    }

    /// Estimates the number of JSON values in the fields that are not text.
    pub(super) fn values(&self) -> usize {
        let fields = [self.reasoning_details, self.tool_calls];
        fields.into_iter().flatten().map(|raw| json_values(raw.get().as_bytes())).sum()
    }

    /// Returns text and Mistral's reasoning, in their order.
    pub(super) fn content(&self) -> Vec<ContentPart> {
        let text = |text: String| (!text.is_empty()).then_some(ContentPart::Text(text));
        match read(self.content) {
            Some(Value::String(content)) => text(content).into_iter().collect(),
            Some(Value::Array(parts)) => parts.into_iter().filter_map(part).collect(),
            _ => string(self.refusal).and_then(text).into_iter().collect(),
        }
    }

    /// Returns the fields for reasoning: `reasoning_content` and `reasoning`.
    pub(super) fn reasoning(&self) -> [(&'static str, Option<String>); 2] {
        [
            ("reasoning_content", string(self.reasoning_content)),
            ("reasoning", string(self.reasoning)),
        ]
    }

    /// Returns `OpenRouter`'s form of reasoning.
    pub(super) fn reasoning_details(&self) -> Vec<Map<String, Value>> {
        objects(self.reasoning_details)
    }

    pub(super) fn tool_calls(&self) -> Vec<Map<String, Value>> {
        objects(self.tool_calls)
    }
}

fn part(part: Value) -> Option<ContentPart> {
    let text = |field: &str| part.get(field).and_then(Value::as_str).unwrap_or_default();
    match part.get("type").and_then(Value::as_str) {
        Some("thinking") => Some(ContentPart::Thinking(part)),
        _ => Some(ContentPart::Text(text("text").to_owned())).filter(|_| !text("text").is_empty()),
    }
}

fn read<T: DeserializeOwned>(raw: Raw<'_>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn string(raw: Raw<'_>) -> Option<String> {
    read(raw).filter(|text: &String| !text.is_empty())
}

fn objects(raw: Raw<'_>) -> Vec<Map<String, Value>> {
    let objects = |value| match value {
        Value::Object(object) => vec![object],
        Value::Array(values) => values
            .into_iter()
            .filter_map(|value| match value {
                Value::Object(object) => Some(object),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    read(raw).map(objects).unwrap_or_default()
}

fn read_usage(usage: &Value) -> Option<Usage> {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let (input, output) = (number("/prompt_tokens"), number("/completion_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached =
        number("/prompt_tokens_details/cached_tokens").or(number("/prompt_cache_hit_tokens"));
    let thoughts = number("/completion_tokens_details/reasoning_tokens").unwrap_or_default();
    Some(Usage {
        input: input.unwrap_or_default(),
        cached: cached.unwrap_or_default(),
        written: 0,
        output: output.unwrap_or_default().saturating_sub(thoughts),
        thoughts,
    })
}
