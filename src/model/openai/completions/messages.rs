//! Converts conversations to messages of chat completions.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::quirks::Quirk;
use crate::chat::echo::{AnswerSource, Echo};
use crate::openai::images::{RefusedImages, is_image};
use crate::openai::quirks::ServerQuirks;
use crate::{Assistant, Message, Native, Prompt, ToolResult, history, names};
use tandem_content::media::Media;

/// Backend name of native answers.
pub(super) const BACKEND_NAME: &str = "openai";
/// Maximum length of a call's id that `OpenAI` accepts.
const LONGEST_ID: usize = 40;
/// Text in the user's name before the images of a tool's result.
const MEDIA_HEADING: &str = "[What the tools above have to show:]";

/// Capabilities of the target model.
#[derive(Clone, Copy)]
pub(super) struct OpenAiTarget<'a> {
    pub(super) model: &'a str,
    pub(super) server: &'a ServerQuirks<Quirk>,
    pub(super) refused_images: &'a RefusedImages,
}

/// One message of the API.
#[derive(Debug, Default, Serialize)]
pub(super) struct ChatMessage<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Debug, Default, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[default]
    Null,
    Text(Cow<'a, str>),
    Parts(Vec<Value>),
}

#[derive(Debug, Serialize)]
struct ToolCall {
    id: String,
    r#type: &'static str,
    function: Function,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    /// Arguments as JSON in a string.
    arguments: String,
}

/// Converts a hardened conversation; `nudge` is added to its end as text of the user.
pub(super) fn messages<'a>(
    prompt: &'a Prompt,
    hardened: &'a [Arc<Message>],
    target: OpenAiTarget<'_>,
    nudge: Option<&'a str>,
) -> Vec<ChatMessage<'a>> {
    let developer = target.server.has(Quirk::Developer);
    let mut said = Vec::with_capacity(hardened.len() + 1);
    if !prompt.system.is_empty() {
        let role = if developer { "developer" } else { "system" };
        said.push(ChatMessage::text(role, prompt.system.as_ref()));
    }
    for message in hardened {
        match &**message {
            Message::User(parts) => said.push(user(parts, target)),
            Message::Assistant(answer) => said.push(assistant(answer, target)),
            Message::Results(results) => said.extend(result_messages(results, target)),
        }
    }
    if let Some(nudge) = nudge {
        match said.last_mut().filter(|last| last.role == "user") {
            Some(last) => last.content.add(nudge),
            None => said.push(ChatMessage::text("user", nudge)),
        }
    }
    said
}

/// Repairs a conversation before it is converted.
pub(super) fn hardened(prompt: &Prompt, model: &str) -> Vec<Arc<Message>> {
    history::harden(&prompt.messages, |answer, native| speaks(answer, native, model))
}

/// Returns the parts of an answer that are sent back; `None` if the answer is another model's.
fn echo(native: &Native, model: &str) -> Option<Echo> {
    Echo::from_native(native, AnswerSource { backend: BACKEND_NAME, model })
}

/// Returns `true` if any of an answer's native parts are sent.
fn speaks(answer: &Assistant, native: &Native, model: &str) -> bool {
    !answer.calls.is_empty() && echo(native, model).is_some()
}

impl<'a> ChatMessage<'a> {
    fn text(role: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        Self { role, content: Content::Text(text.into()), ..Self::default() }
    }
}

impl<'a> Content<'a> {
    fn add(&mut self, more: &'a str) {
        match self {
            Self::Null => *self = Self::Text(more.into()),
            Self::Text(text) => text.to_mut().extend(["\n\n", more]),
            Self::Parts(parts) => parts.push(json!({ "type": "text", "text": more })),
        }
    }
}

fn user<'a>(parts: &'a [crate::Part], target: OpenAiTarget<'_>) -> ChatMessage<'a> {
    if let [crate::Part::Text(text)] = parts {
        return ChatMessage::text("user", text);
    }
    let is_text = |part: &crate::Part| matches!(part, crate::Part::Text(_));
    if parts.iter().all(is_text) {
        let texts = parts.iter().filter_map(|part| match part {
            crate::Part::Text(text) => Some(text.as_str()),
            crate::Part::Media(_) => None,
        });
        return ChatMessage::text("user", texts.collect::<Vec<_>>().join("\n"));
    }
    let parts = parts.iter().map(|part| match part {
        crate::Part::Text(text) => json!({ "type": "text", "text": text }),
        crate::Part::Media(media) => media_part(media, target),
    });
    ChatMessage { role: "user", content: Content::Parts(parts.collect()), ..ChatMessage::default() }
}

/// Converts media, or replaces them with a text that the model cannot see them.
fn media_part(media: &Media, target: OpenAiTarget<'_>) -> Value {
    let kind = media.mime_type.as_str();
    let url = || format!("data:{kind};base64,{}", media.data);
    let told = |what| json!({ "type": "text", "text": format!("[{kind}: {what}.]") });
    if is_image(media) {
        if target.server.has(Quirk::NoImages) {
            return told("this model cannot see it");
        }
        if target.refused_images.has(media) {
            return told("the server does not accept it");
        }
        return json!({ "type": "image_url", "image_url": { "url": url() } });
    }
    if kind == "application/pdf" && !target.server.has(Quirk::NoDocuments) {
        let file = json!({ "filename": "document.pdf", "file_data": url() });
        return json!({ "type": "file", "file": file });
    }
    told("this model cannot read it")
}

fn assistant<'a>(answer: &'a Assistant, target: OpenAiTarget<'_>) -> ChatMessage<'a> {
    if answer.calls.is_empty() {
        return ChatMessage::text("assistant", &answer.text);
    }
    let native = answer.native.as_ref();
    let echo = native.and_then(|native| self::echo(native, target.model));
    let mut echo = echo.unwrap_or_default();
    if target.server.has(Quirk::NoReasoning) {
        echo = Echo { calls: echo.calls, ..Echo::default() };
    }
    if target.server.has(Quirk::WantsReasoning) && echo.fields.is_empty() {
        echo.add_text("reasoning_content", "");
    }
    let mut extras = echo.calls.into_iter();
    let calls = answer.calls.iter().map(|call| ToolCall {
        id: id(&call.id, target.server),
        r#type: "function",
        function: Function {
            name: names::accepted(&call.name).into_owned(),
            arguments: names::arguments(&call.args).to_string(),
        },
        extra: extras.next().unwrap_or_default(),
    });
    let tool_calls = calls.collect();
    let content = if !echo.content.is_empty() {
        let text = json!({ "type": "text", "text": answer.text });
        echo.content.extend((!answer.text.is_empty()).then_some(text));
        Content::Parts(echo.content)
    } else if !echo.think.is_empty() {
        Content::Text(format!("<think>{}</think>\n\n{}", echo.think, answer.text).into())
    } else if !answer.text.trim().is_empty() {
        Content::Text(answer.text.as_str().into())
    } else if target.server.has(Quirk::EmptyContent) {
        Content::Text("".into())
    } else {
        Content::Null
    };
    ChatMessage {
        role: "assistant",
        content,
        tool_calls,
        fields: echo.fields,
        ..ChatMessage::default()
    }
}

/// Returns one message for each result, and one message with all media of the results, because results can only be
/// text.
fn result_messages<'a>(
    results: &'a [ToolResult],
    target: OpenAiTarget<'_>,
) -> Vec<ChatMessage<'a>> {
    let result = |result: &'a ToolResult| {
        let text = if result.text.is_empty() { "(nothing)" } else { &result.text };
        let tool_call_id = Some(id(&result.call, target.server));
        ChatMessage { tool_call_id, ..ChatMessage::text("tool", text) }
    };
    let mut said: Vec<_> = results.iter().map(result).collect();
    let media = results.iter().flat_map(|result| &result.media);
    let mut parts: Vec<_> = media.map(|media| media_part(media, target)).collect();
    if !parts.is_empty() {
        parts.insert(0, json!({ "type": "text", "text": MEDIA_HEADING }));
        said.push(ChatMessage {
            role: "user",
            content: Content::Parts(parts),
            ..ChatMessage::default()
        });
    }
    said
}

/// Returns an id that the server accepts. A call and its result get the same id.
fn id(id: &str, server: &ServerQuirks<Quirk>) -> String {
    let short = server.has(Quirk::ShortIds);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let fits = id.len() <= LONGEST_ID && !id.is_empty() && id.chars().all(plain);
    if fits && !(short && (id.len() != 9 || !id.chars().all(|c| c.is_ascii_alphanumeric()))) {
        return id.to_owned();
    }
    // Without a random key, so that a call and its result get the same id in every request.
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    // Nine hexadecimal digits: enough to tell the calls of a conversation apart.
    let digits = format!("{:016x}", hasher.finish());
    if short { digits[..9].to_owned() } else { format!("call_{digits}") }
}
