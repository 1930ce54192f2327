//! Items of a stream, which are also the results of calls.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::fields::{Fields, ObjectWriter};
use super::{Artifact, InVersion, Message, ProtocolVersion, Task, TaskStatus};
use crate::development_tool::EventMetadata;

/// An item of a stream (0.3, section 7.2; 1.0, section 3.2.3), or the result of a call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Fields")]
pub enum StreamEvent {
    /// Current state of the whole task, at the beginning of a stream.
    Task(Box<Task>),
    /// New status of the task, or a message about the work on the task.
    Status(Box<StatusUpdate>),
    /// A result of the task.
    Artifact(ArtifactUpdate),
    /// Reply without a task.
    Message(Message),
}

impl TryFrom<Fields> for StreamEvent {
    type Error = &'static str;

    fn try_from(mut item: Fields) -> Result<Self, Self::Error> {
        // In 1.0, the name of a wrapper object shows the type; in 0.3 the field `kind`.
        if let Some(task) = item.take("task") {
            return Ok(Self::Task(task));
        }
        if let Some(update) = item.take("statusUpdate") {
            return Ok(Self::Status(update));
        }
        if let Some(update) = item.take("artifactUpdate") {
            return Ok(Self::Artifact(update));
        }
        if item.value("message").is_some_and(|it| it["parts"].is_array())
            && let Some(message) = item.take("message")
        {
            return Ok(Self::Message(message));
        }
        // In 1.0, the answer to a request for a task does not say that it is a task.
        let is_task = |item: &Fields| {
            let has_status = item.value("status").is_some_and(Value::is_object);
            item.value("id").is_some_and(Value::is_string) && has_status
        };
        match item.text("kind") {
            Some("task") => Ok(Self::Task(Box::new(item.into()))),
            Some("status-update") => Ok(Self::Status(Box::new(item.into()))),
            Some("artifact-update") => Ok(Self::Artifact(item.into())),
            Some("message") => Ok(Self::Message(item.into())),
            _ if is_task(&item) => Ok(Self::Task(Box::new(item.into()))),
            _ => Err("it is neither a task, an update nor a message"),
        }
    }
}

impl Serialize for InVersion<'_, StreamEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value } = *self;
        match value {
            StreamEvent::Task(task) => version.item("task", &**task).serialize(serializer),
            StreamEvent::Status(update) => {
                version.item("statusUpdate", &**update).serialize(serializer)
            }
            StreamEvent::Artifact(update) => {
                version.item("artifactUpdate", update).serialize(serializer)
            }
            StreamEvent::Message(message) => version.item("message", message).serialize(serializer),
        }
    }
}

/// An item of a stream in the form of a version: in 1.0 below the name of its type.
pub struct ItemInVersion<'a, T> {
    name: &'static str,
    item: InVersion<'a, T>,
}

impl ProtocolVersion {
    /// Returns the form of a stream's item in this version.
    pub fn item<'a, T>(self, name: &'static str, item: &'a T) -> ItemInVersion<'a, T> {
        ItemInVersion { name, item: self.form(item) }
    }
}

impl<'a, T> Serialize for ItemInVersion<'a, T>
where
    InVersion<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.item.version {
            ProtocolVersion::V03 => self.item.serialize(serializer),
            ProtocolVersion::V1 => serializer.collect_map([(self.name, &self.item)]),
        }
    }
}

/// Event that gives the new status of a task, or a message about the work on the task (0.3, section 7.2.2).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct StatusUpdate {
    /// Id of the task.
    pub task_id: String,
    /// Conversation that the task is part of.
    pub context_id: String,
    /// Status of the task after the event.
    pub status: TaskStatus,
    /// `true` if the stream ends with this event. Version 1.0 does not say so.
    pub is_final: bool,
    /// Metadata of the event: its kind and further particulars.
    pub metadata: EventMetadata,
}

impl From<Fields> for StatusUpdate {
    fn from(mut update: Fields) -> Self {
        Self {
            task_id: update.take_or_default("taskId"),
            context_id: update.take_or_default("contextId"),
            status: update.take_or_default("status"),
            is_final: update.take_or_default("final"),
            metadata: update.take_or_default("metadata"),
        }
    }
}

impl Serialize for InVersion<'_, StatusUpdate> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: update } = *self;
        let in_03 = version == ProtocolVersion::V03;
        let mut object = ObjectWriter::new(serializer)?;
        object.optional("kind", in_03.then_some("status-update"))?;
        object.field("taskId", &update.task_id)?;
        object.field("contextId", &update.context_id)?;
        object.field("status", &version.form(&update.status))?;
        object.optional("final", in_03.then_some(update.is_final))?;
        object.field("metadata", &update.metadata)?;
        object.end()
    }
}

/// Event that gives a result of a task, or a further part of a result (0.3, section 7.2.3).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Fields")]
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
    /// Metadata of the event.
    pub metadata: ArtifactMetadata,
}

/// Metadata of a result's event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactMetadata {
    /// Position of the event in the session's log.
    pub event_id: String,
}

impl From<Fields> for ArtifactUpdate {
    fn from(mut update: Fields) -> Self {
        Self {
            task_id: update.take_or_default("taskId"),
            context_id: update.take_or_default("contextId"),
            artifact: update.take_or_default("artifact"),
            append: update.take_or_default("append"),
            last_chunk: update.take_or_default("lastChunk"),
            metadata: update.take_or_default("metadata"),
        }
    }
}

impl Serialize for InVersion<'_, ArtifactUpdate> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: update } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.optional("kind", (version == ProtocolVersion::V03).then_some("artifact-update"))?;
        object.field("taskId", &update.task_id)?;
        object.field("contextId", &update.context_id)?;
        object.field("artifact", &version.form(&update.artifact))?;
        object.field("append", &update.append)?;
        object.field("lastChunk", &update.last_chunk)?;
        object.field("metadata", &update.metadata)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::a2a::TaskState;

    fn read(item: Value) -> Option<StreamEvent> {
        StreamEvent::deserialize(item).ok()
    }

    #[test]
    fn both_versions_are_read() {
        let state = |item: Value| match read(item) {
            Some(StreamEvent::Task(task)) => task.status.state,
            Some(StreamEvent::Status(update)) => update.status.state,
            other => panic!("{other:?}"),
        };
        let old = json!({ "kind": "status-update", "status": { "state": "input-required" } });
        assert_eq!(state(old), TaskState::InputRequired);
        let new = json!({ "statusUpdate": { "status": { "state": "TASK_STATE_AUTH_REQUIRED" } } });
        assert_eq!(state(new), TaskState::AuthRequired);
        let new = json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_COMPLETED" } } });
        assert_eq!(state(new), TaskState::Completed);
        let bare = json!({ "id": "t", "status": { "state": "TASK_STATE_CANCELLED" } });
        assert_eq!(state(bare), TaskState::Canceled);
        let odd = json!({ "kind": "task", "status": "odd" });
        assert_eq!(state(odd), TaskState::Unknown);
    }

    #[test]
    fn anything_else_is_nothing() {
        for item in
            [json!(null), json!([]), json!("task"), json!({ "task": 5 }), json!({ "kind": 1 })]
        {
            assert!(read(item.clone()).is_none(), "{item}");
        }
    }
}
