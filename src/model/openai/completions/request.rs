//! Bodies of requests.

use serde::Serialize;
use serde_json::{Value, json};

use super::messages::{self, ChatMessage, OpenAiTarget};
use super::quirks::Quirk;
use crate::answer_schema::AnswerSchema;
use crate::chat::schema;
use crate::names::accepted;
use crate::openai::images::RefusedImages;
use crate::openai::quirks::ServerQuirks;
use crate::{Error, Prompt, ToolDeclaration};

/// Content of a request.
#[derive(Clone, Copy)]
pub(super) struct ChatCompletionRequest<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) model: &'a str,
    pub(super) server: &'a ServerQuirks<Quirk>,
    pub(super) refused_images: &'a RefusedImages,
    /// Thinking level; `None` for the model's own.
    pub(super) effort: Option<&'a str>,
    /// Maximum number of tokens of the answer; 0 leaves the limit to the server.
    pub(super) output_tokens: u64,
    /// Schema of the answer for the server to enforce.
    pub(super) answer_schema: Option<&'a AnswerSchema>,
    /// Text for the model, added after the last message of the user.
    pub(super) nudge: Option<&'a str>,
}

#[derive(Serialize)]
struct ChatCompletionBody<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
}

impl ChatCompletionRequest<'_> {
    /// Writes the body for `chat/completions`.
    pub(super) fn body(&self) -> Result<Vec<u8>, Error> {
        let Self { prompt, model, server, refused_images, effort, output_tokens, .. } = *self;
        let hardened = messages::hardened(prompt, model);
        let target = OpenAiTarget { model, server, refused_images };
        let limit = Some(output_tokens).filter(|tokens| *tokens > 0);
        let completion = server.has(Quirk::CompletionTokens);
        let simple = server.has(Quirk::SimpleSchemas);
        let tools: Vec<_> = prompt.tools.iter().map(|tool| declaration(tool, simple)).collect();
        let body = ChatCompletionBody {
            model,
            stream: true,
            stream_options: (!server.has(Quirk::NoUsage)).then(|| json!({ "include_usage": true })),
            messages: messages::messages(prompt, &hardened, target, self.nudge),
            parallel_tool_calls: (!tools.is_empty() && !server.has(Quirk::NoParallel))
                .then_some(true),
            tools,
            max_tokens: limit.filter(|_| !completion),
            max_completion_tokens: limit.filter(|_| completion),
            response_format: self.response_format(),
            reasoning_effort: effort,
        };
        serde_json::to_vec(&body)
            .map_err(|error| Error::Rejected(format!("The request cannot be written: {error}")))
    }

    /// Returns the format of the answer.
    fn response_format(&self) -> Option<Value> {
        let schema = self.answer_schema?;
        Some(json!({ "type": "json_schema", "json_schema": schema.openai_format() }))
    }
}

fn declaration(tool: &ToolDeclaration, simple: bool) -> Value {
    let parameters =
        if simple { schema::simple(&tool.parameters) } else { tool.parameters.clone() };
    let function = json!({
        "name": accepted(&tool.name), "description": tool.description, "parameters": parameters,
    });
    json!({ "type": "function", "function": function })
}
