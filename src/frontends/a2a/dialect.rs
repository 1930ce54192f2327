//! Wire forms of tasks and events: two versions of A2A, and one of an early implementation.

use axum::http::HeaderMap;
use bytes::Bytes;
use serde::Serialize;

use super::flat;
use tandem_agent::session::TurnId;
use tandem_wire::a2a::{
    InVersion, ProtocolVersion, StreamEvent, Task, TaskPushNotificationConfig, with_reason,
};
use tandem_wire::jsonrpc::Error;

/// Wire form of tasks and events for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Dialect {
    /// A2A 0.3.
    V03,
    /// A2A 1.0.
    V1,
    /// Form of an early implementation, without JSON-RPC envelopes.
    Flat,
}

impl From<ProtocolVersion> for Dialect {
    fn from(version: ProtocolVersion) -> Self {
        match version {
            ProtocolVersion::V03 => Self::V03,
            ProtocolVersion::V1 => Self::V1,
        }
    }
}

impl Dialect {
    /// Returns the name of the dialect, as the log stores it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V1 => "1.0",
            Self::Flat => "flat",
        }
    }

    /// Returns the dialect that the log stores under a name.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        [Self::V03, Self::V1, Self::Flat].into_iter().find(|dialect| dialect.name() == name)
    }

    /// Returns the id of the task that a turn is part of. In 0.3 this is the session's id; in 1.0 each turn
    /// is a task.
    pub(super) fn task_id(self, context: &str, turn: TurnId) -> String {
        match self {
            Self::V03 | Self::Flat => context.to_owned(),
            Self::V1 => format!("{context}.{}", turn.0),
        }
    }

    /// Returns the version whose objects the dialect has, but for the events of flat frames.
    fn version(self) -> ProtocolVersion {
        match self {
            Self::V03 | Self::Flat => ProtocolVersion::V03,
            Self::V1 => ProtocolVersion::V1,
        }
    }

    /// Returns a task as the result of a call that asks for a task.
    pub(super) fn task(self, task: &Task) -> InVersion<'_, Task> {
        self.version().form(task)
    }

    /// Returns a task as the first event of a stream, or as the result of a message.
    pub(super) fn first(self, task: &Task) -> Bytes {
        json(&self.version().item("task", task))
    }

    /// Returns an event as an item of a stream; `None` if the dialect has no such event.
    pub(super) fn item(self, event: &StreamEvent) -> Option<Bytes> {
        match (self, event) {
            (Self::V03 | Self::V1, event) => Some(json(&self.version().form(event))),
            (Self::Flat, StreamEvent::Status(update)) => flat::frame(update).map(|it| json(&it)),
            (Self::Flat, _) => None,
        }
    }

    /// Returns a push notification configuration.
    pub(super) fn push_config(self, config: &TaskPushNotificationConfig) -> Bytes {
        json(&self.version().form(config))
    }

    /// Returns all push notification configurations of a task.
    pub(super) fn push_configs(self, configs: &Vec<TaskPushNotificationConfig>) -> Bytes {
        json(&self.version().item("configs", configs))
    }

    /// Returns an error with the dialect's own additions.
    pub(super) fn error(self, error: Error) -> Error {
        if self == Self::V1 { with_reason(error) } else { error }
    }
}

/// Returns the version that a client asks for. An empty version counts as none (1.0, section 3.6.2).
pub(super) fn version(headers: &HeaderMap) -> Option<String> {
    let version = headers.get("a2a-version")?.to_str().ok()?.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

/// Serializes a value as JSON. Serialization of these types cannot fail; if it did, the result would be
/// `null`.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"null"), Bytes::from)
}
