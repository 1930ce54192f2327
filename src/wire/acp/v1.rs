//! Version 1 of the Agent Client Protocol, which current editors speak (schema 1.15.1).
//!
//! Messages of clients are read leniently: a capability of the wrong shape counts as missing. The order of fields is
//! the order on the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::PlanEntry;

/// Version that this program speaks.
pub const PROTOCOL_VERSION: u16 = 1;

/// Client to agent: deletes the stored credentials.
pub const LOGOUT_METHOD: &str = "logout";
/// Client to agent: creates a session.
pub const NEW_SESSION: &str = "session/new";
/// Client to agent: opens an existing session, and shows all its earlier events.
pub const LOAD_SESSION: &str = "session/load";
/// Client to agent: opens an existing session, without showing its earlier events.
pub const RESUME_SESSION: &str = "session/resume";
/// Client to agent: lists sessions.
pub const LIST_SESSIONS: &str = "session/list";
/// Client to agent: closes a session, which stays stored.
pub const CLOSE_SESSION: &str = "session/close";
/// Client to agent: deletes a session.
pub const DELETE_SESSION: &str = "session/delete";
/// Client to agent: runs one turn; answered when the turn has ended.
pub const PROMPT_METHOD: &str = "session/prompt";
/// Client to agent, a notification: stops the running turn.
pub const CANCEL_METHOD: &str = "session/cancel";
/// Client to agent: changes the approval mode.
pub const SET_MODE: &str = "session/set_mode";
/// Client to agent: changes an option of a session.
pub const SET_CONFIG_OPTION: &str = "session/set_config_option";
/// Client to agent: changes the model. The method was removed from the protocol, but some clients still call it.
pub const SET_MODEL: &str = "session/set_model";
/// Client to agent, an extension of several agents: adds a text of the user to a running turn.
pub const STEERING_METHOD: &str = "_session/steering";
/// Agent to client, a notification: shows an event of a session.
pub const UPDATE_METHOD: &str = "session/update";
/// Agent to client: asks for permission to run a tool call.
pub const REQUEST_PERMISSION: &str = "session/request_permission";
/// Agent to client: asks the user to fill in a form, or to open a page.
pub const CREATE_ELICITATION: &str = "elicitation/create";
/// Agent to client, a notification: the purpose of a page that was opened is fulfilled.
pub const COMPLETE_ELICITATION: &str = "elicitation/complete";
/// Agent to client: returns a file's text, including changes that are not saved.
pub const READ_TEXT_FILE: &str = "fs/read_text_file";
/// Agent to client: writes a file.
pub const WRITE_TEXT_FILE: &str = "fs/write_text_file";
/// Agent to client: runs a command in a new terminal.
pub const CREATE_TERMINAL: &str = "terminal/create";
/// Agent to client: waits for the end of the command, and is answered then.
pub const WAIT_FOR_TERMINAL_EXIT: &str = "terminal/wait_for_exit";
/// Agent to client: returns the output of the command so far.
pub const TERMINAL_OUTPUT: &str = "terminal/output";
/// Agent to client: kills the command, and keeps the terminal.
pub const KILL_TERMINAL: &str = "terminal/kill";
/// Agent to client: kills the command, if it still runs, and frees the terminal.
pub const RELEASE_TERMINAL: &str = "terminal/release";

/// Reads a value. A value of the wrong shape is read as the default.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Reads a list. Items of the wrong shape are left out, and a value that is no list is read as an empty list.
fn lenient_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Value::Array(items) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// Parameters of `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitializeParams {
    /// Version that the client proposes to speak.
    #[serde(deserialize_with = "lenient")]
    pub protocol_version: Value,
    #[serde(deserialize_with = "lenient")]
    client_capabilities: Option<ClientCapabilities>,
    #[serde(deserialize_with = "lenient")]
    client_info: Option<ClientInfo>,
    /// The client's capabilities, in the field of version 2 of the protocol.
    #[serde(deserialize_with = "lenient")]
    capabilities: Option<ClientCapabilities>,
    /// Name of the client's program, in the field of version 2 of the protocol.
    #[serde(deserialize_with = "lenient")]
    info: Option<ClientInfo>,
}

impl InitializeParams {
    /// Returns the capabilities of the client. Clients that speak both versions 1 and 2 send the capabilities in the
    /// fields of both. Then the field of version 1 is used, because the agent answers with version 1.
    pub fn client_capabilities(&self) -> ClientCapabilities {
        let sent = self.client_capabilities.as_ref().or(self.capabilities.as_ref());
        sent.cloned().unwrap_or_default()
    }

    /// Returns the name of the client's program, if the client has sent it.
    pub fn client_name(&self) -> Option<&str> {
        let info = self.client_info.as_ref().or(self.info.as_ref())?;
        Some(&info.name)
    }

    /// Returns the requests about files that the client answers. A client that speaks only a later version answers
    /// none, even if it sends a capability with the same name.
    pub fn file_system(&self) -> FileSystemCapabilities {
        if self.is_later() {
            FileSystemCapabilities::default()
        } else {
            self.client_capabilities().fs
        }
    }

    /// Returns `true` if the client runs commands in its terminals. A client that speaks only a later version does not.
    pub fn runs_commands(&self) -> bool {
        self.client_capabilities().terminal && !self.is_later()
    }

    fn is_later(&self) -> bool {
        let has_both_shapes = self.client_capabilities.is_some() && self.capabilities.is_some();
        let version = self.protocol_version.as_u64();
        !has_both_shapes && version.is_some_and(|version| version > PROTOCOL_VERSION.into())
    }
}

/// Name of a client's program.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ClientInfo {
    /// Name for programs.
    pub name: String,
}

/// Capabilities of a client, as far as this program uses them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientCapabilities {
    /// Requests about files that the client answers.
    #[serde(deserialize_with = "lenient")]
    pub fs: FileSystemCapabilities,
    /// `true` if the client answers requests about terminals, such as [`CREATE_TERMINAL`].
    #[serde(deserialize_with = "lenient")]
    pub terminal: bool,
    /// Ways to log in that the client supports.
    #[serde(deserialize_with = "lenient")]
    pub auth: ClientAuth,
    /// Optional session updates that the client takes.
    #[serde(deserialize_with = "lenient")]
    pub session: ClientSession,
    /// Ways in which the client asks its user, in addition to questions for permission.
    #[serde(deserialize_with = "lenient")]
    pub elicitation: ClientElicitation,
    /// Capabilities that clients and agents have agreed on outside of the protocol.
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub meta: ClientMeta,
}

/// Optional session updates that a client takes. The client takes an update if there is an object for it, which may
/// be empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientSession {
    /// Capability for [`SessionUpdate::Notice`].
    #[serde(deserialize_with = "lenient")]
    pub notices: Option<Map<String, Value>>,
    /// Capability for [`SessionUpdate::CompactionUpdate`].
    #[serde(deserialize_with = "lenient")]
    pub compaction: Option<Map<String, Value>>,
}

/// Requests about files that a client answers.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemCapabilities {
    /// `true` if the client answers [`READ_TEXT_FILE`].
    #[serde(deserialize_with = "lenient")]
    pub read_text_file: bool,
    /// `true` if the client answers [`WRITE_TEXT_FILE`].
    #[serde(deserialize_with = "lenient")]
    pub write_text_file: bool,
}

/// Ways to log in that a client supports.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientAuth {
    /// Capability to run the agent's program in a terminal: present if the value is `true` or an object.
    #[serde(deserialize_with = "lenient")]
    pub terminal: Value,
}

impl ClientAuth {
    /// Returns `true` if the client can run the agent's program in a terminal.
    pub fn has_terminal(&self) -> bool {
        self.terminal == Value::Bool(true) || self.terminal.is_object()
    }
}

/// Ways in which a client asks its user, in addition to questions for permission. They do not depend on each other.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientElicitation {
    /// Capability to show forms: present if the value is an object.
    #[serde(deserialize_with = "lenient")]
    pub form: Value,
    /// Capability to show the addresses of pages to open: present if the value is an object.
    #[serde(deserialize_with = "lenient")]
    pub url: Value,
}

impl ClientElicitation {
    /// Returns `true` if the client shows forms.
    pub fn has_form(&self) -> bool {
        self.form.is_object()
    }

    /// Returns `true` if the client shows the addresses of pages to open.
    pub fn has_url(&self) -> bool {
        self.url.is_object()
    }
}

/// Parameters of [`CREATE_ELICITATION`] for a page that the agent needs to answer a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlElicitationParams<'a> {
    /// Id of the client's request that needs the page.
    pub request_id: &'a RawValue,
    /// Always `url`.
    pub mode: &'static str,
    /// Id of the elicitation.
    pub elicitation_id: &'a str,
    /// Address of the page.
    pub url: &'a str,
    /// Message that tells the user the purpose of the page.
    pub message: &'a str,
}

/// Parameters of [`CREATE_ELICITATION`] for a form that a call needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FormElicitationParams<'a> {
    /// Id of the session.
    pub session_id: &'a str,
    /// Id of the call.
    pub tool_call_id: &'a str,
    /// Always `form`.
    pub mode: &'static str,
    /// Message above the form.
    pub message: String,
    /// Fields of the form.
    pub requested_schema: ElicitationSchema,
}

/// Fields of a form.
#[derive(Debug, Serialize)]
pub struct ElicitationSchema {
    /// Always `object`.
    pub r#type: &'static str,
    /// Fields, by their names.
    pub properties: BTreeMap<String, ElicitationProperty>,
}

/// Field of a form: a text, or a choice among some texts.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "type", rename = "string", rename_all = "camelCase")]
pub struct ElicitationProperty {
    /// Label of the field.
    pub title: String,
    /// Texts to choose from; empty if the user types the text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<ElicitationOption>,
    /// Maximum length of the text, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
}

/// Text to choose in a form.
#[derive(Debug, Serialize)]
pub struct ElicitationOption {
    /// The text.
    #[serde(rename = "const")]
    pub value: String,
    /// Text as it is shown.
    pub title: String,
    /// Meaning of the text; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Result of [`CREATE_ELICITATION`].
#[derive(Debug, Deserialize)]
pub struct ElicitationResponse {
    /// Choice of the user: `accept`, `decline`, `cancel`.
    pub action: String,
    /// Fields of the form that the user has filled in.
    #[serde(default, deserialize_with = "lenient")]
    pub content: Map<String, Value>,
}

/// Parameters of [`COMPLETE_ELICITATION`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationIdParams<'a> {
    /// Id of the elicitation.
    pub elicitation_id: &'a str,
}

/// Capabilities of a client that are agreed on outside of the protocol.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientMeta {
    /// `true` if the client shows terminals that the agent writes to.
    #[serde(deserialize_with = "lenient")]
    pub terminal_output: bool,
    /// `true` if the client can run the agent's program in a terminal to log in; the older form of [`ClientAuth`].
    #[serde(rename = "terminal-auth", deserialize_with = "lenient")]
    pub terminal_auth: bool,
}

/// Result of `initialize`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// Version that the agent speaks.
    pub protocol_version: u16,
    /// Capabilities of the agent.
    pub agent_capabilities: AgentCapabilities,
    /// Name of the agent.
    pub agent_info: Implementation,
    /// Ways to log in that the agent offers.
    pub auth_methods: Vec<AuthMethod>,
    /// Capabilities that clients and agents have agreed on outside of the protocol.
    #[serde(rename = "_meta")]
    pub meta: AgentMeta,
}

/// Capability without options, sent as an empty object.
#[derive(Debug, Default, Serialize)]
pub struct Supported {}

/// Capabilities of the agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// `true` if the agent has `session/load`.
    pub load_session: bool,
    /// Content that prompts may have.
    pub prompt_capabilities: PromptCapabilities,
    /// Transports of MCP servers.
    pub mcp_capabilities: McpCapabilities,
    /// Optional methods of sessions.
    pub session_capabilities: SessionCapabilities,
    /// Optional methods for credentials.
    pub auth: AuthCapabilities,
}

/// Content that prompts may have in addition to text and links.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct PromptCapabilities {
    pub image: bool,
    pub audio: bool,
    pub embedded_context: bool,
}

/// Transports of MCP servers in addition to standard input and output.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct McpCapabilities {
    pub http: bool,
    pub sse: bool,
}

/// Optional methods of sessions that the agent has.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SessionCapabilities {
    pub list: Supported,
    pub resume: Supported,
    pub close: Supported,
    pub delete: Supported,
    pub additional_directories: Supported,
}

/// Optional methods for credentials that the agent has.
#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct AuthCapabilities {
    pub logout: Supported,
}

/// Capabilities of the agent that are agreed on outside of the protocol.
#[derive(Debug, Serialize)]
pub struct AgentMeta {
    /// Capability for [`STEERING_METHOD`].
    pub steering: SteeringCapability,
}

/// Capability for the extension [`STEERING_METHOD`].
#[derive(Debug, Serialize)]
pub struct SteeringCapability {
    /// `true` if the agent has the method.
    pub supported: bool,
}

/// Name of a program.
#[derive(Debug, Serialize)]
pub struct Implementation {
    /// Name for programs.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Version of the program.
    pub version: &'static str,
}

/// A way to log in.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AuthMethod {
    /// The agent logs in when the client calls `authenticate`.
    Agent {
        /// Id for `authenticate`.
        id: String,
        /// Name for people.
        name: String,
        /// Description of the login, for people.
        description: String,
        /// The login in a terminal, for clients that read it from `_meta`.
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<TerminalAuthMeta>,
    },
    /// The client runs the agent's program with these arguments in a terminal.
    Terminal {
        /// Always `terminal`.
        r#type: &'static str,
        /// Id of the method.
        id: &'static str,
        /// Name for people.
        name: &'static str,
        /// Arguments that follow the arguments with which the client starts the agent.
        args: Vec<String>,
    },
}

/// Members of `_meta` of a way to log in.
#[derive(Debug, Serialize)]
pub struct TerminalAuthMeta {
    /// The command to run in a terminal.
    #[serde(rename = "terminal-auth")]
    pub terminal_auth: TerminalAuth,
}

/// A command to run in a terminal.
#[derive(Debug, Serialize)]
pub struct TerminalAuth {
    /// Path of the program.
    pub command: PathBuf,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Name for people.
    pub label: &'static str,
}

/// Parameters of `authenticate`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthenticateParams {
    /// Id of the way to log in.
    pub method_id: String,
    /// Members of `_meta`, with a key that the client has asked its user for.
    #[serde(rename = "_meta", default, deserialize_with = "lenient")]
    pub meta: AuthenticateMeta,
}

/// Members of `_meta` of `authenticate`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AuthenticateMeta {
    /// The provider's API key.
    pub api_key: Option<String>,
}

/// Parameters of [`NEW_SESSION`], and of [`LOAD_SESSION`] and [`RESUME_SESSION`] without the id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSetup {
    /// Directory to work in.
    pub cwd: PathBuf,
    /// Other directories to work in.
    #[serde(default, deserialize_with = "lenient_list")]
    pub additional_directories: Vec<PathBuf>,
    /// MCP servers, each a [`McpServer`]. They are read as any JSON, so that a wrong description does not keep the
    /// session from using the other servers.
    #[serde(default)]
    pub mcp_servers: Option<Vec<Value>>,
}

impl SessionSetup {
    /// Returns all directories to work in.
    pub fn directories(&self) -> Vec<PathBuf> {
        [slice::from_ref(&self.cwd), &self.additional_directories].concat()
    }
}

/// Parameters of [`LOAD_SESSION`] and [`RESUME_SESSION`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenSessionParams {
    /// Id of the session.
    pub session_id: String,
    /// Directories and servers.
    #[serde(flatten)]
    pub setup: SessionSetup,
}

/// An MCP server that the client sends along for the session.
#[derive(Debug, Deserialize)]
pub struct McpServer {
    /// Name of the server.
    pub name: String,
    /// Transport; `None` for standard input and output.
    #[serde(default)]
    pub r#type: Option<String>,
    /// Program to start.
    #[serde(default)]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables that are added to the environment.
    #[serde(default)]
    pub env: Vec<NamedValue>,
    /// Address of a server over HTTP.
    #[serde(default)]
    pub url: Option<String>,
    /// Headers of each request over HTTP.
    #[serde(default)]
    pub headers: Vec<NamedValue>,
}

/// An environment variable, or a header.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct NamedValue {
    pub name: String,
    pub value: String,
}

/// Parameters of methods that need only the session's id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionIdParams {
    /// Id of the session.
    pub session_id: String,
}

/// Parameters of [`LIST_SESSIONS`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListSessionsParams {
    /// Directory of the sessions to list: only sessions that started there are listed.
    pub cwd: Option<PathBuf>,
    /// Cursor that ended the page before.
    pub cursor: Option<String>,
}

/// Result of [`LIST_SESSIONS`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsResponse {
    /// The sessions, the last changed first.
    pub sessions: Vec<SessionInfo>,
    /// Cursor for the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Id of the session.
    pub session_id: String,
    /// Directory that the session started in.
    pub cwd: PathBuf,
    /// Title of the session.
    pub title: String,
    /// Time of the last change, in the format of ISO 8601.
    pub updated_at: String,
    /// Members that are not part of the protocol.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<SessionInfoMeta>,
}

/// Members of `_meta` of a session in a list.
#[derive(Debug, Serialize)]
pub struct SessionInfoMeta {
    /// Sentence that says which other process has the session open, and how to open the session there.
    #[serde(rename = "openElsewhere")]
    pub open_elsewhere: String,
}

/// Parameters of [`PROMPT_METHOD`] and [`STEERING_METHOD`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    /// Id of the session.
    pub session_id: String,
    /// Parts of the prompt, in order.
    pub prompt: Vec<ContentBlock>,
    /// Options of [`STEERING_METHOD`].
    #[serde(rename = "_meta", default, deserialize_with = "lenient")]
    pub meta: SteeringMeta,
}

/// Members of `_meta` of [`STEERING_METHOD`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SteeringMeta {
    /// Options of the extension.
    #[serde(deserialize_with = "lenient")]
    pub steering: SteeringOptions,
}

/// Options of [`STEERING_METHOD`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SteeringOptions {
    /// Behaviour if no turn runs: with `promptRequired`, no turn begins.
    pub idle_behavior: Option<String>,
}

/// Result of [`STEERING_METHOD`].
#[derive(Debug, Serialize)]
pub struct SteeringResponse {
    /// `injected`, `startedNewTurn`, or `promptRequired`.
    pub outcome: &'static str,
    /// Reason for the outcome `promptRequired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// A part of a prompt.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Markdown.
    Text {
        /// The text.
        text: String,
    },
    /// A link to a file, a directory or another resource that the user mentions.
    ResourceLink {
        /// Address: `file://` for a file.
        uri: String,
    },
    /// Content that the client has read.
    Resource {
        /// The content.
        resource: EmbeddedResource,
    },
    /// An image.
    Image(MediaContent),
    /// A sound.
    Audio(MediaContent),
}

/// Bytes with their type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaContent {
    /// Content in base64.
    pub data: String,
    /// MIME type, such as `image/png`.
    pub mime_type: String,
}

/// Content that the client has read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedResource {
    /// Address of the content.
    pub uri: String,
    /// Text of the content, if it is text.
    #[serde(default)]
    pub text: Option<String>,
    /// Content in base64, if it is no text.
    #[serde(default)]
    pub blob: Option<String>,
    /// MIME type of the content.
    #[serde(default)]
    pub mime_type: Option<String>,
}

/// Result of [`PROMPT_METHOD`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptResponse {
    /// Reason why the turn ended.
    pub stop_reason: StopReason,
}

/// Reason why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

/// Parameters of [`SET_MODE`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SetModeParams {
    pub session_id: String,
    pub mode_id: String,
}

/// Parameters of [`SET_MODEL`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SetModelParams {
    pub session_id: String,
    pub model_id: String,
}

/// Parameters of [`SET_CONFIG_OPTION`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SetConfigOptionParams {
    pub session_id: String,
    pub config_id: String,
    pub value: String,
}

/// State of a session that clients show and change. It is part of several results.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOptions {
    /// Id of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Approval modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<SessionModes>,
    /// All options of the session.
    pub config_options: Vec<ConfigOption>,
}

/// Approval modes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionModes {
    /// Id of the current mode.
    pub current_mode_id: String,
    /// Modes to choose from.
    pub available_modes: Vec<SessionMode>,
}

/// An approval mode.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SessionMode {
    pub id: String,
    pub name: &'static str,
    pub description: &'static str,
}

/// An option of a session: a choice among values.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct ConfigOption {
    pub id: &'static str,
    pub name: &'static str,
    pub category: &'static str,
    /// Always `select`.
    pub r#type: &'static str,
    pub current_value: String,
    pub options: Vec<ConfigValue>,
}

/// A value of an option.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct ConfigValue {
    pub value: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Cow<'static, str>>,
}

/// Result of [`LOGOUT_METHOD`].
#[derive(Debug, Serialize)]
pub struct LogoutResponse {
    /// Members of `_meta`, if another key is still used.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<LogoutMeta>,
}

/// Members of `_meta` of [`LogoutResponse`].
#[derive(Debug, Serialize)]
pub struct LogoutMeta {
    /// Sentence that names the environment variable with the key that is still used.
    pub message: String,
}

/// Result without members.
#[derive(Debug, Serialize)]
pub struct Empty {}

/// Parameters of [`UPDATE_METHOD`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SessionNotification<'a> {
    pub session_id: &'a str,
    pub update: SessionUpdate<'a>,
}

/// An event of a session.
#[derive(Debug, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum SessionUpdate<'a> {
    UserMessageChunk(ContentChunk<'a>),
    AgentMessageChunk(ContentChunk<'a>),
    AgentThoughtChunk(ContentChunk<'a>),
    ToolCall(ToolCall<'a>),
    ToolCallUpdate(ToolCall<'a>),
    Plan {
        entries: Vec<PlanEntry<'a>>,
    },
    AvailableCommandsUpdate {
        available_commands: Vec<AvailableCommand>,
    },
    CurrentModeUpdate {
        current_mode_id: String,
    },
    ConfigOptionUpdate {
        config_options: Vec<ConfigOption>,
    },
    SessionInfoUpdate {
        title: String,
        updated_at: String,
    },
    UsageUpdate {
        used: u64,
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    CompactionUpdate {
        compaction_id: String,
        status: CompactionStatus,
        summary: [TextContent<'a>; 1],
    },
    Notice {
        severity: NoticeSeverity,
        title: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<Cow<'a, str>>,
    },
}

/// Status of a compaction.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum CompactionStatus {
    Completed,
}

/// Severity of a notice.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum NoticeSeverity {
    Info,
    Warning,
}

/// Cost of a session so far.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct Cost {
    pub amount: f64,
    /// Currency code of ISO 4217.
    pub currency: &'static str,
}

/// A piece of a message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentChunk<'a> {
    /// Id of the message.
    pub message_id: &'a str,
    /// Text to append.
    pub content: TextContent<'a>,
}

/// Text, or Markdown.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "text")]
pub struct TextContent<'a> {
    /// The text.
    pub text: Cow<'a, str>,
}

/// A tool call: all its fields, or only the fields that change.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall<'a> {
    /// Id of the call.
    pub tool_call_id: &'a str,
    /// Title of the call, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Cow<'a, str>>,
    /// Name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// Kind of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Status of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolCallStatus>,
    /// Content of the call, which replaces the content before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolCallContent<'a>>>,
    /// Files that the call is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<ToolCallLocation<'a>>>,
    /// Arguments of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<&'a Value>,
    /// Text that the call has read, or the output of a command that ran in a terminal of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Cow<'a, str>>,
    /// Terminal in which the client shows the output that the agent sends.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<TerminalMeta<'a>>,
}

/// Members of `_meta` of a call whose output is shown in a terminal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names that clients and agents have agreed on")]
pub enum TerminalMeta<'a> {
    TerminalInfo { terminal_id: &'a str, cwd: &'a Path },
    TerminalOutput { terminal_id: &'a str, data: Cow<'a, str> },
    TerminalExit { terminal_id: &'a str, exit_code: Option<i32>, signal: Option<&'a str> },
}

/// Kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolKind {
    Read,
    Edit,
    Search,
    Execute,
    Think,
    Fetch,
    Other,
}

/// Status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolCallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// Text or an image that a call shows: a `ContentBlock` of the protocol.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ResultBlock<'a> {
    /// Markdown.
    Text { text: Cow<'a, str> },
    /// An image, as standard base64 with padding.
    Image { data: &'a str, mime_type: &'a str },
}

/// Content of a tool call.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolCallContent<'a> {
    Content { content: ResultBlock<'a> },
    Diff { path: &'a str, old_text: Option<Cow<'a, str>>, new_text: Cow<'a, str> },
    Terminal { terminal_id: &'a str },
}

/// File and line of a call.
#[derive(Debug, Serialize)]
pub struct ToolCallLocation<'a> {
    /// Absolute path.
    pub path: &'a str,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AvailableCommand {
    /// Name without the slash.
    pub name: String,
    /// Description of the command, one line.
    pub description: String,
    /// Arguments that may follow the name, if the command takes any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<CommandInput>,
}

/// Arguments that may follow the name of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandInput {
    /// Description of the arguments, for people.
    pub hint: String,
}

/// Parameters of [`REQUEST_PERMISSION`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct RequestPermissionParams<'a> {
    pub session_id: &'a str,
    pub tool_call: ToolCall<'a>,
    pub options: Vec<PermissionOption>,
}

/// An answer to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct PermissionOption {
    pub option_id: String,
    pub name: String,
    pub kind: PermissionOptionKind,
}

/// Kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum PermissionOptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// Result of [`REQUEST_PERMISSION`].
#[derive(Debug, Deserialize)]
pub struct RequestPermissionResponse {
    /// The user's choice.
    pub outcome: PermissionOutcome,
}

/// The user's choice.
#[derive(Debug, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum PermissionOutcome {
    /// The client cancelled the turn.
    Cancelled,
    /// The user chose an answer.
    Selected {
        /// Id of the answer.
        option_id: String,
    },
}

/// Parameters of [`READ_TEXT_FILE`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadTextFileParams<'a> {
    /// Id of the session.
    pub session_id: &'a str,
    /// Absolute path of the file.
    pub path: &'a Path,
}

/// Result of [`READ_TEXT_FILE`].
#[derive(Debug, Deserialize)]
pub struct ReadTextFileResponse {
    /// The file's text.
    pub content: String,
}

/// Parameters of [`WRITE_TEXT_FILE`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteTextFileParams<'a> {
    /// Id of the session.
    pub session_id: &'a str,
    /// Absolute path of the file.
    pub path: &'a Path,
    /// New text of the whole file.
    pub content: &'a str,
}

/// Parameters of [`CREATE_TERMINAL`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTerminalParams<'a> {
    /// Id of the session.
    pub session_id: &'a str,
    /// Program to run.
    pub command: &'a str,
    /// Arguments of the program.
    pub args: &'a [String],
    /// Environment variables that are added to the client's environment.
    pub env: Vec<EnvVariable<'a>>,
    /// Absolute path of the working directory.
    pub cwd: &'a Path,
    /// Maximum size of the output that the client keeps, in bytes. If there is more, the client keeps the end.
    pub output_byte_limit: usize,
}

/// An environment variable.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct EnvVariable<'a> {
    pub name: &'a str,
    pub value: &'a str,
}

/// Result of [`CREATE_TERMINAL`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTerminalResponse {
    /// Id of the terminal.
    pub terminal_id: String,
}

/// Parameters of the calls about one terminal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalParams<'a> {
    /// Id of the session.
    pub session_id: &'a str,
    /// Id of the terminal.
    pub terminal_id: &'a str,
}

/// Result of [`WAIT_FOR_TERMINAL_EXIT`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalExitResponse {
    /// Exit code of the command.
    #[serde(default)]
    pub exit_code: Option<i64>,
    /// Signal that has ended the command.
    #[serde(default)]
    pub signal: Option<String>,
}

/// Result of [`TERMINAL_OUTPUT`].
#[derive(Debug, Deserialize)]
pub struct TerminalOutputResponse {
    /// Output of the command, including control characters.
    pub output: String,
    /// `true` if the beginning of the output is missing.
    #[serde(default)]
    pub truncated: bool,
}

impl NamedValue {
    /// Returns the values as pairs of name and value.
    pub fn pairs(values: Vec<Self>) -> Vec<(String, String)> {
        values.into_iter().map(|Self { name, value }| (name, value)).collect()
    }
}
