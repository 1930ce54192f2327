//! The Agent Client Protocol 1, which today's editors speak (schema 1.15.1).
//!
//! Messages of clients are read leniently: a capability of the wrong shape is one that is not there.
//! Field order is the order on the wire.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::slice;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Version that this program speaks.
pub const VERSION: u16 = 1;

/// Client to agent: forgets the credentials.
pub const LOGOUT: &str = "logout";
/// Client to agent: begins a session.
pub const NEW_SESSION: &str = "session/new";
/// Client to agent: opens a session, and shows all of it.
pub const LOAD_SESSION: &str = "session/load";
/// Client to agent: opens a session, and shows nothing of it.
pub const RESUME_SESSION: &str = "session/resume";
/// Client to agent: lists sessions.
pub const LIST_SESSIONS: &str = "session/list";
/// Client to agent: has no more use for a session, which stays stored.
pub const CLOSE_SESSION: &str = "session/close";
/// Client to agent: deletes a session.
pub const DELETE_SESSION: &str = "session/delete";
/// Client to agent: runs one turn; answered when the turn has ended.
pub const PROMPT: &str = "session/prompt";
/// Client to agent, a notification: stops the running turn.
pub const CANCEL: &str = "session/cancel";
/// Client to agent: changes the approval mode.
pub const SET_MODE: &str = "session/set_mode";
/// Client to agent: changes an option of a session.
pub const SET_CONFIG_OPTION: &str = "session/set_config_option";
/// Client to agent: changes the model. Removed from the protocol, and still called.
pub const SET_MODEL: &str = "session/set_model";
/// Client to agent, an extension of several agents: tells the model something in a running turn.
pub const STEERING: &str = "_session/steering";
/// Agent to client, a notification: shows what happens in a session.
pub const UPDATE: &str = "session/update";
/// Agent to client: asks for permission to run a tool call.
pub const REQUEST_PERMISSION: &str = "session/request_permission";
/// Agent to client: has the user open a page.
pub const CREATE_ELICITATION: &str = "elicitation/create";
/// Agent to client, a notification: what a page was opened for is done.
pub const COMPLETE_ELICITATION: &str = "elicitation/complete";
/// Agent to client: returns a file's text, with changes that are not saved.
pub const READ_TEXT_FILE: &str = "fs/read_text_file";
/// Agent to client: writes a file.
pub const WRITE_TEXT_FILE: &str = "fs/write_text_file";
/// Agent to client: runs a command in a new terminal.
pub const CREATE_TERMINAL: &str = "terminal/create";
/// Agent to client: answered when the command has ended.
pub const WAIT_FOR_TERMINAL_EXIT: &str = "terminal/wait_for_exit";
/// Agent to client: returns what the command has written so far.
pub const TERMINAL_OUTPUT: &str = "terminal/output";
/// Agent to client: ends the command.
pub const KILL_TERMINAL: &str = "terminal/kill";
/// Agent to client: ends the command, and frees the terminal.
pub const RELEASE_TERMINAL: &str = "terminal/release";

/// Reads a value; one of the wrong shape is the default.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Reads a list; items of the wrong shape, and all that is no list, are left out.
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
    /// Version that the client would speak.
    #[serde(deserialize_with = "lenient")]
    pub protocol_version: Value,
    #[serde(deserialize_with = "lenient")]
    client_capabilities: Option<ClientCapabilities>,
    #[serde(deserialize_with = "lenient")]
    client_info: Option<ClientInfo>,
    /// The client's capabilities, in the field that version 2 of the protocol has for them.
    #[serde(deserialize_with = "lenient")]
    capabilities: Option<ClientCapabilities>,
    /// The client's program, in the field that version 2 of the protocol has for it.
    #[serde(deserialize_with = "lenient")]
    info: Option<ClientInfo>,
}

impl InitializeParams {
    /// Returns the capabilities of the client. Of a client that sends both shapes, as clients that speak
    /// versions 1 and 2 do, those of version 1 count: it is the version that the agent answers.
    pub fn client_capabilities(&self) -> ClientCapabilities {
        let sent = self.client_capabilities.as_ref().or(self.capabilities.as_ref());
        sent.cloned().unwrap_or_default()
    }

    /// Returns the name of the client's program, if it says one.
    pub fn client_name(&self) -> Option<&str> {
        let info = self.client_info.as_ref().or(self.info.as_ref())?;
        Some(&info.name)
    }

    /// Returns the calls for files that the client answers. A client of a later version alone has none, whatever
    /// it calls by that name.
    pub fn file_system(&self) -> FileSystemCapabilities {
        if self.is_later() {
            FileSystemCapabilities::default()
        } else {
            self.client_capabilities().fs
        }
    }

    /// Returns `true` if the client runs commands in its terminals. A client of a later version alone does not.
    pub fn runs_commands(&self) -> bool {
        self.client_capabilities().terminal && !self.is_later()
    }

    fn is_later(&self) -> bool {
        let has_both_shapes = self.client_capabilities.is_some() && self.capabilities.is_some();
        let version = self.protocol_version.as_u64();
        !has_both_shapes && version.is_some_and(|version| version > VERSION.into())
    }
}

/// Name of a client's program.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ClientInfo {
    /// Name for programs.
    pub name: String,
}

/// Capabilities of a client that this program has a use for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientCapabilities {
    /// Calls for files.
    #[serde(deserialize_with = "lenient")]
    pub fs: FileSystemCapabilities,
    /// Calls for terminals: [`CREATE_TERMINAL`] and the like.
    #[serde(deserialize_with = "lenient")]
    pub terminal: bool,
    /// Ways to log in.
    #[serde(deserialize_with = "lenient")]
    pub auth: ClientAuth,
    /// Updates of sessions that not every client takes.
    #[serde(deserialize_with = "lenient")]
    pub session: ClientSession,
    /// Ways to ask the user beside permissions.
    #[serde(deserialize_with = "lenient")]
    pub elicitation: ClientElicitation,
    /// Capabilities that are agreed on outside of the protocol.
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub meta: ClientMeta,
}

/// Updates of sessions that a client takes, each if there is an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientSession {
    /// [`SessionUpdate::Notice`].
    #[serde(deserialize_with = "lenient")]
    pub notices: Option<Map<String, Value>>,
    /// [`SessionUpdate::CompactionUpdate`].
    #[serde(deserialize_with = "lenient")]
    pub compaction: Option<Map<String, Value>>,
}

/// Calls for files that a client answers.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemCapabilities {
    /// [`READ_TEXT_FILE`].
    #[serde(deserialize_with = "lenient")]
    pub read_text_file: bool,
    /// [`WRITE_TEXT_FILE`].
    #[serde(deserialize_with = "lenient")]
    pub write_text_file: bool,
}

/// Ways to log in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientAuth {
    /// `true`, or an object: the client can run the agent's program in a terminal.
    #[serde(deserialize_with = "lenient")]
    pub terminal: Value,
}

impl ClientAuth {
    /// Returns `true` if the client can run the agent's program in a terminal.
    pub fn has_terminal(&self) -> bool {
        self.terminal == Value::Bool(true) || self.terminal.is_object()
    }
}

/// Ways in which a client asks its user beside permissions. Each is there by itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientElicitation {
    /// An object: the client shows the addresses of pages to open.
    #[serde(deserialize_with = "lenient")]
    pub url: Value,
}

impl ClientElicitation {
    /// Returns `true` if the client shows the addresses of pages to open.
    pub fn has_url(&self) -> bool {
        self.url.is_object()
    }
}

/// Parameters of [`CREATE_ELICITATION`] for a page, while the agent answers a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlElicitationParams<'a> {
    /// Id of the client's request that needs the page.
    pub request_id: &'a RawValue,
    /// `url`.
    pub mode: &'static str,
    /// Id of the elicitation.
    pub elicitation_id: &'a str,
    /// Address of the page.
    pub url: &'a str,
    /// Message to the user: what the page is for.
    pub message: &'a str,
}

/// Result of [`CREATE_ELICITATION`].
#[derive(Debug, Deserialize)]
pub struct ElicitationResponse {
    /// Choice of the user: `accept`, `decline`, `cancel`.
    pub action: String,
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
    /// The client shows a terminal that the agent writes to.
    #[serde(deserialize_with = "lenient")]
    pub terminal_output: bool,
    /// The client runs the agent's program in a terminal to log in: the older way to say so.
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
    /// Ways to log in.
    pub auth_methods: Vec<AuthMethod>,
    /// Capabilities that are agreed on outside of the protocol.
    #[serde(rename = "_meta")]
    pub meta: AgentMeta,
}

/// Capability that has no particulars.
#[derive(Debug, Default, Serialize)]
pub struct Supported {}

/// Capabilities of the agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// `session/load` is there.
    pub load_session: bool,
    /// Content of prompts.
    pub prompt_capabilities: PromptCapabilities,
    /// MCP servers.
    pub mcp_capabilities: McpCapabilities,
    /// Methods of sessions.
    pub session_capabilities: SessionCapabilities,
    /// Methods of credentials.
    pub auth: AuthCapabilities,
}

/// Content that prompts may have beside text and links.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct PromptCapabilities {
    pub image: bool,
    pub audio: bool,
    pub embedded_context: bool,
}

/// Transports of MCP servers beside standard input and output.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct McpCapabilities {
    pub http: bool,
    pub sse: bool,
}

/// Methods of sessions that are there.
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

/// Methods of credentials that are there.
#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct AuthCapabilities {
    pub logout: Supported,
}

/// Capabilities of the agent that are agreed on outside of the protocol.
#[derive(Debug, Serialize)]
pub struct AgentMeta {
    /// [`STEERING`].
    pub steering: SteeringCapability,
}

/// The extension [`STEERING`].
#[derive(Debug, Serialize)]
pub struct SteeringCapability {
    /// `true` if the method is there.
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
    /// The agent does it, when the client calls `authenticate`.
    Agent {
        /// Id for `authenticate`.
        id: String,
        /// Name for people.
        name: String,
        /// What happens, for people.
        description: String,
        /// The same in a terminal, for clients that know it by this name.
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
        /// Arguments after the client's own.
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
    /// A key that the client has asked its user for.
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

/// Parameters of [`NEW_SESSION`]; and of [`LOAD_SESSION`] and [`RESUME_SESSION`], but for the id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSetup {
    /// The directory to work in.
    pub cwd: PathBuf,
    /// The other directories to work in.
    #[serde(default, deserialize_with = "lenient_list")]
    pub additional_directories: Vec<PathBuf>,
    /// MCP servers, each a [`McpServer`]. Read as any JSON: a wrong one must not be in the way of the
    /// others.
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

/// An MCP server that the client brings.
#[derive(Debug, Deserialize)]
pub struct McpServer {
    /// Name of the server.
    pub name: String,
    /// Transport; none is standard input and output.
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

/// Parameters of methods that need the session's id alone.
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
    /// Only the sessions that started in this directory.
    pub cwd: Option<PathBuf>,
    /// End of the page before.
    pub cursor: Option<String>,
}

/// Result of [`LIST_SESSIONS`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsResponse {
    /// The sessions, the last changed first.
    pub sessions: Vec<SessionInfo>,
    /// Place where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Id of the session.
    pub session_id: String,
    /// The directory that it started in.
    pub cwd: PathBuf,
    /// Title of the session.
    pub title: String,
    /// Time of the last change, as ISO 8601 has it.
    pub updated_at: String,
    /// Members that are not the protocol's.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<SessionInfoMeta>,
}

/// Members of `_meta` of a session in a list.
#[derive(Debug, Serialize)]
pub struct SessionInfoMeta {
    /// Sentence that says which other process has the session open, and how to get to it.
    #[serde(rename = "openElsewhere")]
    pub open_elsewhere: String,
}

/// Parameters of [`PROMPT`] and [`STEERING`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptParams {
    /// Id of the session.
    pub session_id: String,
    /// Parts of the prompt, in order.
    pub prompt: Vec<ContentBlock>,
    /// Options of [`STEERING`].
    #[serde(rename = "_meta", default, deserialize_with = "lenient")]
    pub meta: SteeringMeta,
}

/// Members of `_meta` of [`STEERING`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SteeringMeta {
    /// Options of the extension.
    #[serde(deserialize_with = "lenient")]
    pub steering: SteeringOptions,
}

/// Options of [`STEERING`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SteeringOptions {
    /// `promptRequired`: if no turn runs, none is to begin.
    pub idle_behavior: Option<String>,
}

/// Result of [`STEERING`].
#[derive(Debug, Serialize)]
pub struct SteeringResponse {
    /// `injected`, `startedNewTurn`, or `promptRequired`.
    pub outcome: &'static str,
    /// Reason for the last.
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
    /// A file, a directory or something else that is mentioned.
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
    /// Base64.
    pub data: String,
    /// Such as `image/png`.
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
    /// Base64 of the content, if it is no text.
    #[serde(default)]
    pub blob: Option<String>,
    /// Type of the content.
    #[serde(default)]
    pub mime_type: Option<String>,
}

/// Result of [`PROMPT`].
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

/// State of a session that clients show and change: part of several results.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionOptions {
    /// Id of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Approval modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<SessionModes>,
    /// All options.
    pub config_options: Vec<ConfigOption>,
}

/// Approval modes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionModes {
    /// The mode that is set.
    pub current_mode_id: String,
    /// The modes to choose from.
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

/// An option of a session: a choice.
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

/// A value to choose.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct ConfigValue {
    pub value: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Cow<'static, str>>,
}

/// Result of [`LOGOUT`].
#[derive(Debug, Serialize)]
pub struct LogoutResponse {
    /// The key that is still used, if there is one.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<LogoutMeta>,
}

/// Members of `_meta` of [`LogoutResponse`].
#[derive(Debug, Serialize)]
pub struct LogoutMeta {
    /// Sentence that names the variable of the environment which has the key.
    pub message: String,
}

/// Result without members.
#[derive(Debug, Serialize)]
pub struct Empty {}

/// Parameters of [`UPDATE`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct SessionNotification<'a> {
    pub session_id: &'a str,
    pub update: SessionUpdate<'a>,
}

/// Something that has happened in a session.
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
    /// Code of ISO 4217.
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

/// A tool call, whole or as far as it changes.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall<'a> {
    /// Id of the call.
    pub tool_call_id: &'a str,
    /// One line.
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
    /// Content, in place of the content before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<ToolCallContent<'a>>>,
    /// Files of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<ToolCallLocation<'a>>>,
    /// Arguments of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<&'a Value>,
    /// Text that the call has read, or the output of a command whose content is a terminal of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Cow<'a, str>>,
    /// The terminal that shows what a command writes.
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

/// A step of a plan.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the protocol's own names")]
pub struct PlanEntry<'a> {
    pub content: Cow<'a, str>,
    pub priority: &'static str,
    pub status: PlanEntryStatus,
}

/// Status of a step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum PlanEntryStatus {
    Pending,
    InProgress,
    Completed,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AvailableCommand {
    /// Name without the slash.
    pub name: String,
    /// One line.
    pub description: String,
    /// Text that may follow the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<CommandInput>,
}

/// Text that may follow the name of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandInput {
    /// Arguments, for people.
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
    /// Absolute.
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
    /// Absolute.
    pub path: &'a Path,
    /// All that shall be in the file.
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
    /// Environment variables besides those of the client.
    pub env: Vec<EnvVariable<'a>>,
    /// Absolute.
    pub cwd: &'a Path,
    /// Bytes of output that the client keeps, the last ones.
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
    /// Output of the command, with control characters.
    pub output: String,
    /// `true` if the beginning of the output is missing.
    #[serde(default)]
    pub truncated: bool,
}

impl NamedValue {
    /// Returns values with their names.
    pub fn pairs(values: Vec<Self>) -> Vec<(String, String)> {
        values.into_iter().map(|Self { name, value }| (name, value)).collect()
    }
}
