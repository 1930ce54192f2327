//! Extension `development-tool` of A2A. [`URI`] is the address of its specification ("RFC").
//!
//! The RFC, the server document and the first server of this kind use different names for the same fields. A
//! [`ToolCall`] is written with all of these names. `docs/protocols.md` says which documents these are.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// URI of the extension and its version, `v0` (RFC 3.1).
pub const URI: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// Returns `true` if `uri` is the extension's URI with this version or a version that is compatible by Semantic
/// Versioning: `v0`, `v0.0`, `v0.0.N`.
pub fn is_uri(uri: &str) -> bool {
    let Some((before, after)) = URI.split_once("v0") else { return false };
    let version = uri.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    let numbers = version.and_then(|version| version.strip_prefix('v'));
    let Some(numbers) = numbers else { return false };
    let mut numbers = numbers.split('.');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.next() == Some("0")
        && numbers.next().is_none_or(|minor| minor == "0")
        && numbers.next().is_none_or(is_number)
        && numbers.next().is_none()
}

/// Older name of the extension in metadata (server document, "Event types").
pub const CODER_AGENT: &str = "coderAgent";

/// Kind of an event (RFC 3.2, "Event Metadata"; server document, "Event types").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Question about a call.
    ToolCallConfirmation,
    /// Begin, progress or end of a call.
    ToolCallUpdate,
    /// Text of a message.
    TextContent,
    /// Change of the task's state.
    StateChange,
    /// Thoughts of the model.
    Thought,
    /// Source of a statement.
    Citation,
    /// Settings that the session uses.
    AgentSettings,
}

impl EventKind {
    /// Returns the kind's name in the RFC.
    pub fn upper(self) -> &'static str {
        match self {
            Self::ToolCallConfirmation => "TOOL_CALL_CONFIRMATION",
            Self::ToolCallUpdate => "TOOL_CALL_UPDATE",
            Self::TextContent => "TEXT_CONTENT",
            Self::StateChange => "STATE_CHANGE",
            Self::Thought => "THOUGHT",
            Self::Citation => "CITATION",
            Self::AgentSettings => "AGENT_SETTINGS",
        }
    }

    /// Returns the kind's name in the server document.
    pub fn kebab(self) -> &'static str {
        match self {
            Self::ToolCallConfirmation => "tool-call-confirmation",
            Self::ToolCallUpdate => "tool-call-update",
            Self::TextContent => "text-content",
            Self::StateChange => "state-change",
            Self::Thought => "thought",
            Self::Citation => "citation",
            Self::AgentSettings => "agent-settings",
        }
    }
}

/// Metadata of an event of a task (RFC 3.2, "Event Metadata").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventMetadata {
    /// Kind of the event.
    pub kind: EventKind,
    /// Id of the model.
    pub model: String,
    /// Reason why the task failed.
    pub error: Option<String>,
    /// Position of the event's entry in the session's log, and number of the event among the events made from that
    /// entry.
    pub event_id: String,
    /// Front end that a prompt came from.
    pub source: Option<&'static str>,
    /// Front end that answered a question.
    pub answered_by: Option<String>,
    /// Commit of a git repository that holds the workspace's files, at the end of a task in a clone.
    pub git: Option<GitPlace>,
}

/// Commit of a git repository that holds the files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GitPlace {
    /// Reference that was pushed for the session; `None` if the session has changed nothing.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Id of the commit.
    pub commit: String,
}

impl Serialize for EventMetadata {
    /// Writes the metadata in the RFC's form, under the extension's URI, and in the older form, under `coderAgent`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(CODER_AGENT, &CoderAgent { kind: self.kind.kebab() })?;
        map.serialize_entry("model", &self.model)?;
        let (kind, model, error) = (self.kind.upper(), &*self.model, self.error.as_deref());
        map.serialize_entry(URI, &EventInfo { kind, model, error })?;
        map.serialize_entry("eventId", &self.event_id)?;
        if let Some(source) = self.source {
            map.serialize_entry("source", source)?;
        }
        if let Some(by) = &self.answered_by {
            map.serialize_entry("answeredBy", by)?;
        }
        if let Some(git) = &self.git {
            map.serialize_entry("git", git)?;
        }
        map.end()
    }
}

/// Older form of an event's metadata.
#[derive(Serialize)]
struct CoderAgent {
    kind: &'static str,
}

/// RFC's form of an event's metadata.
#[derive(Serialize)]
struct EventInfo<'a> {
    kind: &'static str,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// A tool call, which is sent as a whole on every update (RFC 3.2, "Tool Calls").
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The agent's id for the call.
    pub tool_call_id: String,
    /// Status of the call.
    pub status: ToolCallStatus,
    /// Name of the tool in the model's terms.
    pub tool_name: String,
    /// Description of the call, for people.
    pub description: Option<String>,
    /// Arguments from the model.
    pub input_parameters: Value,
    /// Whole output of the call so far.
    pub live_content: Option<String>,
    /// Result, if the call succeeded.
    pub output: Option<ToolCallOutput>,
    /// Error, if the call failed.
    pub error: Option<ErrorDetails>,
    /// Question about the call, while the call is pending.
    pub confirmation_request: Option<ConfirmationRequest>,
    /// Kind of the tool. It is sent as `tool.kind`, for clients of the first server.
    pub kind: &'static str,
}

/// Status of a call (RFC 3.2, "Tool Call Lifecycle").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ToolCallStatus {
    /// Not begun.
    Pending,
    /// Running.
    Executing,
    /// Done.
    Succeeded,
    /// Failed.
    Failed,
    /// Rejected or cancelled by the user.
    Cancelled,
}

/// Result of a call (RFC 3.2, `ToolOutput`).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallOutput {
    /// Markdown, or plain output.
    Text(String),
    /// Change of a file.
    Diff(EditedFile),
    /// Any other data.
    #[serde(untagged)]
    StructuredData {
        /// The data.
        #[serde(rename = "structured_data")]
        data: Value,
        /// Text of the data for people. It is sent as `result`.
        #[serde(skip)]
        text: String,
    },
}

/// Error of a call (RFC 3.2, `ErrorDetails`).
#[derive(Debug, Clone, Serialize)]
pub struct ErrorDetails {
    /// Message for people.
    pub message: String,
    /// Name for programs, such as `file_not_found`.
    pub r#type: String,
    /// Exit status of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
}

/// Question about a call (RFC 3.2; the fields `title`, `prompt` and `type` come from the server document, "Tool
/// call confirmation").
#[derive(Debug, Clone, Serialize)]
pub struct ConfirmationRequest {
    /// Possible answers.
    pub options: Vec<ConfirmationOption>,
    /// Proposed action.
    #[serde(flatten)]
    pub details: ConfirmationDetails,
    /// Title, one line.
    pub title: String,
    /// Text of the question and its reason.
    pub prompt: String,
    /// Severity: `info`, `warning` or `danger`.
    pub r#type: &'static str,
}

/// A possible answer (RFC 3.2, `ConfirmationOption`).
#[derive(Debug, Clone, Serialize)]
pub struct ConfirmationOption {
    /// Id that the client sends back.
    pub id: &'static str,
    /// Meaning, for people.
    pub name: String,
}

/// Proposed action of a call (RFC 3.2, `ConfirmationRequest.details`).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationDetails {
    /// Runs a command line.
    ExecuteDetails {
        /// The command line.
        command: String,
        /// Absolute path of the working directory.
        working_directory: String,
    },
    /// Changes a file.
    FileEditDetails(EditedFile),
    /// Calls a tool of an MCP server.
    McpDetails {
        /// The server's name.
        server_name: String,
        /// The tool's name at the server.
        tool_name: String,
    },
    /// Any other action.
    GenericDetails {
        /// Description in a sentence.
        description: String,
    },
}

/// A change of a file (RFC 3.2, `FileDiff`).
#[derive(Debug, Clone, Serialize)]
pub struct EditedFile {
    /// File name without directories.
    pub file_name: String,
    /// Absolute path.
    pub file_path: String,
    /// Text before, unless the file is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_content: Option<String>,
    /// Text after.
    pub new_content: String,
    /// Unified diff.
    pub formatted_diff: String,
}

/// Settings that a session uses (RFC 3.2, `AgentSettings`; server document, "Agent settings").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// Absolute path of the directory that the session works in.
    pub workspace_path: String,
    /// `true` if the agent runs all calls without a question.
    pub auto_execute: bool,
    /// Allowlist of the tools that the session may use; `None` for all tools.
    pub allowed_tools: Option<Vec<String>>,
}

impl Serialize for AgentSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", EventKind::AgentSettings.kebab())?;
        for name in ["workspacePath", "workspace_path"] {
            map.serialize_entry(name, &self.workspace_path)?;
        }
        for name in ["autoExecute", "auto_execute"] {
            map.serialize_entry(name, &self.auto_execute)?;
        }
        if let Some(tools) = &self.allowed_tools {
            for name in ["allowedTools", "allowed_tools"] {
                map.serialize_entry(name, tools)?;
            }
        }
        map.end()
    }
}

/// Thought of the model (RFC 3.2, "Agent Thoughts").
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentThought {
    /// Subject in a few words.
    pub subject: String,
    /// Text after the subject.
    pub description: String,
}

impl AgentThought {
    /// Parses `**Subject** description`.
    pub fn read(text: &str) -> Self {
        let parts = text.trim_start().strip_prefix("**").and_then(|rest| rest.split_once("**"));
        let (subject, description) = parts.unwrap_or(("", text));
        Self { subject: subject.trim().to_owned(), description: description.trim().to_owned() }
    }
}

impl ToolCall {
    /// Returns the result or the error of the call as one text.
    pub fn result(&self) -> Option<&str> {
        match (&self.output, &self.error) {
            (Some(ToolCallOutput::Text(text) | ToolCallOutput::StructuredData { text, .. }), _) => {
                Some(text)
            }
            (Some(ToolCallOutput::Diff(diff)), _) => Some(&diff.formatted_diff),
            (None, Some(error)) => Some(&error.message),
            (None, None) => None,
        }
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Spellings {
            tool_call_id: &self.tool_call_id,
            status: self.status,
            tool_name: &self.tool_name,
            description: self.description.as_deref(),
            input_parameters: &self.input_parameters,
            live_content: self.live_content.as_deref(),
            output: self.output.as_ref(),
            error: self.error.as_ref(),
            confirmation_request: self.confirmation_request.as_ref(),
            result: self.result(),
            correlation_id: &self.tool_call_id,
            request: CallRequest {
                call_id: &self.tool_call_id,
                name: &self.tool_name,
                args: &self.input_parameters,
            },
            tool: CallTool {
                name: &self.tool_name,
                display_name: &self.tool_name,
                kind: self.kind,
            },
            tool_call_id_camel: &self.tool_call_id,
            tool_name_camel: &self.tool_name,
            input_parameters_camel: &self.input_parameters,
            live_content_camel: self.live_content.as_deref(),
            confirmation_request_camel: self.confirmation_request.as_ref(),
        }
        .serialize(serializer)
    }
}

/// A call with all names of its fields: the RFC's fields; `result` and `correlationId` (server document, "Tool call
/// update"; port document, 5.1); `request` and `tool` as the first server writes them; and the RFC's fields in
/// camelCase.
#[derive(Serialize)]
struct Spellings<'a> {
    tool_call_id: &'a str,
    status: ToolCallStatus,
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a ToolCallOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation_request: Option<&'a ConfirmationRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(rename = "correlationId")]
    correlation_id: &'a str,
    request: CallRequest<'a>,
    tool: CallTool<'a>,
    #[serde(rename = "toolCallId")]
    tool_call_id_camel: &'a str,
    #[serde(rename = "toolName")]
    tool_name_camel: &'a str,
    #[serde(rename = "inputParameters")]
    input_parameters_camel: &'a Value,
    #[serde(rename = "liveContent", skip_serializing_if = "Option::is_none")]
    live_content_camel: Option<&'a str>,
    #[serde(rename = "confirmationRequest", skip_serializing_if = "Option::is_none")]
    confirmation_request_camel: Option<&'a ConfirmationRequest>,
}

/// The model's call, as the first server writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallRequest<'a> {
    call_id: &'a str,
    name: &'a str,
    args: &'a Value,
}

/// The tool of a call, as the first server writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallTool<'a> {
    name: &'a str,
    display_name: &'a str,
    kind: &'static str,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn a_call_is_written_in_every_spelling() {
        let call = ToolCall {
            tool_call_id: "c".to_owned(),
            status: ToolCallStatus::Succeeded,
            tool_name: "t".to_owned(),
            description: None,
            input_parameters: json!({ "a_b": 1 }),
            live_content: Some("live".to_owned()),
            output: Some(ToolCallOutput::Text("out".to_owned())),
            error: None,
            confirmation_request: None,
            kind: "read",
        };
        let expected = r#"{"tool_call_id":"c","status":"SUCCEEDED","tool_name":"t","input_parameters":{"a_b":1},"live_content":"live","output":{"text":"out"},"result":"out","correlationId":"c","request":{"callId":"c","name":"t","args":{"a_b":1}},"tool":{"name":"t","displayName":"t","kind":"read"},"toolCallId":"c","toolName":"t","inputParameters":{"a_b":1},"liveContent":"live"}"#;
        assert_eq!(serde_json::to_string(&call).unwrap(), expected);
    }
}
