//! Tasks, messages and events of A2A, in a form that does not depend on the version of the protocol.
//!
//! [`v03`] and [`v1`] define the JSON form of each version. "spec" below is the specification of version 0.3:
//! <https://a2a-protocol.org/v0.3.0/specification>.

pub mod error;
mod methods;
pub mod v03;
pub mod v1;

pub use self::methods::{Method, MethodAddress, ProtocolVersion, Verb};
use serde::{Deserialize, Serialize};

use crate::development_tool::{AgentSettings, AgentThought, EventMetadata, GitPlace, ToolCall};

/// A unit of work (spec 6.1).
#[derive(Debug, Clone)]
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
    /// Treatment of the context that the client named, if that context was not known.
    pub unknown_context: Option<UnknownContext>,
    /// `true` if the client has requested that no questions are asked, and the agent does not comply.
    pub auto_execute_refused: bool,
    /// Commit of a git repository that holds the workspace's files, if the task worked in a clone and has ended.
    pub git: Option<GitPlace>,
}

impl Task {
    fn metadata(&self) -> Option<TaskMetadata<'_>> {
        let auto_execute = self.auto_execute_refused.then_some(false);
        let unknown_context = self.unknown_context;
        let git = self.git.as_ref();
        let is_there = auto_execute.is_some() || unknown_context.is_some() || git.is_some();
        is_there.then_some(TaskMetadata { unknown_context, auto_execute, git })
    }

    /// Removes the message parts that are no text, and the artifacts that have parts other than text.
    #[must_use]
    pub fn in_text(mut self) -> Self {
        self.artifacts.retain(Artifact::is_text);
        let messages = self.history.iter_mut().chain(&mut self.status.message);
        messages.for_each(Message::keep_text);
        self
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

/// Status of a task (spec 6.2).
#[derive(Debug, Clone)]
pub struct TaskStatus {
    /// State of the task.
    pub state: TaskState,
    /// Message to the client, if there is one: a question, the reason for the state, or output of the agent.
    pub message: Option<Message>,
    /// Time of the change: ISO 8601, UTC.
    pub timestamp: String,
}

/// State of a task (spec 6.3; server document, "Task states").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl TaskState {
    /// Returns `true` if the task has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Canceled | Self::Failed)
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
        }
    }
}

/// A message (spec 6.4).
#[derive(Debug, Clone)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Unique id of the message.
    pub message_id: String,
    /// Task that the message is part of.
    pub task_id: String,
    /// Conversation that the message is part of.
    pub context_id: String,
    /// URIs of the extensions that the parts follow.
    pub extensions: Vec<&'static str>,
    /// Content.
    pub parts: Vec<Part>,
    /// Front end that the message came from, if it is a prompt.
    pub source: Option<&'static str>,
}

impl Message {
    /// Removes the parts that are no text.
    pub fn keep_text(&mut self) {
        self.parts.retain(|part| matches!(part, Part::Text(_)));
    }
}

/// Author of a message (spec 6.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client, or any other user of the session.
    User,
    /// This agent.
    Agent,
}

/// A piece of content (spec 6.5). Pieces other than texts and files are sent as data parts, in the types of the
/// development-tool extension.
#[derive(Debug, Clone)]
pub enum Part {
    /// Markdown for people and models.
    Text(String),
    /// Reasoning of the model.
    Thought(AgentThought),
    /// A tool call.
    Call(Box<ToolCall>),
    /// Settings that the session uses.
    Settings(AgentSettings),
    /// A file with its content.
    File(FilePart),
}

/// A file with its content (spec 6.6.2).
#[derive(Debug, Clone)]
pub struct FilePart {
    /// Name of the file, which may have directories.
    pub name: String,
    /// Type of the content.
    pub media_type: &'static str,
    /// Content in base64.
    pub base64: String,
}

/// A result of a task (spec 6.7).
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Id, unique in its task.
    pub artifact_id: String,
    /// Name for people.
    pub name: String,
    /// Content.
    pub parts: Vec<Part>,
}

impl Artifact {
    /// Returns `true` if all of the content is text.
    pub fn is_text(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }
}

/// An item of a stream.
#[derive(Debug, Clone)]
pub enum StreamEvent {
    /// Current state of the whole task, at the beginning of a stream.
    Task(Box<Task>),
    /// New status of the task, or a message about the work on the task.
    Status(Box<StatusUpdate>),
    /// A result of the task.
    Artifact(ArtifactUpdate),
}

/// Event that gives the new status of a task, or a message about the work on the task (spec 7.2.2).
#[derive(Debug, Clone)]
pub struct StatusUpdate {
    /// Id of the task.
    pub task_id: String,
    /// Conversation that the task is part of.
    pub context_id: String,
    /// Status of the task after the event.
    pub status: TaskStatus,
    /// `true` if the stream ends with this event.
    pub is_final: bool,
    /// Metadata of the event: its kind and further particulars.
    pub metadata: EventMetadata,
}

/// Event that gives a result of a task, or a further part of a result (spec 7.2.3).
#[derive(Debug, Clone)]
pub struct ArtifactUpdate {
    /// Id of the task.
    pub task_id: String,
    /// Conversation that the task is part of.
    pub context_id: String,
    /// The whole result, or a further part of it.
    pub artifact: Artifact,
    /// `true` if `artifact` is a further part of a result that was sent before.
    pub append: bool,
    /// `true` if no further part of the result follows.
    pub last_chunk: bool,
    /// Position of the event in the session's log.
    pub event_id: String,
}

/// Receiver of a task's push notifications (spec 6.8). It contains credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushNotificationConfig {
    /// Id, unique in its task.
    pub id: String,
    /// Address that notifications are sent to.
    pub url: String,
    /// Token that is sent with each notification, so that the receiver can check that the notification is meant for it.
    pub token: Option<String>,
    /// Credentials for the address.
    pub authentication: Option<PushAuthentication>,
}

/// Credentials for the address of a receiver (spec 6.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushAuthentication {
    /// Schemes that the receiver knows, such as `Bearer`, the preferred first. Version 1.0 has a single scheme.
    pub schemes: Vec<String>,
    /// Credentials in the form of the first scheme.
    pub credentials: Option<String>,
}

impl PushAuthentication {
    /// Returns the scheme to use.
    pub fn scheme(&self) -> &str {
        self.schemes.first().map_or("Bearer", String::as_str)
    }
}

/// Receiver of push notifications, with its task (spec 7.5; 1.0, section 4.3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPushNotificationConfig {
    /// Id of the task.
    pub task_id: String,
    /// Receiver of the task's notifications.
    pub config: PushNotificationConfig,
}

/// Metadata of a task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_context: Option<UnknownContext>,
    /// `false` if the client has requested that no questions are asked, and the agent does not comply.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_execute: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<&'a GitPlace>,
}

/// Metadata of a message.
#[derive(Debug, Serialize)]
struct MessageMetadata {
    source: &'static str,
}

/// Metadata of an artifact's update.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactMetadata<'a> {
    event_id: &'a str,
}

/// Data of a part that is no text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum PartData<'a> {
    Thought(&'a AgentThought),
    Call(&'a ToolCall),
    Settings(&'a AgentSettings),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::development_tool::EventKind;

    #[test]
    fn one_update_has_a_form_in_each_version() {
        let message = Message {
            role: Role::Agent,
            message_id: "m".to_owned(),
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            extensions: Vec::new(),
            parts: vec![
                Part::Text("a".to_owned()),
                Part::Thought(AgentThought { subject: "s".to_owned(), description: String::new() }),
            ],
            source: None,
        };
        let status = TaskStatus {
            state: TaskState::InputRequired,
            message: Some(message),
            timestamp: "now".to_owned(),
        };
        let metadata = EventMetadata {
            kind: EventKind::Thought,
            model: "x".to_owned(),
            error: None,
            event_id: "4.0".to_owned(),
            source: None,
            answered_by: Some("you".to_owned()),
            git: None,
        };
        let update = StreamEvent::Status(Box::new(StatusUpdate {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            status,
            is_final: true,
            metadata,
        }));
        let metadata = format!(
            r#"{{"coderAgent":{{"kind":"thought"}},"model":"x","{}":{{"kind":"THOUGHT","model":"x"}},"eventId":"4.0","answeredBy":"you"}}"#,
            crate::development_tool::URI
        );
        let in_03 = format!(
            r#"{{"kind":"status-update","taskId":"t","contextId":"c","status":{{"state":"input-required","message":{{"kind":"message","role":"agent","messageId":"m","taskId":"t","contextId":"c","extensions":[],"parts":[{{"kind":"text","text":"a"}},{{"kind":"data","data":{{"subject":"s","description":""}}}}]}},"timestamp":"now"}},"final":true,"metadata":{metadata}}}"#
        );
        let in_1 = format!(
            r#"{{"statusUpdate":{{"taskId":"t","contextId":"c","status":{{"state":"TASK_STATE_INPUT_REQUIRED","message":{{"role":"ROLE_AGENT","messageId":"m","taskId":"t","contextId":"c","extensions":[],"parts":[{{"text":"a"}},{{"data":{{"subject":"s","description":""}}}}]}},"timestamp":"now"}},"metadata":{metadata}}}}}"#
        );
        assert_eq!(serde_json::to_string(&v03::StreamResponse::from(&update)).unwrap(), in_03);
        assert_eq!(serde_json::to_string(&v1::StreamResponse::from(&update)).unwrap(), in_1);
    }

    #[test]
    fn a_file_has_a_form_in_each_version() {
        let file = FilePart {
            name: "src/a.rs".to_owned(),
            media_type: "text/plain",
            base64: "YQ==".to_owned(),
        };
        let artifact = Artifact {
            artifact_id: "file:src/a.rs".to_owned(),
            name: "src/a.rs".to_owned(),
            parts: vec![Part::File(file)],
        };
        assert!(!artifact.is_text());
        let update = StreamEvent::Artifact(ArtifactUpdate {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            artifact,
            append: false,
            last_chunk: true,
            event_id: "4.1".to_owned(),
        });
        let in_03 = r#"{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"file:src/a.rs","name":"src/a.rs","parts":[{"kind":"file","file":{"name":"src/a.rs","mimeType":"text/plain","bytes":"YQ=="}}]},"append":false,"lastChunk":true,"metadata":{"eventId":"4.1"}}"#;
        let in_1 = r#"{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"file:src/a.rs","name":"src/a.rs","parts":[{"raw":"YQ==","filename":"src/a.rs","mediaType":"text/plain"}]},"append":false,"lastChunk":true,"metadata":{"eventId":"4.1"}}}"#;
        assert_eq!(serde_json::to_string(&v03::StreamResponse::from(&update)).unwrap(), in_03);
        assert_eq!(serde_json::to_string(&v1::StreamResponse::from(&update)).unwrap(), in_1);
    }

    #[track_caller]
    fn check_config(authentication: Option<(&[&str], &str)>, in_03: &str, in_1: &str) {
        let authentication = authentication.map(|(schemes, credentials)| PushAuthentication {
            schemes: schemes.iter().map(ToString::to_string).collect(),
            credentials: Some(credentials.to_owned()),
        });
        let config = TaskPushNotificationConfig {
            task_id: "t".to_owned(),
            config: PushNotificationConfig {
                id: "a".to_owned(),
                url: "https://x/".to_owned(),
                token: authentication.as_ref().map(|_| "s".to_owned()),
                authentication,
            },
        };
        let written = serde_json::to_string(&v03::TaskPushNotificationConfig::from(&config));
        assert_eq!(written.unwrap(), in_03);
        let written = serde_json::to_string(&v1::TaskPushNotificationConfig::from(&config));
        assert_eq!(written.unwrap(), in_1);
    }

    #[test]
    fn a_push_configuration_is_nested_in_0_3_and_flat_in_1_0() {
        check_config(
            None,
            r#"{"taskId":"t","pushNotificationConfig":{"id":"a","url":"https://x/"}}"#,
            r#"{"taskId":"t","id":"a","url":"https://x/"}"#,
        );
        check_config(
            Some((&["Basic", "Bearer"], "c")),
            r#"{"taskId":"t","pushNotificationConfig":{"id":"a","url":"https://x/","token":"s","authentication":{"schemes":["Basic","Bearer"],"credentials":"c"}}}"#,
            r#"{"taskId":"t","id":"a","url":"https://x/","token":"s","authentication":{"scheme":"Basic","credentials":"c"}}"#,
        );
        check_config(
            Some((&[], "c")),
            r#"{"taskId":"t","pushNotificationConfig":{"id":"a","url":"https://x/","token":"s","authentication":{"schemes":[],"credentials":"c"}}}"#,
            r#"{"taskId":"t","id":"a","url":"https://x/","token":"s","authentication":{"scheme":"Bearer","credentials":"c"}}"#,
        );
    }
}
