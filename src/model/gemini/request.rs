//! Bodies of requests.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::contents::{self, Content, GeminiTarget, Part};
use crate::{Error, Message, Prompt, ToolDeclaration, history};

/// Content of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct GenerateContentRequest<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) target: GeminiTarget<'a>,
    /// Fields of the `generationConfig`.
    pub(super) generation: &'a Map<String, Value>,
    /// Text for the model, added after the last message of the user.
    pub(super) nudge: Option<&'a str>,
    /// Token of the checkpoint from which the answer continues.
    pub(super) token: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerateContentBody<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[FunctionDeclarations<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation_token: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclarations<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

impl GenerateContentRequest<'_> {
    /// Writes the body for `streamGenerateContent`.
    pub(super) fn body(&self) -> Result<Vec<u8>, Error> {
        let messages = self.hardened_messages();
        let mut contents = contents::contents(&messages, self.target);
        if let (Some(last), Some(text)) = (contents.last_mut(), self.nudge) {
            last.parts.push(Part::Text { text });
        }
        let system = self.prompt.system.as_ref();
        let system = (!system.is_empty())
            .then(|| Content { role: "user", parts: vec![Part::Text { text: system }] });
        let tools = &self.prompt.tools;
        let body = GenerateContentBody {
            contents,
            system_instruction: system,
            tools: (!tools.is_empty()).then(|| {
                [FunctionDeclarations {
                    function_declarations: tools.iter().map(declaration).collect(),
                }]
            }),
            generation_config: Some(self.generation).filter(|config| !config.is_empty()),
            continuation_token: self.token,
        };
        json(&body)
    }

    /// Writes the body for `countTokens`. It has only the conversation, because not every server accepts more.
    pub(super) fn count_body(&self) -> Result<Vec<u8>, Error> {
        #[derive(Serialize)]
        struct CountTokensBody<'a> {
            contents: Vec<Content<'a>>,
        }
        json(&CountTokensBody {
            contents: contents::contents(&self.hardened_messages(), self.target),
        })
    }

    fn hardened_messages(&self) -> Vec<Arc<Message>> {
        history::harden(&self.prompt.messages, |answer, native| {
            contents::speaks(answer, native, self.target)
        })
    }
}

fn declaration(tool: &ToolDeclaration) -> FunctionDeclaration<'_> {
    FunctionDeclaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: &tool.parameters,
    }
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body)
        .map_err(|error| Error::Rejected(format!("The request cannot be written: {error}")))
}
