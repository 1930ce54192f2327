//! Converts conversations to contents of the API. The model's own answers are sent back exactly as they came.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Assistant, Message, Native, ToolResult, names};
use tandem_content::media::Media;

/// Backend name of native answers.
pub(super) const BACKEND_NAME: &str = "gemini";
/// Field for the signature of a part, which must be sent back unchanged.
pub(super) const SIGNATURE_KEY: &str = "thoughtSignature";
/// Placeholder for a missing signature, which the API documents for this use.
pub(super) const DUMMY_SIGNATURE: &str = "skip_thought_signature_validator";

/// Maximum length of a name.
const MAX_NAME: usize = 64;

/// Capabilities of the target model.
#[derive(Debug, Clone, Copy)]
pub(super) struct GeminiTarget<'a> {
    /// Id of the model.
    pub(super) model: &'a str,
    /// `true` if the API insists on signatures.
    pub(super) signatures: bool,
    /// `true` if the result of a call can hold images.
    pub(super) media_in_responses: bool,
    /// Signatures that the server has refused.
    pub(super) refused: &'a RefusedSignatures,
}

/// Signatures that a server has refused, by their hashes.
pub(super) type RefusedSignatures = HashSet<u64>;

/// One turn of the user or the model.
#[derive(Debug, Serialize)]
pub(super) struct Content<'a> {
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    /// A part as it was received.
    Native(&'a Map<String, Value>),
    /// A part as it was received, except for a few fields.
    Changed(Map<String, Value>),
    Text {
        text: &'a str,
    },
    Media(Inline<'a>),
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: FunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    #[serde(rename_all = "camelCase")]
    Response {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inline<'a> {
    inline_data: Blob<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'a> {
    id: &'a str,
    name: Cow<'a, str>,
    args: Cow<'a, Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Outcome<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Inline<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome<'a> {
    Output(&'a str),
    Error(&'a str),
}

/// Id and name of a call, which its result must repeat.
struct CallRef<'a> {
    id: Option<&'a str>,
    name: Cow<'a, str>,
}

/// Converts a conversation that was hardened with [`speaks`].
pub(super) fn contents<'a>(
    messages: &'a [Arc<Message>],
    target: GeminiTarget<'_>,
) -> Vec<Content<'a>> {
    // The API checks signatures only in the running turn, which begins here.
    let turn = messages.iter().rposition(|message| matches!(&**message, Message::User(_)));
    let mut called = Vec::new();
    let contents = messages.iter().enumerate().map(|(at, message)| match &**message {
        Message::User(parts) => {
            Content { role: "user", parts: parts.iter().map(content_part).collect() }
        }
        Message::Assistant(answer) => {
            let mut parts;
            (parts, called) = echoed(answer, target).unwrap_or_else(|| retold(answer));
            if target.signatures && turn.is_some_and(|turn| at > turn) {
                sign(&mut parts);
            }
            Content { role: "model", parts }
        }
        Message::Results(results) => {
            Content { role: "user", parts: responses(results, mem::take(&mut called), target) }
        }
    });
    contents.collect()
}

/// Returns `true` if any of an answer's native parts are sent to the target.
pub(super) fn speaks(answer: &Assistant, native: &Native, target: GeminiTarget<'_>) -> bool {
    holds(native, answer) && native.parts.iter().any(|part| echo(part, native, target).is_some())
}

fn content_part(part: &crate::Part) -> Part<'_> {
    match part {
        crate::Part::Text(text) => Part::Text { text },
        crate::Part::Media(media) => Part::Media(inline(media)),
    }
}

/// Returns the answer's native parts and its calls, if the parts are this API's and fit the answer.
fn echoed<'a>(
    answer: &'a Assistant,
    target: GeminiTarget<'_>,
) -> Option<(Vec<Part<'a>>, Vec<CallRef<'a>>)> {
    let native = answer.native.as_ref().filter(|native| holds(native, answer))?;
    let parts = native.parts.iter().filter_map(|part| echo(part, native, target));
    let parts: Vec<_> = parts.collect();
    let calls = function_calls(native).map(|call| {
        let text = |field| call.get(field).and_then(Value::as_str);
        let id = text("id").filter(|id| !id.is_empty());
        CallRef { id, name: Cow::Borrowed(text("name").unwrap_or_default()) }
    });
    (!parts.is_empty()).then(|| (parts, calls.collect()))
}

/// Returns `true` if the native parts are this API's and have the same calls as the answer.
fn holds(native: &Native, answer: &Assistant) -> bool {
    let names = function_calls(native).map(|call| call.get("name").and_then(Value::as_str));
    native.backend == BACKEND_NAME
        && names.eq(answer.calls.iter().map(|call| Some(call.name.as_str())))
}

fn function_calls(native: &Native) -> impl Iterator<Item = &Map<String, Value>> {
    native.parts.iter().filter_map(|part| part.get("functionCall")?.as_object())
}

/// Returns a native part as it is sent; `None` if the API would refuse it, or if it is empty.
fn echo<'a>(part: &'a Value, native: &Native, target: GeminiTarget<'_>) -> Option<Part<'a>> {
    let part = part.as_object()?;
    let signature = part.get(SIGNATURE_KEY).and_then(Value::as_str);
    // A signature counts only for the model that made it.
    let keeps = signature.is_some() && native.model == target.model;
    let refused = signature.is_some_and(|it| target.refused.contains(&hash(it)));
    let text = part.get("text").and_then(Value::as_str);
    let thought = part.get("thought") == Some(&Value::Bool(true));
    let says_nothing = text.is_some_and(|text| text.is_empty() || thought);
    if says_nothing && !keeps {
        return None;
    }
    let call = part.get("functionCall");
    let args = call.and_then(|call| call.get("args")).filter(|args| !args.is_object());
    if (keeps && !refused || !part.contains_key(SIGNATURE_KEY)) && args.is_none() {
        return (!part.is_empty()).then_some(Part::Native(part));
    }
    let mut changed = part.clone();
    if keeps && refused {
        changed.insert(SIGNATURE_KEY.to_owned(), json!(DUMMY_SIGNATURE));
    } else if !keeps {
        changed.shift_remove(SIGNATURE_KEY);
    }
    if let (Some(args), Some(call)) = (args, changed.get_mut("functionCall")) {
        call["args"] = names::arguments(args).into_owned();
    }
    (!changed.is_empty()).then_some(Part::Changed(changed))
}

/// Returns the signatures in a conversation.
pub(super) fn signatures(messages: &[Arc<Message>]) -> impl Iterator<Item = u64> {
    let natives = messages.iter().filter_map(|message| match &**message {
        Message::Assistant(answer) => answer.native.as_ref(),
        Message::User(_) | Message::Results(_) => None,
    });
    let ours = natives.filter(|native| native.backend == BACKEND_NAME);
    let parts = ours.flat_map(|native| &native.parts);
    parts.filter_map(|part| part.get(SIGNATURE_KEY)?.as_str()).map(hash)
}

fn hash(signature: &str) -> u64 {
    // Signatures are kilobytes long; hashes are enough to recognise them.
    let mut hasher = DefaultHasher::new();
    signature.hash(&mut hasher);
    hasher.finish()
}

/// Converts an answer that has no native parts for this API.
fn retold(answer: &Assistant) -> (Vec<Part<'_>>, Vec<CallRef<'_>>) {
    let text = (!answer.text.trim().is_empty()).then_some(Part::Text { text: &answer.text });
    let calls = answer.calls.iter().map(|call| Part::Call {
        function_call: FunctionCall {
            id: &call.id,
            name: valid_name(&call.name),
            args: names::arguments(&call.args),
        },
        thought_signature: None,
    });
    let called = answer
        .calls
        .iter()
        .map(|call| CallRef { id: Some(&call.id), name: valid_name(&call.name) });
    (text.into_iter().chain(calls).collect(), called.collect())
}

/// Adds the signature that the API insists on to the first call of a step.
fn sign(parts: &mut [Part<'_>]) {
    let is_call = |part: &&mut Part<'_>| match part {
        Part::Native(part) => part.contains_key("functionCall"),
        Part::Changed(part) => part.contains_key("functionCall"),
        Part::Call { .. } => true,
        _ => false,
    };
    let Some(part) = parts.iter_mut().find(is_call) else { return };
    match part {
        Part::Native(native) if !native.contains_key(SIGNATURE_KEY) => {
            let mut changed = native.clone();
            changed.insert(SIGNATURE_KEY.to_owned(), json!(DUMMY_SIGNATURE));
            *part = Part::Changed(changed);
        }
        Part::Changed(changed) if !changed.contains_key(SIGNATURE_KEY) => {
            changed.insert(SIGNATURE_KEY.to_owned(), json!(DUMMY_SIGNATURE));
        }
        Part::Call { thought_signature, .. } => *thought_signature = Some(DUMMY_SIGNATURE),
        _ => {}
    }
}

/// Returns one response for each call, followed by the media that cannot be in a response.
fn responses<'a>(
    results: &'a [ToolResult],
    called: Vec<CallRef<'a>>,
    target: GeminiTarget<'_>,
) -> Vec<Part<'a>> {
    let fits = |media: &&Media| {
        let kind = media.mime_type.as_str();
        target.media_in_responses && (kind.starts_with("image/") || kind == "application/pdf")
    };
    let parts = results.iter().zip(called).map(|(result, CallRef { id, name })| Part::Response {
        function_response: FunctionResponse {
            id,
            name,
            response: if result.failed {
                Outcome::Error(&result.text)
            } else {
                Outcome::Output(&result.text)
            },
            parts: result.media.iter().filter(fits).map(inline).collect(),
        },
    });
    let media = results.iter().flat_map(|result| &result.media);
    let beside = media.filter(|media| !fits(media)).map(|media| Part::Media(inline(media)));
    parts.chain(beside).collect()
}

fn inline(media: &Media) -> Inline<'_> {
    Inline { inline_data: Blob { mime_type: &media.mime_type, data: &media.data } }
}

/// Returns a name that the API accepts. Other providers accept more names.
fn valid_name(name: &str) -> Cow<'_, str> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.len() <= MAX_NAME && name.starts_with(begins) && name.chars().all(valid) {
        return Cow::Borrowed(name);
    }
    let head = if name.starts_with(begins) { "" } else { "_" };
    let tail = name.chars().map(|c| if valid(c) { c } else { '_' });
    Cow::Owned(head.chars().chain(tail).take(MAX_NAME).collect())
}

#[cfg(test)]
mod tests;
