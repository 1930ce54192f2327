//! Parts of an answer that are sent back as they were received: reasoning, under the field in which it came, and
//! other fields of calls.

use serde_json::{Map, Value, json};

use crate::Native;

/// Name, in native parts, of the reasoning that came in fields of the message.
const FIELDS_KEY: &str = "fields";
/// Name, in native parts, of the reasoning that came within the text.
const THINK_KEY: &str = "think";
/// Name, in native parts, of the reasoning that came as a part of the content.
const CONTENT_KEY: &str = "content";
/// Name, in native parts, of the other fields of the calls, in the order of the calls.
const CALLS_KEY: &str = "calls";

/// Backend and model that gave an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerSource<'a> {
    pub(crate) backend: &'a str,
    pub(crate) model: &'a str,
}

/// Parts of an answer that are sent back, beside its text and its calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Echo {
    /// `reasoning_content`, `reasoning` and `reasoning_details`.
    pub(crate) fields: Map<String, Value>,
    /// Text between `<think>` and `</think>`.
    pub(crate) think: String,
    /// Parts of Mistral's reasoning.
    pub(crate) content: Vec<Value>,
    /// Other fields of each call.
    pub(crate) calls: Vec<Map<String, Value>>,
}

impl Echo {
    /// Appends text to a field.
    pub(crate) fn add_text(&mut self, field: &str, more: &str) {
        match self.fields.get_mut(field) {
            Some(Value::String(text)) => text.push_str(more),
            _ => _ = self.fields.insert(field.to_owned(), more.into()),
        }
    }

    /// Adds pieces of `reasoning_details`. A piece that continues the piece before is joined to it.
    pub(crate) fn add_details(&mut self, details: Vec<Map<String, Value>>) {
        let known = self.fields.entry("reasoning_details").or_insert_with(|| json!([]));
        let Value::Array(known) = known else { return };
        for detail in details {
            match known.last_mut() {
                Some(Value::Object(last)) if is_more(last, &detail) => extend(last, detail),
                _ => known.push(detail.into()),
            }
        }
    }

    /// Adds a piece of Mistral's reasoning, and joins it to the piece before.
    pub(crate) fn add_content(&mut self, more: Value) {
        let parts = |value: &Value| value.get("thinking").and_then(Value::as_array).cloned();
        let last = self.content.last_mut().and_then(|last| last.get_mut("thinking"));
        match (last, parts(&more)) {
            (Some(Value::Array(known)), Some(more)) => known.extend(more),
            _ => self.content.push(more),
        }
    }

    /// Converts to the native parts of an answer; `None` if there are none.
    pub(crate) fn into_native(self, source: AnswerSource<'_>) -> Option<Native> {
        let extra = self.calls.iter().any(|extra| !extra.is_empty());
        if self.fields.is_empty() && self.think.is_empty() && self.content.is_empty() && !extra {
            return None;
        }
        let part = json!({
            FIELDS_KEY: self.fields, THINK_KEY: self.think, CONTENT_KEY: self.content, CALLS_KEY: self.calls,
        });
        let AnswerSource { backend, model } = source;
        Some(Native { backend: backend.to_owned(), model: model.to_owned(), parts: vec![part] })
    }

    /// Converts back from the native parts of an answer, or of several joined answers; `None` if they are another
    /// model's.
    pub(crate) fn from_native(native: &Native, source: AnswerSource<'_>) -> Option<Self> {
        if (AnswerSource { backend: &native.backend, model: &native.model }) != source {
            return None;
        }
        let mut echo = Self::default();
        for part in &native.parts {
            for (field, value) in objects(&part[FIELDS_KEY]) {
                match value {
                    Value::String(text) => echo.add_text(field, text),
                    Value::Array(details) => {
                        echo.add_details(details.iter().filter_map(object).collect());
                    }
                    _ => {}
                }
            }
            echo.think.push_str(part[THINK_KEY].as_str().unwrap_or_default());
            echo.content.extend(part[CONTENT_KEY].as_array().into_iter().flatten().cloned());
            echo.calls =
                part[CALLS_KEY].as_array().into_iter().flatten().filter_map(object).collect();
        }
        Some(echo)
    }
}

fn object(value: &Value) -> Option<Map<String, Value>> {
    value.as_object().cloned()
}

fn objects(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Returns `true` if a detail continues the detail before.
fn is_more(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let same = |field: &str| last.get(field) == next.get(field);
    let signed = last.get("signature").is_some_and(Value::is_string);
    // Encrypted details are complete and must not be joined.
    let is_text = next.contains_key("text") || next.contains_key("summary");
    same("type") && same("index") && is_text && !signed
}

fn extend(last: &mut Map<String, Value>, next: Map<String, Value>) {
    for (field, value) in next {
        match (last.get_mut(&field), value) {
            (Some(Value::String(known)), Value::String(more))
                if matches!(field.as_str(), "text" | "summary") =>
            {
                known.push_str(&more);
            }
            (_, Value::Null) => {}
            (_, value) => _ = last.insert(field, value),
        }
    }
}
