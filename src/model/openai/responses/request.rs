//! Bodies of requests.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;
use serde_json::{Value, json};

use super::input::{self, InputItem, ResponsesTarget};
use super::quirks::ResponsesQuirk;
use crate::answer_schema::AnswerSchema;
use crate::chat::schema;
use crate::names::accepted;
use crate::{Error, Message, Part, Prompt, TextForm, ToolDeclaration};

/// Level that turns thinking off.
const OFF_EFFORT: &str = "none";

/// Content of a request.
#[derive(Clone, Copy)]
pub(super) struct ResponsesRequest<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) target: ResponsesTarget<'a>,
    /// Thinking level; `None` for the model's own.
    pub(super) effort: Option<&'a str>,
    /// Maximum number of tokens of the answer; `None` leaves the limit to the server.
    pub(super) max_output_tokens: Option<u64>,
    /// Schema of the answer for the server to enforce.
    pub(super) answer_schema: Option<&'a AnswerSchema>,
    /// Text for the model, added after the last message of the user.
    pub(super) nudge: Option<&'a str>,
}

#[derive(Serialize)]
struct ResponsesBody<'a> {
    model: &'a str,
    stream: bool,
    /// `false`: the conversation is stored here, and no part of it at the server.
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<InputItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    /// Request for summaries, without which the API sends no thoughts.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

impl ResponsesRequest<'_> {
    /// Writes the body for `responses`.
    pub(super) fn body(&self) -> Result<Vec<u8>, Error> {
        let Self { prompt, target, nudge, .. } = *self;
        let has = |quirk| target.quirks.has(quirk);
        let hardened = input::hardened(prompt, target);
        let simple = has(ResponsesQuirk::SimpleSchemas);
        let custom = !has(ResponsesQuirk::NoCustomTools);
        let tools = prompt.tools.iter().map(|tool| {
            let form = tool.text_form.as_ref().filter(|_| custom);
            form.map_or_else(|| declaration(tool, simple), |form| custom_tool(tool, form))
        });
        let tools: Vec<_> = tools.collect();
        let body = ResponsesBody {
            model: target.model,
            stream: true,
            store: false,
            include: (!has(ResponsesQuirk::NoEncryption) && !has(ResponsesQuirk::NoReasoning))
                .then_some(["reasoning.encrypted_content"]),
            instructions: &prompt.system,
            input: input::items(&hardened, target, nudge),
            parallel_tool_calls: (!tools.is_empty() && !has(ResponsesQuirk::NoParallel))
                .then_some(true),
            tools,
            reasoning: self.reasoning(),
            prompt_cache_key: (!has(ResponsesQuirk::NoCacheKey)).then(|| cache_key(prompt)),
            max_output_tokens: self.max_output_tokens,
            text: self.answer_schema.map(text_field),
        };
        serde_json::to_vec(&body)
            .map_err(|error| Error::Rejected(format!("The request cannot be written: {error}")))
    }

    fn reasoning(&self) -> Option<Reasoning<'_>> {
        let has = |quirk| self.target.quirks.has(quirk);
        let effort = self.effort.filter(|_| !has(ResponsesQuirk::NoEffort));
        // A model that does not think has nothing to summarize.
        let no_summary = has(ResponsesQuirk::NoSummary) || effort == Some(OFF_EFFORT);
        let summary = (!no_summary).then_some("auto");
        let is_empty = effort.is_none() && summary.is_none();
        (!is_empty && !has(ResponsesQuirk::NoReasoning)).then_some(Reasoning { effort, summary })
    }
}

/// Returns the field `text` with the format of the answer.
fn text_field(schema: &AnswerSchema) -> Value {
    let mut format = schema.openai_format();
    format.insert("type".to_owned(), json!("json_schema"));
    json!({ "format": format })
}

fn declaration(tool: &ToolDeclaration, simple: bool) -> Value {
    let parameters =
        if simple { schema::simple(&tool.parameters) } else { tool.parameters.clone() };
    // Functions are strict unless the request says otherwise, and strict schemas allow no optional parameter.
    json!({
        "type": "function", "name": accepted(&tool.name), "description": tool.description,
        "parameters": parameters, "strict": false,
    })
}

/// Returns the declaration of a tool whose input is a text.
fn custom_tool(tool: &ToolDeclaration, form: &TextForm) -> Value {
    json!({
        "type": "custom", "name": accepted(&tool.name),
        "description": format!("{} The input is the text itself, not JSON.", tool.description),
        "format": { "type": "grammar", "syntax": "lark", "definition": form.grammar },
    })
}

/// Returns the key under which the server caches the beginning of a conversation. The key is made from the first
/// message, so that a loaded or forked session has the key of the original. It has far less than the 64 characters
/// that the API allows.
fn cache_key(prompt: &Prompt) -> String {
    let mut hasher = DefaultHasher::new();
    let first = prompt.messages.first().map(|message| &**message);
    if let Some(Message::User(parts)) = first {
        for part in parts {
            match part {
                Part::Text(text) => text.hash(&mut hasher),
                Part::Media(media) => media.mime_type.hash(&mut hasher),
            }
        }
    }
    format!("tandem-{:016x}", hasher.finish())
}
