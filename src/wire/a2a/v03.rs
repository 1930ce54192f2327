//! A2A 0.3: <https://a2a-protocol.org/v0.3.0/specification>.

use serde::Serialize;

use super::{ArtifactMetadata, MessageMetadata, PartData, TaskMetadata};
use crate::development_tool::EventMetadata;

/// An item of a stream (spec 7.2).
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StreamResponse<'a> {
    /// Current state of the whole task.
    Task(Task<'a>),
    /// New status of a task, or a message about the work on the task.
    StatusUpdate(StatusUpdate<'a>),
    /// A result of a task, or a further part of a result.
    ArtifactUpdate(ArtifactUpdate<'a>),
}

impl<'a> From<&'a super::StreamEvent> for StreamResponse<'a> {
    fn from(event: &'a super::StreamEvent) -> Self {
        match event {
            super::StreamEvent::Task(task) => Self::Task((&**task).into()),
            super::StreamEvent::Status(update) => Self::StatusUpdate((&**update).into()),
            super::StreamEvent::Artifact(update) => Self::ArtifactUpdate(update.into()),
        }
    }
}

/// A task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task<'a> {
    id: &'a str,
    context_id: &'a str,
    status: TaskStatus<'a>,
    history: Vec<Message<'a>>,
    artifacts: Vec<Artifact<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<TaskMetadata<'a>>,
}

impl<'a> From<&'a super::Task> for Task<'a> {
    fn from(task: &'a super::Task) -> Self {
        Self {
            id: &task.id,
            context_id: &task.context_id,
            status: (&task.status).into(),
            history: task.history.iter().map(Into::into).collect(),
            artifacts: task.artifacts.iter().map(Into::into).collect(),
            metadata: task.metadata(),
        }
    }
}

/// Status of a task.
#[derive(Debug, Serialize)]
struct TaskStatus<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    timestamp: &'a str,
}

impl<'a> From<&'a super::TaskStatus> for TaskStatus<'a> {
    fn from(status: &'a super::TaskStatus) -> Self {
        Self {
            state: status.state.name(),
            message: status.message.as_ref().map(Into::into),
            timestamp: &status.timestamp,
        }
    }
}

/// A message.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "message", rename_all = "camelCase")]
struct Message<'a> {
    role: &'static str,
    #[serde(rename = "messageId")]
    id: &'a str,
    task_id: &'a str,
    context_id: &'a str,
    extensions: &'a [&'static str],
    parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<MessageMetadata>,
}

impl<'a> From<&'a super::Message> for Message<'a> {
    fn from(message: &'a super::Message) -> Self {
        Self {
            role: match message.role {
                super::Role::User => "user",
                super::Role::Agent => "agent",
            },
            id: &message.message_id,
            task_id: &message.task_id,
            context_id: &message.context_id,
            extensions: &message.extensions,
            parts: message.parts.iter().map(Into::into).collect(),
            metadata: message.source.map(|source| MessageMetadata { source }),
        }
    }
}

/// A piece of content.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Part<'a> {
    Text { text: &'a str },
    Data { data: PartData<'a> },
    File { file: FileContent<'a> },
}

/// A file with its content.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileContent<'a> {
    name: &'a str,
    mime_type: &'a str,
    bytes: &'a str,
}

impl<'a> From<&'a super::Part> for Part<'a> {
    fn from(part: &'a super::Part) -> Self {
        match part {
            super::Part::Text(text) => Self::Text { text },
            super::Part::Thought(thought) => Self::Data { data: PartData::Thought(thought) },
            super::Part::Call(call) => Self::Data { data: PartData::Call(call) },
            super::Part::Settings(settings) => Self::Data { data: PartData::Settings(settings) },
            super::Part::File(super::FilePart { name, media_type, base64 }) => {
                Self::File { file: FileContent { name, mime_type: media_type, bytes: base64 } }
            }
        }
    }
}

/// A result of a task.
#[derive(Debug, Serialize)]
struct Artifact<'a> {
    #[serde(rename = "artifactId")]
    id: &'a str,
    name: &'a str,
    parts: Vec<Part<'a>>,
}

impl<'a> From<&'a super::Artifact> for Artifact<'a> {
    fn from(artifact: &'a super::Artifact) -> Self {
        Self {
            id: &artifact.artifact_id,
            name: &artifact.name,
            parts: artifact.parts.iter().map(Into::into).collect(),
        }
    }
}

/// Event that gives the new status of a task, or a message about the work on the task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate<'a> {
    task_id: &'a str,
    context_id: &'a str,
    status: TaskStatus<'a>,
    r#final: bool,
    metadata: &'a EventMetadata,
}

impl<'a> From<&'a super::StatusUpdate> for StatusUpdate<'a> {
    fn from(update: &'a super::StatusUpdate) -> Self {
        Self {
            task_id: &update.task_id,
            context_id: &update.context_id,
            status: (&update.status).into(),
            r#final: update.is_final,
            metadata: &update.metadata,
        }
    }
}

/// Event that gives a result of a task, or a further part of a result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate<'a> {
    task_id: &'a str,
    context_id: &'a str,
    artifact: Artifact<'a>,
    append: bool,
    last_chunk: bool,
    metadata: ArtifactMetadata<'a>,
}

impl<'a> From<&'a super::ArtifactUpdate> for ArtifactUpdate<'a> {
    fn from(update: &'a super::ArtifactUpdate) -> Self {
        Self {
            task_id: &update.task_id,
            context_id: &update.context_id,
            artifact: (&update.artifact).into(),
            append: update.append,
            last_chunk: update.last_chunk,
            metadata: ArtifactMetadata { event_id: &update.event_id },
        }
    }
}

/// Receiver of push notifications, with its task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig<'a> {
    task_id: &'a str,
    push_notification_config: PushNotificationConfig<'a>,
}

impl<'a> From<&'a super::TaskPushNotificationConfig> for TaskPushNotificationConfig<'a> {
    fn from(of_task: &'a super::TaskPushNotificationConfig) -> Self {
        Self { task_id: &of_task.task_id, push_notification_config: (&of_task.config).into() }
    }
}

/// Receiver of push notifications.
#[derive(Debug, Serialize)]
pub struct PushNotificationConfig<'a> {
    id: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<PushAuthentication<'a>>,
}

impl<'a> From<&'a super::PushNotificationConfig> for PushNotificationConfig<'a> {
    fn from(config: &'a super::PushNotificationConfig) -> Self {
        Self {
            id: &config.id,
            url: &config.url,
            token: config.token.as_deref(),
            authentication: config.authentication.as_ref().map(Into::into),
        }
    }
}

/// Credentials for the address of a receiver.
#[derive(Debug, Serialize)]
struct PushAuthentication<'a> {
    schemes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<&'a str>,
}

impl<'a> From<&'a super::PushAuthentication> for PushAuthentication<'a> {
    fn from(authentication: &'a super::PushAuthentication) -> Self {
        Self {
            schemes: &authentication.schemes,
            credentials: authentication.credentials.as_deref(),
        }
    }
}
