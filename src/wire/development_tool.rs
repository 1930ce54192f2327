//! The `development-tool` extension of A2A: `requirements/development-tool-extension.md` ("RFC").
//!
//! The RFC, `a2a-server.md` and the first server of this kind spell the same things differently.
//! [`ToolCall::to_value`] writes all of the spellings.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Names the extension, and its version: `v0` (RFC 3.1).
pub const URI: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// The older name of the same thing in metadata (`a2a-server.md`, "Event types").
pub const CODER_AGENT: &str = "coderAgent";

/// What an event is about (RFC 3.2, "Event Metadata"; `a2a-server.md`, "Event types").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A call is asked about.
    ToolCallConfirmation,
    /// A call begins, goes on or ends.
    ToolCallUpdate,
    /// Somebody says something.
    TextContent,
    /// The task's state is another.
    StateChange,
    /// The model thinks aloud.
    Thought,
    /// Where something is from.
    Citation,
}

impl Kind {
    /// As the RFC has it.
    pub fn upper(self) -> &'static str {
        match self {
            Self::ToolCallConfirmation => "TOOL_CALL_CONFIRMATION",
            Self::ToolCallUpdate => "TOOL_CALL_UPDATE",
            Self::TextContent => "TEXT_CONTENT",
            Self::StateChange => "STATE_CHANGE",
            Self::Thought => "THOUGHT",
            Self::Citation => "CITATION",
        }
    }

    /// As `a2a-server.md` has it.
    pub fn kebab(self) -> &'static str {
        match self {
            Self::ToolCallConfirmation => "tool-call-confirmation",
            Self::ToolCallUpdate => "tool-call-update",
            Self::TextContent => "text-content",
            Self::StateChange => "state-change",
            Self::Thought => "thought",
            Self::Citation => "citation",
        }
    }
}

/// A call, whole on every update (RFC 3.2, "Tool Calls").
#[derive(Debug, Clone, Serialize)]
pub struct ToolCall {
    /// Given by the agent.
    pub tool_call_id: String,
    /// How far it is.
    pub status: ToolCallStatus,
    /// The tool's name, as the model knows it.
    pub tool_name: String,
    /// What it does, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the model gave it.
    pub input_parameters: Value,
    /// All that it has put out so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_content: Option<String>,
    /// What came of it, if it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetails>,
    /// What is asked about it, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation_request: Option<ConfirmationRequest>,
    /// What kind of tool it is; sent for clients of the first server as `tool.kind`.
    #[serde(skip)]
    pub kind: &'static str,
}

/// How far a call is (RFC 3.2, "Tool Call Lifecycle").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ToolCallStatus {
    /// It has not begun.
    Pending,
    /// It runs.
    Executing,
    /// It worked.
    Succeeded,
    /// It did not.
    Failed,
    /// The user did not want it.
    Cancelled,
}

/// What came of a call (RFC 3.2, `ToolOutput`).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutput {
    /// Markdown, or plain output.
    Text(String),
    /// A file was changed.
    Diff(FileDiff),
    /// Anything else.
    #[serde(untagged)]
    StructuredData {
        /// The data.
        #[serde(rename = "structured_data")]
        data: Value,
        /// The same for people; sent as `result`.
        #[serde(skip)]
        text: String,
    },
}

/// Why a call failed (RFC 3.2, `ErrorDetails`).
#[derive(Debug, Clone, Serialize)]
pub struct ErrorDetails {
    /// For people.
    pub message: String,
    /// For programs, such as `file_not_found`.
    pub r#type: String,
}

/// What is asked about a call (RFC 3.2; `title`, `prompt` and `type` are of `a2a-server.md`,
/// "Tool call confirmation").
#[derive(Debug, Clone, Serialize)]
pub struct ConfirmationRequest {
    /// What may be answered.
    pub options: Vec<ConfirmationOption>,
    /// What would be done.
    #[serde(flatten)]
    pub details: ConfirmationDetails,
    /// One line.
    pub title: String,
    /// The question, and why it is asked.
    pub prompt: String,
    /// `info`, `warning` or `danger`.
    pub r#type: &'static str,
}

/// A possible answer (RFC 3.2, `ConfirmationOption`).
#[derive(Debug, Clone, Serialize)]
pub struct ConfirmationOption {
    /// What the client sends back.
    pub id: &'static str,
    /// For people.
    pub name: String,
    /// What it means, where the name does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What a call would do (RFC 3.2, `ConfirmationRequest.details`).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationDetails {
    /// Run a command line.
    ExecuteDetails {
        /// The command line.
        command: String,
        /// Where; absolute.
        working_directory: String,
    },
    /// Change a file.
    FileEditDetails(FileDiff),
    /// Call a tool of an MCP server.
    McpDetails {
        /// The server's name.
        server_name: String,
        /// The tool's name there.
        tool_name: String,
    },
    /// Anything else.
    GenericDetails {
        /// A sentence.
        description: String,
    },
}

/// A change of a file (RFC 3.2, `FileDiff`).
#[derive(Debug, Clone, Serialize)]
pub struct FileDiff {
    /// Without directories.
    pub file_name: String,
    /// Absolute.
    pub file_path: String,
    /// The text before, unless the file is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_content: Option<String>,
    /// The text after.
    pub new_content: String,
    /// The difference, as `diff -u` shows it.
    pub formatted_diff: String,
}

/// What the model thinks aloud (RFC 3.2, "Agent Thoughts").
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentThought {
    /// A few words.
    pub subject: String,
    /// The rest.
    pub description: String,
}

impl AgentThought {
    /// Reads `**Subject** description`.
    pub fn read(text: &str) -> Self {
        let parts = text.trim_start().strip_prefix("**").and_then(|rest| rest.split_once("**"));
        let (subject, description) = parts.unwrap_or(("", text));
        Self { subject: subject.trim().to_owned(), description: description.trim().to_owned() }
    }
}

impl ToolCall {
    /// The call in every spelling: the RFC's fields; their camelCase twins, `result` and
    /// `correlationId` (`a2a-server.md`, "Tool call update"; `a2a-port.md` 5.1); `request` and
    /// `tool` as the first server has them.
    pub fn to_value(&self) -> Value {
        let Ok(Value::Object(mut call)) = serde_json::to_value(self) else { return Value::Null };
        if let Some(result) = self.result() {
            call.insert("result".to_owned(), Value::String(result));
        }
        call.insert("correlationId".to_owned(), json!(self.tool_call_id));
        call.insert(
            "request".to_owned(),
            json!({ "callId": self.tool_call_id, "name": self.tool_name, "args": self.input_parameters }),
        );
        call.insert(
            "tool".to_owned(),
            json!({ "name": self.tool_name, "displayName": self.tool_name, "kind": self.kind }),
        );
        add_twins(&mut call);
        Value::Object(call)
    }

    /// What came of it, in a text.
    fn result(&self) -> Option<String> {
        match (&self.output, &self.error) {
            (Some(ToolOutput::Text(text) | ToolOutput::StructuredData { text, .. }), _) => {
                Some(text.clone())
            }
            (Some(ToolOutput::Diff(diff)), _) => Some(diff.formatted_diff.clone()),
            (None, Some(error)) => Some(error.message.clone()),
            (None, None) => None,
        }
    }
}

/// Adds to each field in `snake_case` its twin in camelCase. What is inside them stays as it is.
pub fn add_twins(object: &mut Map<String, Value>) {
    let twins: Vec<_> = object
        .iter()
        .filter(|(name, _)| name.contains('_'))
        .map(|(name, value)| (camel(name), value.clone()))
        .collect();
    object.extend(twins);
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_may_have_a_subject() {
        let read = |text| {
            let AgentThought { subject, description } = AgentThought::read(text);
            (subject, description)
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(read("**Plan** do it\n"), pair("Plan", "do it"));
        assert_eq!(read("no subject"), pair("", "no subject"));
        assert_eq!(read("**half"), pair("", "**half"));
    }

    #[test]
    fn fields_have_twins_in_camel_case() {
        let mut object = Map::from_iter([("live_content".to_owned(), json!({ "a_b": 1 }))]);
        add_twins(&mut object);
        assert_eq!(
            Value::Object(object),
            json!({ "live_content": { "a_b": 1 }, "liveContent": { "a_b": 1 } })
        );
    }
}
