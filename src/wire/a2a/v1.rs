//! A2A 1.0, as JSON (section 5.5): <https://a2a-protocol.org/v1.0.0/specification>.
//!
//! In contrast to version 0.3, the name of an event's wrapper object shows the type of the event, in place of the field
//! `kind`, and there is no field for the end of a stream.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ArtifactMetadata, MessageMetadata, PartData, TaskMetadata, error};
use crate::development_tool::EventMetadata;
use crate::jsonrpc::Error;

/// An item of a stream (section 3.2.3).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
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
            state: state(status.state),
            message: status.message.as_ref().map(Into::into),
            timestamp: &status.timestamp,
        }
    }
}

/// Returns the name of a state.
fn state(state: super::TaskState) -> &'static str {
    use super::TaskState;
    match state {
        TaskState::Submitted => "TASK_STATE_SUBMITTED",
        TaskState::Working => "TASK_STATE_WORKING",
        TaskState::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        TaskState::Completed => "TASK_STATE_COMPLETED",
        TaskState::Canceled => "TASK_STATE_CANCELED",
        TaskState::Failed => "TASK_STATE_FAILED",
    }
}

/// A message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
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
                super::Role::User => "ROLE_USER",
                super::Role::Agent => "ROLE_AGENT",
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
#[serde(untagged)]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    Data {
        data: PartData<'a>,
    },
    #[serde(rename_all = "camelCase")]
    File {
        raw: &'a str,
        filename: &'a str,
        media_type: &'a str,
    },
}

impl<'a> From<&'a super::Part> for Part<'a> {
    fn from(part: &'a super::Part) -> Self {
        match part {
            super::Part::Text(text) => Self::Text { text },
            super::Part::Thought(thought) => Self::Data { data: PartData::Thought(thought) },
            super::Part::Call(call) => Self::Data { data: PartData::Call(call) },
            super::Part::Settings(settings) => Self::Data { data: PartData::Settings(settings) },
            super::Part::File(super::FilePart { name, media_type, base64 }) => {
                Self::File { raw: base64, filename: name, media_type }
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
    metadata: &'a EventMetadata,
}

impl<'a> From<&'a super::StatusUpdate> for StatusUpdate<'a> {
    fn from(update: &'a super::StatusUpdate) -> Self {
        Self {
            task_id: &update.task_id,
            context_id: &update.context_id,
            status: (&update.status).into(),
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

/// Receivers of a task's push notifications (section 9.4.7).
#[derive(Debug, Serialize)]
pub struct ListTaskPushNotificationConfigsResponse<'a> {
    configs: Vec<TaskPushNotificationConfig<'a>>,
}

impl<'a> From<&'a [super::TaskPushNotificationConfig]>
    for ListTaskPushNotificationConfigsResponse<'a>
{
    fn from(configs: &'a [super::TaskPushNotificationConfig]) -> Self {
        Self { configs: configs.iter().map(Into::into).collect() }
    }
}

/// Receiver of push notifications, with its task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushNotificationConfig<'a> {
    task_id: &'a str,
    id: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<PushAuthentication<'a>>,
}

impl<'a> From<&'a super::TaskPushNotificationConfig> for TaskPushNotificationConfig<'a> {
    fn from(of_task: &'a super::TaskPushNotificationConfig) -> Self {
        let config = &of_task.config;
        Self {
            task_id: &of_task.task_id,
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
    scheme: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<&'a str>,
}

impl<'a> From<&'a super::PushAuthentication> for PushAuthentication<'a> {
    fn from(authentication: &'a super::PushAuthentication) -> Self {
        Self { scheme: authentication.scheme(), credentials: authentication.credentials.as_deref() }
    }
}

/// Adds the error info of version 1.0 to the data of an error whose code is A2A's own (section 9.5).
#[must_use]
pub fn error(error: Error) -> Error {
    let Some(reason) = reason(error.code) else { return error };
    error.with(json!([error_info(reason, None)]))
}

/// Returns the name of the reason for an error code, if the code is A2A's own.
fn reason(code: i64) -> Option<&'static str> {
    Some(match code {
        error::TASK_NOT_FOUND => "TASK_NOT_FOUND",
        error::TASK_NOT_CANCELABLE => "TASK_NOT_CANCELABLE",
        error::PUSH_NOTIFICATION_NOT_SUPPORTED => "PUSH_NOTIFICATION_NOT_SUPPORTED",
        error::UNSUPPORTED_OPERATION => "UNSUPPORTED_OPERATION",
        error::CONTENT_TYPE_NOT_SUPPORTED => "CONTENT_TYPE_NOT_SUPPORTED",
        error::EXTENDED_CARD_NOT_CONFIGURED => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        error::VERSION_NOT_SUPPORTED => "VERSION_NOT_SUPPORTED",
        _ => return None,
    })
}

/// Returns the object of `google.rpc` that tells programs the reason of an error.
fn error_info(reason: &str, metadata: Option<Map<String, Value>>) -> Value {
    let mut info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "a2a-protocol.org",
    });
    if let Some(metadata) = metadata {
        info["metadata"] = metadata.into();
    }
    info
}

/// Status of a failed request in the HTTP+JSON binding: the status of HTTP, and the status of `google.rpc` (sections
/// 5.4 and 11.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpStatus {
    /// Status of the response.
    pub code: u16,
    /// Time in seconds after which the client may send the request again, if known.
    pub retry_after: Option<u64>,
    name: &'static str,
    reason: Option<&'static str>,
}

impl HttpStatus {
    /// Returns the status of a failed call.
    pub fn of(error: &Error) -> Self {
        let (code, name, other_reason) = match error.code {
            error::TASK_NOT_FOUND => (404, "NOT_FOUND", None),
            error::CONTENT_TYPE_NOT_SUPPORTED => (400, "INVALID_ARGUMENT", None),
            error::QUOTA_EXCEEDED => (429, "RESOURCE_EXHAUSTED", Some("QUOTA_EXCEEDED")),
            error::UNAVAILABLE => (503, "UNAVAILABLE", Some("UNAVAILABLE")),
            Error::METHOD_NOT_FOUND => (404, "NOT_FOUND", Some("METHOD_NOT_FOUND")),
            Error::INVALID_PARAMS => (400, "INVALID_ARGUMENT", Some("INVALID_PARAMS")),
            Error::PARSE | Error::INVALID_REQUEST => {
                (400, "INVALID_ARGUMENT", Some("INVALID_REQUEST"))
            }
            code if reason(code).is_some() => (400, "FAILED_PRECONDITION", None),
            _ => (500, "INTERNAL", Some("INTERNAL_ERROR")),
        };
        let after = error.data.as_ref().and_then(|data| data.get("retryAfterSeconds")?.as_u64());
        Self { code, name, reason: reason(error.code).or(other_reason), retry_after: after }
    }

    /// Returns the status of a request that was refused before it became a call.
    pub fn refused(code: u16) -> Self {
        let name = match code {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            405 => "UNIMPLEMENTED",
            408 => "DEADLINE_EXCEEDED",
            421 => "FAILED_PRECONDITION",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            500..=599 => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        };
        Self { code, name, reason: None, retry_after: None }
    }

    /// Returns the body of the response.
    pub fn body(self, error: &Error) -> String {
        let mut status =
            json!({ "code": self.code, "status": self.name, "message": error.message });
        if let Some(reason) = self.reason {
            // The metadata of an error info has only texts as values.
            let data = error.data.as_ref().and_then(|data| data.as_object());
            let texts = data.map(|data| {
                let text =
                    |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                data.iter().map(|(name, value)| (name.clone(), text(value).into())).collect()
            });
            status["details"] = json!([error_info(reason, texts)]);
        }
        json!({ "error": status }).to_string()
    }
}
