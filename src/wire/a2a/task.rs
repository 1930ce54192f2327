//! A task and its status.

use serde::{Deserialize, Serialize, Serializer};

use super::fields::{Fields, ObjectWriter};
use super::{Artifact, InVersion, Message, ProtocolVersion};
use crate::development_tool::GitPlace;

/// A unit of work (0.3, section 6.1).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct Task {
    /// Id that the agent gave the task.
    pub id: String,
    /// Conversation that the task is part of.
    pub context_id: String,
    /// State of the task, with a message and the time.
    pub status: TaskStatus,
    /// Messages, oldest first.
    pub history: Vec<Message>,
    /// Results.
    pub artifacts: Vec<Artifact>,
    /// Metadata of tandem's own.
    pub metadata: TaskMetadata,
}

impl From<Fields> for Task {
    fn from(mut task: Fields) -> Self {
        Self {
            id: task.take_or_default("id"),
            context_id: task.take_or_default("contextId"),
            status: task.take_or_default("status"),
            history: task.take_list("history"),
            artifacts: task.take_list("artifacts"),
            metadata: task.take_or_default("metadata"),
        }
    }
}

impl Serialize for InVersion<'_, Task> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: task } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.optional("kind", (version == ProtocolVersion::V03).then_some("task"))?;
        object.field("id", &task.id)?;
        object.field("contextId", &task.context_id)?;
        object.field("status", &version.form(&task.status))?;
        object.field("history", &version.form(&task.history))?;
        object.field("artifacts", &version.form(&task.artifacts))?;
        object.optional("metadata", Some(&task.metadata).filter(|it| !it.is_empty()))?;
        object.end()
    }
}

impl Task {
    /// Removes the message parts that are no text, and the artifacts that have parts other than text.
    #[must_use]
    pub fn in_text(mut self) -> Self {
        self.artifacts.retain(Artifact::is_text);
        let messages = self.history.iter_mut().chain(&mut self.status.message);
        messages.for_each(Message::keep_text);
        self
    }
}

/// Metadata of a task, all of tandem's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskMetadata {
    /// Treatment of the context that the client named, if that context was not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_context: Option<UnknownContext>,
    /// `false` if the client has requested that no questions are asked, and the agent does not comply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_execute: Option<bool>,
    /// Commit of a git repository that holds the workspace's files, if the task worked in a clone and has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitPlace>,
}

impl TaskMetadata {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Treatment of a `contextId` that was not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownContext {
    /// The id became the id of a new conversation.
    New,
    /// The message went to the server's only conversation, which has another id.
    Shared,
}

/// Status of a task (0.3, section 6.2).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct TaskStatus {
    /// State of the task.
    pub state: TaskState,
    /// Message to the client, if there is one: a question, the reason for the state, or output of the agent.
    pub message: Option<Message>,
    /// Time of the change: ISO 8601, UTC.
    pub timestamp: String,
}

impl From<Fields> for TaskStatus {
    fn from(mut status: Fields) -> Self {
        Self {
            state: status.take_or_default("state"),
            message: status.take("message"),
            timestamp: status.take_or_default("timestamp"),
        }
    }
}

impl Serialize for InVersion<'_, TaskStatus> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: status } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.field("state", &*status.state.name_in(version))?;
        object.optional("message", status.message.as_ref().map(|message| version.form(message)))?;
        object.field("timestamp", &status.timestamp)?;
        object.end()
    }
}

/// State of a task (0.3, section 6.3; 1.0, section 4.1.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum TaskState {
    /// Queued.
    Submitted,
    /// Running.
    Working,
    /// Waiting for the user's answer.
    InputRequired,
    /// Done.
    Completed,
    /// Cancelled.
    Canceled,
    /// Failed.
    Failed,
    /// Refused by the agent.
    Rejected,
    /// Waiting for a login.
    AuthRequired,
    /// Not known, or of no known name.
    #[default]
    Unknown,
}

impl From<String> for TaskState {
    fn from(name: String) -> Self {
        Self::named(&name).unwrap_or_default()
    }
}

impl TaskState {
    /// Returns the state of a name of either version.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("TASK_STATE_").unwrap_or(name);
        Some(match name.to_lowercase().replace('_', "-").as_str() {
            "submitted" => Self::Submitted,
            "working" => Self::Working,
            "input-required" => Self::InputRequired,
            "completed" => Self::Completed,
            "canceled" | "cancelled" => Self::Canceled,
            "failed" => Self::Failed,
            "rejected" => Self::Rejected,
            "auth-required" => Self::AuthRequired,
            "unknown" => Self::Unknown,
            _ => return None,
        })
    }

    /// Returns `true` if the task has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Canceled | Self::Failed | Self::Rejected)
    }

    /// Returns `true` if the agent does nothing more by itself: the task has ended, or waits for an answer.
    pub fn is_settled(self) -> bool {
        self.is_terminal() || matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// Returns the name in version 0.3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::AuthRequired => "auth-required",
            Self::Unknown => "unknown",
        }
    }

    fn name_in(self, version: ProtocolVersion) -> String {
        match version {
            ProtocolVersion::V03 => self.name().to_owned(),
            ProtocolVersion::V1 => {
                format!("TASK_STATE_{}", self.name().to_uppercase().replace('-', "_"))
            }
        }
    }
}
