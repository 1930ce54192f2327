//! A2A, as version 0.3 has it: <https://a2a-protocol.org/v0.3.0/specification>.
//!
//! What this agent sends is made of these types; version 1.0 is a projection of them
//! (`frontends/a2a/v1.rs`). "spec" below is the 0.3 specification.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// A unit of work (spec 6.1).
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "task", rename_all = "camelCase")]
pub struct Task {
    /// Given by the agent.
    pub id: String,
    /// The conversation that it is part of.
    pub context_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// What was said, oldest first.
    pub history: Vec<Message>,
    /// What came of it.
    pub artifacts: Vec<Artifact>,
    /// Extensions' data, by URI.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Where a task stands (spec 6.2).
#[derive(Debug, Clone, Serialize)]
pub struct TaskStatus {
    /// In a word.
    pub state: TaskState,
    /// Particulars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when: ISO 8601, UTC.
    pub timestamp: String,
}

/// The state of a task (spec 6.3); `a2a-server.md`, "Task states".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// It waits for its turn.
    Submitted,
    /// The agent is at it.
    Working,
    /// The agent waits for an answer.
    InputRequired,
    /// It is done.
    Completed,
    /// Somebody cancelled it.
    Canceled,
    /// It could not be done.
    Failed,
}

impl TaskState {
    /// Whether nothing more comes by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Canceled | Self::Failed)
    }

    /// Its name in version 0.3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
        }
    }
}

/// Something said (spec 6.4).
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "message", rename_all = "camelCase")]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// Unlike any other message's.
    pub message_id: String,
    /// The task that it is part of.
    pub task_id: String,
    /// The conversation that it is part of.
    pub context_id: String,
    /// URIs of the extensions that its parts follow.
    pub extensions: Vec<&'static str>,
    /// What.
    pub parts: Vec<Part>,
    /// Extensions' data, by URI.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Who says something (spec 6.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The client, or any other user of the session.
    User,
    /// This agent.
    Agent,
}

/// A piece of content (spec 6.5).
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Part {
    /// For people and models.
    Text {
        /// Markdown.
        text: String,
    },
    /// For programs.
    Data {
        /// Of the extension's types, all but text.
        data: Value,
    },
}

/// What came of a task (spec 6.7).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Unique in its task.
    pub artifact_id: String,
    /// For people.
    pub name: &'static str,
    /// What.
    pub parts: Vec<Part>,
}

/// News of a task (spec 7.2.2).
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "status-update", rename_all = "camelCase")]
pub struct TaskStatusUpdateEvent {
    /// Of which task.
    pub task_id: String,
    /// The conversation that it is part of.
    pub context_id: String,
    /// Where it stands now.
    pub status: TaskStatus,
    /// Whether the stream ends with this.
    pub r#final: bool,
    /// What kind of news: the extension's, by URI, and its older form, `coderAgent`.
    pub metadata: Map<String, Value>,
}

/// News of what came of a task (spec 7.2.3).
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "artifact-update", rename_all = "camelCase")]
pub struct TaskArtifactUpdateEvent {
    /// Of which task.
    pub task_id: String,
    /// The conversation that it is part of.
    pub context_id: String,
    /// All of it, or more of it.
    pub artifact: Artifact,
    /// Whether it is more of what was sent before.
    pub append: bool,
    /// Whether this is all.
    pub last_chunk: bool,
    /// Extensions' data, by URI.
    pub metadata: Map<String, Value>,
}

/// Why a call failed: JSON-RPC's error object, with A2A's codes (spec 8).
#[derive(Debug, Clone, Serialize)]
pub struct Error {
    /// One of those that the constructors give.
    pub code: i64,
    /// A sentence.
    pub message: Cow<'static, str>,
    /// Particulars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl Error {
    /// The body is not JSON.
    pub const PARSE: i64 = -32700;
    /// It is no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Its parameters are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault of the agent.
    pub const INTERNAL: i64 = -32603;
    /// There is no such task.
    pub const TASK_NOT_FOUND: i64 = -32001;
    /// The task has ended.
    pub const TASK_NOT_CANCELABLE: i64 = -32002;
    /// The agent cannot do this here.
    pub const UNSUPPORTED_OPERATION: i64 = -32004;
    /// The agent cannot read that kind of content.
    pub const CONTENT_TYPE_NOT_SUPPORTED: i64 = -32005;
    /// There is no card for those who are known.
    pub const EXTENDED_CARD_NOT_CONFIGURED: i64 = -32007;
    /// The agent does not speak that version.
    pub const VERSION_NOT_SUPPORTED: i64 = -32009;

    /// An error.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The parameters are wrong; how.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// There is no task of that id.
    pub fn task_not_found(id: &str) -> Self {
        Self::new(Self::TASK_NOT_FOUND, format!("Task not found: {id}"))
    }

    /// The same, with particulars for programs.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }

    /// The name that version 1.0 gives the reason (1.0, section 9.5), if it is one of A2A's own.
    pub fn reason(&self) -> Option<&'static str> {
        Some(match self.code {
            Self::TASK_NOT_FOUND => "TASK_NOT_FOUND",
            Self::TASK_NOT_CANCELABLE => "TASK_NOT_CANCELABLE",
            -32003 => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Self::UNSUPPORTED_OPERATION => "UNSUPPORTED_OPERATION",
            Self::CONTENT_TYPE_NOT_SUPPORTED => "CONTENT_TYPE_NOT_SUPPORTED",
            Self::EXTENDED_CARD_NOT_CONFIGURED => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            Self::VERSION_NOT_SUPPORTED => "VERSION_NOT_SUPPORTED",
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
