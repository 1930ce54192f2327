//! Extension `development-tool` of A2A. [`EXTENSION_URI`] is the address of its specification ("RFC").
//!
//! The RFC, the server document and the first server of this kind use different names for the same fields. A
//! [`ToolCall`] is written with all of these names. `docs/protocols.md` says which documents these are.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::a2a::{Fields, ObjectWriter};

/// URI of the extension and its version, `v0` (RFC 3.1).
pub const EXTENSION_URI: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// Returns `true` if `uri` is the extension's URI with this version or a version that is compatible by Semantic
/// Versioning: `v0`, `v0.0`, `v0.0.N`.
pub fn is_uri(uri: &str) -> bool {
    let Some((before, after)) = EXTENSION_URI.split_once("v0") else { return false };
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
    const ALL: [Self; 7] = [
        Self::ToolCallConfirmation,
        Self::ToolCallUpdate,
        Self::TextContent,
        Self::StateChange,
        Self::Thought,
        Self::Citation,
        Self::AgentSettings,
    ];

    /// Returns the kind of a name of the RFC or of the server document.
    fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|kind| kind.kebab() == name)
    }

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Fields")]
pub struct EventMetadata {
    /// Kind of the event; `None` if the agent names none.
    pub kind: Option<EventKind>,
    /// Id of the model.
    pub model: String,
    /// Reason why the task failed.
    pub error: Option<String>,
    /// Position of the event's entry in the session's log, and number of the event among the events made from that
    /// entry.
    pub event_id: String,
    /// Front end that a prompt came from.
    pub source: Option<Cow<'static, str>>,
    /// Front end that answered a question.
    pub answered_by: Option<String>,
    /// Commit of a git repository that holds the workspace's files, at the end of a task in a clone.
    pub git: Option<GitPlace>,
}

impl From<Fields> for EventMetadata {
    /// Reads the fields that clients use.
    fn from(mut metadata: Fields) -> Self {
        let mut kind = |place: &str| metadata.take::<Fields>(place)?.take::<String>("kind");
        let kind = kind(EXTENSION_URI).or_else(|| kind(CODER_AGENT));
        let kind = kind.and_then(|name| EventKind::named(&name));
        Self { kind, event_id: metadata.take_or_default("eventId"), ..Self::default() }
    }
}

impl Serialize for EventMetadata {
    /// Writes the metadata in the RFC's form, under the extension's URI, and in the older form, under `coderAgent`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kebab, upper) = (self.kind.map(EventKind::kebab), self.kind.map(EventKind::upper));
        let mut object = ObjectWriter::new(serializer)?;
        object.field(CODER_AGENT, &EventInfo { kind: kebab, model: None, error: None })?;
        object.field("model", &self.model)?;
        let (model, error) = (Some(&*self.model), self.error.as_deref());
        object.field(EXTENSION_URI, &EventInfo { kind: upper, model, error })?;
        object.field("eventId", &self.event_id)?;
        object.optional("source", self.source.as_ref())?;
        object.optional("answeredBy", self.answered_by.as_ref())?;
        object.optional("git", self.git.as_ref())?;
        object.end()
    }
}

/// One form of an event's metadata; the older one has only the kind.
#[derive(Serialize)]
struct EventInfo<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Commit of a git repository that holds the files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitPlace {
    /// Reference that was pushed for the session; `None` if the session has changed nothing.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Id of the commit.
    pub commit: String,
}

/// A tool call, which is sent as a whole on every update (RFC 3.2, "Tool Calls").
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct ToolCall {
    /// The agent's id for the call; empty if the data is no call.
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
    pub kind: Cow<'static, str>,
}

impl From<Fields> for ToolCall {
    /// Reads the fields that clients use.
    fn from(mut call: Fields) -> Self {
        Self {
            tool_call_id: call.take_or_default("toolCallId"),
            status: call.take_or_default("status"),
            tool_name: call.take_or_default("toolName"),
            description: call.take("description"),
            input_parameters: call.take_or_default("inputParameters"),
            confirmation_request: call.take("confirmationRequest"),
            ..Self::default()
        }
    }
}

/// Status of a call (RFC 3.2, "Tool Call Lifecycle").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
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
    /// Status of no known name; an empty name if there is none.
    Other(String),
}

impl Default for ToolCallStatus {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl From<String> for ToolCallStatus {
    fn from(name: String) -> Self {
        let known =
            [Self::Pending, Self::Executing, Self::Succeeded, Self::Failed, Self::Cancelled];
        let known = known.into_iter().find(|status| status.name().eq_ignore_ascii_case(&name));
        known.unwrap_or(Self::Other(name))
    }
}

impl ToolCallStatus {
    /// Returns the name of the status.
    pub fn name(&self) -> &str {
        match self {
            Self::Pending => "PENDING",
            Self::Executing => "EXECUTING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Other(name) => name,
        }
    }
}

impl Serialize for ToolCallStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
/// Result of a call (RFC 3.2, `ToolOutput`).
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields")]
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
    pub r#type: Cow<'static, str>,
}

impl From<Fields> for ConfirmationRequest {
    fn from(mut request: Fields) -> Self {
        Self {
            options: request.take_list("options"),
            title: request.take_or_default("title"),
            prompt: request.take_or_default("prompt"),
            r#type: request.take_or_default("type"),
            details: ConfirmationDetails::from(request),
        }
    }
}

/// A possible answer (RFC 3.2, `ConfirmationOption`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct ConfirmationOption {
    /// Id that the client sends back.
    pub id: Cow<'static, str>,
    /// Meaning, for people.
    pub name: String,
}

impl From<Fields> for ConfirmationOption {
    fn from(mut option: Fields) -> Self {
        Self { id: option.take_or_default("id"), name: option.take_or_default("name") }
    }
}

/// Proposed action of a call (RFC 3.2, `ConfirmationRequest.details`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

impl From<Fields> for ConfirmationDetails {
    /// Reads the details of a question. Details of MCP servers have no more than the call itself.
    fn from(mut request: Fields) -> Self {
        if let Some(mut execute) = request.take::<Fields>("executeDetails") {
            let command = execute.take_or_default("command");
            let working_directory = execute.take_or_default("workingDirectory");
            return Self::ExecuteDetails { command, working_directory };
        }
        if let Some(edit) = request.take("fileEditDetails") {
            return Self::FileEditDetails(edit);
        }
        let generic = request.take::<Fields>("genericDetails");
        let description = generic.and_then(|mut generic| generic.take("description"));
        Self::GenericDetails { description: description.unwrap_or_default() }
    }
}

/// A change of a file (RFC 3.2, `FileDiff`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields")]
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

impl From<Fields> for EditedFile {
    fn from(mut file: Fields) -> Self {
        Self {
            file_name: file.take_or_default("fileName"),
            file_path: file.take_or_default("filePath"),
            old_content: file.take("oldContent"),
            new_content: file.take_or_default("newContent"),
            formatted_diff: file.take_or_default("formattedDiff"),
        }
    }
}

/// Answer to a question about a call (RFC 3.2, `ToolCallConfirmation`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCallConfirmation {
    /// Id of the call.
    pub tool_call_id: String,
    /// Id of the chosen option.
    pub selected_option_id: String,
    /// Text to write to the file instead of the proposed one. The client of this program proposes none.
    #[serde(skip)]
    pub new_content: Option<String>,
    /// Answers to the questions that the call asks, in their order; empty if the answer is an option. The field is
    /// tandem's own, and the client of this program sends none.
    #[serde(skip)]
    pub answers: Vec<String>,
}

/// Option that rejects a call.
pub const CANCEL_OPTION: &str = "cancel";

/// Option in place of a chosen one where the answer is a list of texts.
pub const ANSWERS_OPTION: &str = "answers";

/// Options of the model's only question to the user, in their order.
pub const INPUT_OPTIONS: [&str; 4] = ["option_1", "option_2", "option_3", "option_4"];

/// Plain yes of a client that was shown no options.
pub const YES_WORD: &str = "yes";

impl ToolCallConfirmation {
    /// Reads the answer in the data of a part; `None` if the data is no answer. The server document and the first
    /// server have other names for the fields, and `approved` in place of an option.
    pub fn read(mut data: Fields) -> Option<Self> {
        let text = |name| data.text(name).map(ToOwned::to_owned);
        let tool_call_id = text("toolCallId").or_else(|| text("callId"))?;
        let answers: Vec<String> = data.take_list("answers");
        let text = |name| data.text(name).map(ToOwned::to_owned);
        let option = text("selectedOptionId").or_else(|| text("outcome"));
        let selected_option_id = match (option.as_deref(), data.flag("approved")) {
            (Some("reject" | "deny"), _) | (None, Some(false)) => CANCEL_OPTION.to_owned(),
            (Some(_), Some(false)) if !answers.is_empty() => CANCEL_OPTION.to_owned(),
            (None, Some(true)) => YES_WORD.to_owned(),
            (None, None) if !answers.is_empty() => ANSWERS_OPTION.to_owned(),
            (_, _) => option?,
        };
        let mut details = data.take::<Fields>("modifiedDetails").unwrap_or(data);
        let mut file = details.take::<Fields>("fileDetails").unwrap_or(details);
        let new_content = file.take("newContent");
        Some(Self { tool_call_id, selected_option_id, new_content, answers })
    }
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
        let mut object = ObjectWriter::new(serializer)?;
        object.field("kind", EventKind::AgentSettings.kebab())?;
        object.twice(["workspacePath", "workspace_path"], Some(&self.workspace_path))?;
        object.twice(["autoExecute", "auto_execute"], Some(&self.auto_execute))?;
        object.twice(["allowedTools", "allowed_tools"], self.allowed_tools.as_ref())?;
        object.end()
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
    /// Writes the call with all names of its fields: the RFC's fields; `result` and `correlationId` (server document,
    /// "Tool call update"; port document, 5.1); `request` and `tool` as the first server writes them; and the RFC's
    /// fields in camelCase.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (id, name, args) = (&self.tool_call_id, &self.tool_name, &self.input_parameters);
        let (live, asked) = (self.live_content.as_ref(), self.confirmation_request.as_ref());
        let mut object = ObjectWriter::new(serializer)?;
        object.field("tool_call_id", id)?;
        object.field("status", &self.status)?;
        object.field("tool_name", name)?;
        object.optional("description", self.description.as_ref())?;
        object.field("input_parameters", args)?;
        object.optional("live_content", live)?;
        object.optional("output", self.output.as_ref())?;
        object.optional("error", self.error.as_ref())?;
        object.optional("confirmation_request", asked)?;
        object.optional("result", self.result())?;
        object.field("correlationId", id)?;
        object.field("request", &CallRequest { call_id: id, name, args })?;
        object.field("tool", &CallTool { name, display_name: name, kind: &self.kind })?;
        object.field("toolCallId", id)?;
        object.field("toolName", name)?;
        object.field("inputParameters", args)?;
        object.optional("liveContent", live)?;
        object.optional("confirmationRequest", asked)?;
        object.end()
    }
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
    kind: &'a str,
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
            kind: "read".into(),
        };
        let expected = r#"{"tool_call_id":"c","status":"SUCCEEDED","tool_name":"t","input_parameters":{"a_b":1},"live_content":"live","output":{"text":"out"},"result":"out","correlationId":"c","request":{"callId":"c","name":"t","args":{"a_b":1}},"tool":{"name":"t","displayName":"t","kind":"read"},"toolCallId":"c","toolName":"t","inputParameters":{"a_b":1},"liveContent":"live"}"#;
        assert_eq!(serde_json::to_string(&call).unwrap(), expected);
    }
}
