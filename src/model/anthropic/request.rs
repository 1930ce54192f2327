//! Bodies of requests.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::messages::{self, AnthropicTarget, CacheControl, Turn};
use super::thinking::{self, ThinkingMode};
use crate::answer_schema::{ANTHROPIC_DIALECT, AnswerSchema};
use crate::vertex::CLAUDE_VERSION;
use crate::{Error, Message, Prompt, ToolDeclaration, history, names};

/// Content of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessagesRequest<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) target: AnthropicTarget<'a>,
    pub(super) thinking: &'a thinking::ThinkingConfig,
    /// Maximum number of tokens of the answer.
    pub(super) max_tokens: u64,
    /// Schema of the answer for the server to enforce.
    pub(super) answer_schema: Option<&'a AnswerSchema>,
    /// Text for the model, added after the last message of the user.
    pub(super) nudge: Option<&'a str>,
    /// First part of an unfinished answer, which the next answer continues.
    pub(super) so_far: &'a [Value],
    /// `true` for Vertex AI, where the address names the model, and the body the version of the API.
    pub(super) is_vertex: bool,
}

#[derive(Serialize)]
struct MessagesBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'static str>,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(flatten)]
    input: ModelInput<'a>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
}

/// Input of the model: tools, system text and conversation.
#[derive(Serialize)]
struct ModelInput<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[System<'a>; 1]>,
    messages: Vec<Turn<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct System<'a> {
    text: &'a str,
    cache_control: CacheControl,
}

impl MessagesRequest<'_> {
    /// Writes the body for `messages`.
    pub(super) fn body(&self) -> Result<Vec<u8>, Error> {
        let messages = hardened(self.prompt, self.target);
        let mut turns = messages::turns(&messages, self.target);
        if let (Some(last), Some(text)) = (turns.last_mut(), self.nudge) {
            last.say(text);
        }
        messages::mark(&mut turns);
        if !self.so_far.is_empty() {
            turns.push(messages::so_far(self.so_far));
        }
        json(&MessagesBody {
            model: (!self.is_vertex).then_some(self.target.model),
            anthropic_version: self.is_vertex.then_some(CLAUDE_VERSION),
            max_tokens: self.max_tokens,
            stream: true,
            thinking: self.thinking(&messages),
            output_config: self.output_config(),
            input: input(self.prompt, turns),
        })
    }

    fn output_config(&self) -> Option<OutputConfig<'_>> {
        let effort = self.thinking.effort.as_deref();
        // The API has no format for the rest of an answer whose beginning is sent.
        let schema = self.answer_schema.filter(|_| self.so_far.is_empty());
        let format = schema.and_then(|schema| schema.in_dialect(&ANTHROPIC_DIALECT));
        let format = format.map(|schema| json!({ "type": "json_schema", "schema": schema }));
        (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format })
    }

    /// Returns the thinking field. Models with a thinking budget must not begin to think in the middle of a turn.
    fn thinking(&self, messages: &[Arc<Message>]) -> Option<ThinkingMode> {
        match self.thinking.thinking? {
            ThinkingMode::Enabled { budget_tokens } => {
                let thinks = messages::turn_thinks(messages, self.target);
                thinking::within(budget_tokens, self.max_tokens).filter(|_| thinks)
            }
            how => Some(how),
        }
    }
}

/// Writes the body for `messages/count_tokens`.
pub(super) fn count_body(prompt: &Prompt, target: AnthropicTarget<'_>) -> Result<Vec<u8>, Error> {
    #[derive(Serialize)]
    struct CountTokensBody<'a> {
        model: &'a str,
        #[serde(flatten)]
        input: ModelInput<'a>,
    }
    let messages = hardened(prompt, target);
    let input = input(prompt, messages::turns(&messages, target));
    json(&CountTokensBody { model: target.model, input })
}

fn input<'a>(prompt: &'a Prompt, messages: Vec<Turn<'a>>) -> ModelInput<'a> {
    let mut tools: Vec<_> = prompt.tools.iter().map(declaration).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(CacheControl {});
    }
    let text = prompt.system.as_ref();
    let system =
        (!text.trim().is_empty()).then_some([System { text, cache_control: CacheControl {} }]);
    ModelInput { tools, system, messages }
}

fn hardened(prompt: &Prompt, target: AnthropicTarget<'_>) -> Vec<Arc<Message>> {
    history::harden(&prompt.messages, |answer, native| messages::speaks(answer, native, target))
}

fn declaration(tool: &ToolDeclaration) -> Tool<'_> {
    Tool {
        name: names::accepted(&tool.name),
        description: &tool.description,
        input_schema: schema(&tool.parameters),
        cache_control: None,
    }
}

/// Converts a schema for the API, which wants an object without alternatives at the top level.
fn schema(parameters: &Value) -> Cow<'_, Value> {
    const ALTERNATIVE_KEYS: [&str; 3] = ["oneOf", "anyOf", "allOf"];
    let Value::Object(fields) = parameters else {
        return Cow::Owned(json!({ "type": "object" }));
    };
    let is_object = fields.get("type").and_then(Value::as_str) == Some("object");
    if is_object && !ALTERNATIVE_KEYS.iter().any(|word| fields.contains_key(*word)) {
        return Cow::Borrowed(parameters);
    }
    let mut fields = fields.clone();
    fields.retain(|field, _| !ALTERNATIVE_KEYS.contains(&field.as_str()));
    fields.insert("type".to_owned(), json!("object"));
    Cow::Owned(Value::Object(fields))
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body)
        .map_err(|error| Error::Rejected(format!("The request cannot be written: {error}")))
}
