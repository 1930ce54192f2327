//! Items of a stream and results of calls, read in the form of either version.

use serde_json::Value;

use tandem_wire::development_tool::{CODER_AGENT, URI};

/// State of a task at the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteState {
    /// Queued or running, or in a state that is not known here.
    Working,
    /// Waiting for an answer.
    InputRequired,
    /// Waiting for a login.
    AuthRequired,
    Completed,
    Canceled,
    Failed,
    /// Refused by the agent.
    Rejected,
}

impl RemoteState {
    fn read(state: &Value) -> Self {
        let name = state.as_str().unwrap_or_default();
        let name = name.strip_prefix("TASK_STATE_").unwrap_or(name).to_ascii_lowercase();
        match name.replace('_', "-").as_str() {
            "input-required" => Self::InputRequired,
            "auth-required" => Self::AuthRequired,
            "completed" => Self::Completed,
            "canceled" | "cancelled" => Self::Canceled,
            "failed" => Self::Failed,
            "rejected" => Self::Rejected,
            _ => Self::Working,
        }
    }

    /// Returns whether the agent sends nothing more by itself: the task has ended, or waits.
    pub(super) fn is_settled(self) -> bool {
        self != Self::Working
    }
}

/// An item of a stream, or the result of a call.
#[derive(Debug)]
pub(super) enum RemoteUpdate<'a> {
    /// Snapshot of a task.
    Task { state: RemoteState, task: &'a Value },
    /// Change of the task's status. `is_final`: the stream ends with it.
    Status { state: RemoteState, is_final: bool, kind: UpdateSubject, update: &'a Value },
    /// An artifact of the task, or a further part of one.
    Artifact(&'a Value),
    /// Reply without a task.
    Message(&'a Value),
}

/// Subject of a status update, as the `development-tool` extension names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateSubject {
    /// A piece of a text.
    Text,
    Thought,
    ToolCall,
    State,
    /// The update does not name its subject.
    Unknown,
}

impl<'a> RemoteUpdate<'a> {
    /// Reads an item; `None` if it is of no known kind.
    pub(super) fn read(item: &'a Value) -> Option<Self> {
        let named = |name: &str| item.get(name).filter(|it| it.is_object());
        if let Some(task) = named("task") {
            return Some(Self::task(task));
        }
        if let Some(update) = named("statusUpdate") {
            return Some(Self::status(update));
        }
        if let Some(update) = named("artifactUpdate") {
            return Some(Self::Artifact(update));
        }
        if let Some(message) = named("message").filter(|it| it["parts"].is_array()) {
            return Some(Self::Message(message));
        }
        match item["kind"].as_str() {
            Some("task") => Some(Self::task(item)),
            Some("status-update") => Some(Self::status(item)),
            Some("artifact-update") => Some(Self::Artifact(item)),
            Some("message") => Some(Self::Message(item)),
            // In 1.0, the answer to a request for a task does not say that it is a task.
            _ if item["id"].is_string() && item["status"].is_object() => Some(Self::task(item)),
            _ => None,
        }
    }

    fn task(task: &'a Value) -> Self {
        Self::Task { state: RemoteState::read(&task["status"]["state"]), task }
    }

    fn status(update: &'a Value) -> Self {
        Self::Status {
            state: RemoteState::read(&update["status"]["state"]),
            is_final: update["final"] == true,
            kind: UpdateSubject::read(&update["metadata"]),
            update,
        }
    }
}

impl UpdateSubject {
    fn read(metadata: &Value) -> Self {
        let kinds = [&metadata[URI]["kind"], &metadata[CODER_AGENT]["kind"]];
        let kind = kinds.into_iter().find_map(Value::as_str).unwrap_or_default();
        match kind.to_ascii_lowercase().replace('_', "-").as_str() {
            "text-content" | "citation" => Self::Text,
            "thought" => Self::Thought,
            "tool-call-update" | "tool-call-confirmation" => Self::ToolCall,
            "state-change" => Self::State,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_are_read() {
        let state = |item: &Value| match RemoteUpdate::read(item) {
            Some(RemoteUpdate::Task { state, .. } | RemoteUpdate::Status { state, .. }) => state,
            other => panic!("{other:?}"),
        };
        let old = json!({ "kind": "status-update", "status": { "state": "input-required" } });
        assert_eq!(state(&old), RemoteState::InputRequired);
        let new = json!({ "statusUpdate": { "status": { "state": "TASK_STATE_AUTH_REQUIRED" } } });
        assert_eq!(state(&new), RemoteState::AuthRequired);
        let new = json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_COMPLETED" } } });
        assert_eq!(state(&new), RemoteState::Completed);
        let bare = json!({ "id": "t", "status": { "state": "TASK_STATE_CANCELLED" } });
        assert_eq!(state(&bare), RemoteState::Canceled);
        let odd = json!({ "kind": "task", "status": "odd" });
        assert_eq!(state(&odd), RemoteState::Working);
    }

    #[test]
    fn anything_else_is_nothing() {
        for item in
            [json!(null), json!([]), json!("task"), json!({ "task": 5 }), json!({ "kind": 1 })]
        {
            assert!(RemoteUpdate::read(&item).is_none(), "{item}");
        }
    }
}
