//! Converts conversations to messages of Ollama's API.

use serde_json::{Map, Value, json};

use crate::chat::echo::{AnswerSource, Echo};
use crate::{Assistant, Message, Native, Part, Prompt, ToolResult, history, names};
use tandem_content::media::Media;

/// Backend name of native answers.
pub(super) const BACKEND_NAME: &str = "ollama";
/// Text in the user's name before the images of a tool's result.
const MEDIA_HEADING: &str = "[What the tools above have to show:]";

/// Capabilities of the target model.
#[derive(Clone, Copy)]
pub(super) struct OllamaTarget<'a> {
    pub(super) model: &'a str,
    /// `true` if the model sees images.
    pub(super) images: bool,
}

/// Repairs and converts a conversation; `nudge` is added to its end as a message of the user.
pub(super) fn messages(
    prompt: &Prompt,
    target: OllamaTarget<'_>,
    nudge: Option<&str>,
) -> Vec<Value> {
    let hardened = history::harden(&prompt.messages, |answer, native| {
        !answer.calls.is_empty() && echo(native, target).is_some()
    });
    let system = (!prompt.system.is_empty()).then(|| text_message("system", &prompt.system));
    let mut messages: Vec<_> = system.into_iter().collect();
    for message in &hardened {
        match &**message {
            Message::User(parts) => messages.push(user(parts, target)),
            Message::Assistant(answer) => messages.push(assistant(answer, target)),
            Message::Results(results) => messages.extend(result_messages(results, target)),
        }
    }
    messages.extend(nudge.map(|nudge| text_message("user", nudge)));
    messages
}

fn echo(native: &Native, target: OllamaTarget<'_>) -> Option<Echo> {
    Echo::from_native(native, AnswerSource { backend: BACKEND_NAME, model: target.model })
}

fn text_message(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": text })
}

fn user(parts: &[Part], target: OllamaTarget<'_>) -> Value {
    let mut texts = Vec::with_capacity(parts.len());
    let mut images = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text.clone()),
            Part::Media(media) if is_seen(media, target) => images.push(media.data.as_str()),
            Part::Media(media) => texts.push(unseen(media)),
        }
    }
    let mut message = text_message("user", &texts.join("\n"));
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

fn assistant(answer: &Assistant, target: OllamaTarget<'_>) -> Value {
    let mut message = text_message("assistant", &answer.text);
    if answer.calls.is_empty() {
        return message;
    }
    let echo = answer.native.as_ref().and_then(|native| echo(native, target)).unwrap_or_default();
    let fields = message.as_object_mut().into_iter();
    fields.for_each(|fields| fields.extend(echo.fields.clone()));
    if !echo.think.is_empty() {
        message["content"] = json!(format!("<think>{}</think>\n\n{}", echo.think, answer.text));
    }
    let mut extras = echo.calls.into_iter();
    let calls = answer.calls.iter().map(|call| {
        let arguments = names::arguments(&call.args);
        let function = json!({ "name": names::accepted(&call.name), "arguments": arguments });
        let mut written =
            Map::from_iter([("id".to_owned(), json!(call.id)), ("function".to_owned(), function)]);
        written.extend(extras.next().unwrap_or_default());
        Value::Object(written)
    });
    message["tool_calls"] = calls.collect();
    message
}

/// Returns one message for each result, and one message with all images of the results.
fn result_messages(results: &[ToolResult], target: OllamaTarget<'_>) -> Vec<Value> {
    let result = |result: &ToolResult| {
        let text = if result.text.is_empty() { "(nothing)" } else { &result.text };
        let mut message = text_message("tool", text);
        message["tool_name"] = json!(names::accepted(&result.name));
        message["tool_call_id"] = json!(result.call);
        message
    };
    let mut messages: Vec<_> = results.iter().map(result).collect();
    let media = results.iter().flat_map(|result| &result.media);
    let media: Vec<_> = media.cloned().map(Part::Media).collect();
    if !media.is_empty() {
        let parts: Vec<_> =
            [Part::Text(MEDIA_HEADING.to_owned())].into_iter().chain(media).collect();
        messages.push(user(&parts, target));
    }
    messages
}

fn is_seen(media: &Media, target: OllamaTarget<'_>) -> bool {
    target.images && media.mime_type.starts_with("image/")
}

fn unseen(media: &Media) -> String {
    format!("[{}: this model cannot see it.]", media.mime_type)
}
