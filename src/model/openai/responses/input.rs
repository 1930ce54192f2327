//! Converts conversations to input items of the API. The model's own items are sent back as they came, in their order.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::events::{part_texts, text};
use super::item::{CUSTOM_CALL, FUNCTION_CALL, ItemKind};
use super::quirks::ResponsesQuirk;
use crate::names::{self, CallIds};
use crate::openai::images::{RefusedImages, is_image};
use crate::openai::quirks::ServerQuirks;
use crate::{Assistant, Message, Native, Prompt, ToolResult, history};
use tandem_content::media::Media;

/// Backend name of native answers.
pub(super) const BACKEND_NAME: &str = "openai-responses";
/// Text of a result without a text.
const EMPTY_OUTPUT: &str = "(nothing)";
/// Text in the user's name before the images of results.
const MEDIA_HEADING: &str = "[What the tools above have to show:]";

/// Reasoning that a server has refused, by the hashes of its encrypted contents.
pub(super) type RefusedReasoning = HashSet<u64>;

/// Capabilities of the target model.
#[derive(Clone, Copy)]
pub(super) struct ResponsesTarget<'a> {
    pub(super) model: &'a str,
    pub(super) quirks: &'a ServerQuirks<ResponsesQuirk>,
    pub(super) refused: &'a RefusedReasoning,
    pub(super) refused_images: &'a RefusedImages,
}

/// One item of the input.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum InputItem<'a> {
    /// An item as it was received.
    Native(&'a Map<String, Value>),
    /// An item as it was received, except for a few fields.
    Changed(Map<String, Value>),
    Own(OwnItem<'a>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OwnItem<'a> {
    Message { role: &'static str, content: Content<'a> },
    FunctionCall { call_id: String, name: Cow<'a, str>, arguments: String },
    FunctionCallOutput { call_id: String, output: Content<'a> },
    CustomToolCallOutput { call_id: String, output: Content<'a> },
}

/// Content of a message, or output of a call.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(&'a str),
    Parts(Vec<InputPart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum InputPart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    /// An image. The API does without `detail`; servers that validate by its types do not.
    #[serde(rename = "input_image")]
    Image { detail: &'static str, image_url: String },
    #[serde(rename = "input_file")]
    File { filename: &'static str, file_data: String },
}

/// A call in the input, which its output refers to.
struct SentCall {
    id: String,
    is_custom: bool,
}

/// Converts a hardened conversation; `nudge` is added to its end as text of the user.
pub(super) fn items<'a>(
    hardened: &'a [Arc<Message>],
    target: ResponsesTarget<'_>,
    nudge: Option<&'a str>,
) -> Vec<InputItem<'a>> {
    let mut ids = CallIds::default();
    let mut called = Vec::new();
    let mut items = Vec::with_capacity(hardened.len());
    for message in hardened {
        match &**message {
            Message::User(parts) => {
                let content = parts.iter().map(|part| input_part(part, target)).collect();
                items.push(OwnItem::user(content).into());
            }
            Message::Assistant(answer) => {
                let answered;
                (answered, called) =
                    echoed(answer, target, &mut ids).unwrap_or_else(|| retold(answer, &mut ids));
                items.extend(answered);
            }
            Message::Results(results) => {
                items.extend(outputs(results, mem::take(&mut called), target));
            }
        }
    }
    if let Some(nudge) = nudge {
        let text = InputPart::Text { text: nudge.into() };
        match items.last_mut() {
            Some(InputItem::Own(OwnItem::Message { content: Content::Parts(parts), .. })) => {
                parts.push(text);
            }
            _ => items.push(OwnItem::user(vec![text]).into()),
        }
    }
    items
}

/// Repairs a conversation before it is converted.
pub(super) fn hardened(prompt: &Prompt, target: ResponsesTarget<'_>) -> Vec<Arc<Message>> {
    history::harden(&prompt.messages, |answer, native| {
        holds(native, answer) && !kept(native, target).is_empty()
    })
}

/// Returns the hashes of the reasoning in a conversation.
pub(super) fn reasoning(messages: &[Arc<Message>]) -> impl Iterator<Item = u64> {
    let natives = messages.iter().filter_map(|message| match &**message {
        Message::Assistant(answer) => answer.native.as_ref(),
        Message::User(_) | Message::Results(_) => None,
    });
    let parts = natives.filter(|native| native.backend == BACKEND_NAME).flat_map(|it| &it.parts);
    parts.filter_map(Value::as_object).filter(|item| is_reasoning(item)).map(hash)
}

impl<'a> OwnItem<'a> {
    fn user(parts: Vec<InputPart<'a>>) -> Self {
        Self::Message { role: "user", content: Content::Parts(parts) }
    }
}

impl<'a> From<OwnItem<'a>> for InputItem<'a> {
    fn from(own: OwnItem<'a>) -> Self {
        Self::Own(own)
    }
}

fn input_part<'a>(part: &'a crate::Part, target: ResponsesTarget<'_>) -> InputPart<'a> {
    match part {
        crate::Part::Text(text) => InputPart::Text { text: text.into() },
        crate::Part::Media(media) => media_part(media, target),
    }
}

/// Converts media, or replaces them with a text that the model cannot see them.
fn media_part<'a>(media: &Media, target: ResponsesTarget<'_>) -> InputPart<'a> {
    let kind = media.mime_type.as_str();
    let url = || format!("data:{kind};base64,{}", media.data);
    let told = |what| InputPart::Text { text: format!("[{kind}: {what}.]").into() };
    if is_image(media) {
        if target.quirks.has(ResponsesQuirk::NoImages) {
            return told("this model cannot see it");
        }
        if target.refused_images.has(media) {
            return told("the server does not accept it");
        }
        return InputPart::Image { detail: "auto", image_url: url() };
    }
    if kind == "application/pdf" && !target.quirks.has(ResponsesQuirk::NoDocuments) {
        return InputPart::File { filename: "document.pdf", file_data: url() };
    }
    told("this model cannot read it")
}

/// Returns the answer's native items and the ids of its calls, if the items are this API's and fit the answer.
fn echoed<'a>(
    answer: &'a Assistant,
    target: ResponsesTarget<'_>,
    ids: &mut CallIds,
) -> Option<(Vec<InputItem<'a>>, Vec<SentCall>)> {
    let native = answer.native.as_ref().filter(|native| holds(native, answer))?;
    let kept = kept(native, target);
    if kept.is_empty() {
        return None;
    }
    // The API refuses an id without the reasoning that came before it.
    let mut reasoning =
        native.parts.iter().filter_map(Value::as_object).filter(|it| is_reasoning(it));
    let keeps_ids = native.model == target.model && reasoning.all(|item| is_sendable(item, target));
    let mut called = Vec::new();
    let items = kept.into_iter().map(|item| {
        let mut changed = Cow::Borrowed(item);
        if ItemKind::of(item) == ItemKind::Call {
            let came = text(item, "call_id");
            let id = ids.unique(came);
            if id != came {
                changed.to_mut().insert("call_id".to_owned(), json!(id));
            }
            let mut is_custom = text(item, "type") == CUSTOM_CALL;
            if is_custom && target.quirks.has(ResponsesQuirk::NoCustomTools) {
                is_custom = false;
                changed = Cow::Owned(as_function_call(changed.into_owned()));
            }
            called.push(SentCall { id, is_custom });
            // The API refuses arguments that are no JSON object.
            if !is_custom && !text(&changed, "arguments").trim_start().starts_with('{') {
                let arguments = serde_json::from_str(text(item, "arguments")).unwrap_or_default();
                let arguments = names::arguments(&arguments).to_string();
                changed.to_mut().insert("arguments".to_owned(), json!(arguments));
            }
        }
        if !keeps_ids && !is_reasoning(item) {
            let fields = changed.to_mut();
            fields.shift_remove("id");
            fields.shift_remove("status");
        }
        // The API gives an id to each message that it sends. So a message without an id was written here, in the
        // form whose content is one text.
        if ItemKind::of(item) == ItemKind::Message && text(&changed, "id").is_empty() {
            let content: String = part_texts(item, "content").collect();
            changed.to_mut().insert("content".to_owned(), json!(content));
        }
        if target.quirks.has(ResponsesQuirk::NoPhase) && item.contains_key("phase") {
            changed.to_mut().shift_remove("phase");
        }
        match changed {
            Cow::Borrowed(item) => InputItem::Native(item),
            Cow::Owned(item) => InputItem::Changed(item),
        }
    });
    let items = items.collect();
    Some((items, called))
}

/// Returns the call of a function for that of a custom tool. The id of the item is left out: it is one of a custom
/// tool.
fn as_function_call(mut call: Map<String, Value>) -> Map<String, Value> {
    let input = call.shift_remove("input").unwrap_or_default();
    call.shift_remove("id");
    call.insert("type".to_owned(), json!(FUNCTION_CALL));
    call.insert("arguments".to_owned(), json!(json!({ "input": input }).to_string()));
    call
}

/// Returns `true` if the native items are this API's and have the same calls as the answer.
fn holds(native: &Native, answer: &Assistant) -> bool {
    let items = native.parts.iter().filter_map(Value::as_object);
    let calls = items.filter(|item| ItemKind::of(item) == ItemKind::Call);
    let called = calls.map(|call| text(call, "name"));
    native.backend == BACKEND_NAME
        && called.eq(answer.calls.iter().map(|call| names::accepted(&call.name)))
}

/// Returns the native items that the API accepts back. Reasoning that nothing follows is left out, because the API
/// refuses such reasoning: the item after it was not complete.
fn kept<'a>(native: &'a Native, target: ResponsesTarget<'_>) -> Vec<&'a Map<String, Value>> {
    let own = native.model == target.model;
    let items = native.parts.iter().filter_map(Value::as_object);
    let mut kept: Vec<_> = items
        .filter(|item| match ItemKind::of(item) {
            ItemKind::Message => part_texts(item, "content").any(|text| !text.trim().is_empty()),
            ItemKind::Call => true,
            ItemKind::Reasoning => own && is_sendable(item, target),
            ItemKind::Other => own,
        })
        .collect();
    while kept.pop_if(|last| is_reasoning(last)).is_some() {}
    kept
}

fn is_reasoning(item: &Map<String, Value>) -> bool {
    ItemKind::of(item) == ItemKind::Reasoning
}

/// Returns `true` if reasoning can be sent back: encrypted or as text, and not refused. The server stores nothing,
/// so it would not find other reasoning by its id.
fn is_sendable(item: &Map<String, Value>, target: ResponsesTarget<'_>) -> bool {
    let has_content =
        !text(item, "encrypted_content").is_empty() || part_texts(item, "content").next().is_some();
    let is_refused =
        target.quirks.has(ResponsesQuirk::NoReasoning) || target.refused.contains(&hash(item));
    has_content && !is_refused
}

fn hash(item: &Map<String, Value>) -> u64 {
    // Encrypted contents are kilobytes long; hashes are enough to recognise them.
    let mut hasher = DefaultHasher::new();
    text(item, "encrypted_content").hash(&mut hasher);
    text(item, "id").hash(&mut hasher);
    hasher.finish()
}

/// Converts an answer that has no native items for this API.
fn retold<'a>(answer: &'a Assistant, ids: &mut CallIds) -> (Vec<InputItem<'a>>, Vec<SentCall>) {
    let text = Some(answer.text.as_str()).filter(|text| !text.trim().is_empty());
    let message =
        text.map(|text| OwnItem::Message { role: "assistant", content: Content::Text(text) });
    let called: Vec<_> = answer.calls.iter().map(|call| ids.unique(&call.id)).collect();
    let calls = answer.calls.iter().zip(&called).map(|(call, id)| OwnItem::FunctionCall {
        call_id: id.clone(),
        name: names::accepted(&call.name),
        arguments: names::arguments(&call.args).to_string(),
    });
    let items = message.into_iter().chain(calls).map(InputItem::Own).collect();
    (items, called.into_iter().map(|id| SentCall { id, is_custom: false }).collect())
}

/// Returns one output for each call, and one message with all media of the results if outputs can only be text.
fn outputs<'a>(
    results: &'a [ToolResult],
    called: Vec<SentCall>,
    target: ResponsesTarget<'_>,
) -> Vec<InputItem<'a>> {
    let apart = target.quirks.has(ResponsesQuirk::TextOutputs);
    let output = |(result, call): (&'a ToolResult, SentCall)| {
        let text = if result.text.is_empty() { EMPTY_OUTPUT } else { &result.text };
        let output = if result.media.is_empty() || apart {
            Content::Text(text)
        } else {
            let media = result.media.iter().map(|media| media_part(media, target));
            let text = InputPart::Text { text: text.into() };
            Content::Parts([text].into_iter().chain(media).collect())
        };
        let call_id = call.id;
        if call.is_custom {
            OwnItem::CustomToolCallOutput { call_id, output }.into()
        } else {
            OwnItem::FunctionCallOutput { call_id, output }.into()
        }
    };
    let mut items: Vec<_> = results.iter().zip(called).map(output).collect();
    let media = results.iter().flat_map(|result| &result.media).filter(|_| apart);
    let media: Vec<_> = media.map(|media| media_part(media, target)).collect();
    if !media.is_empty() {
        let seen = InputPart::Text { text: MEDIA_HEADING.into() };
        items.push(OwnItem::user([seen].into_iter().chain(media).collect()).into());
    }
    items
}

#[cfg(test)]
mod tests;
