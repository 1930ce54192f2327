//! Items of a stream and results of calls, read in whatever version they are written.

use serde_json::Value;

use tandem_wire::development_tool::{CODER_AGENT, URI};

/// State of a task there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteState {
    /// Queued or running, or nothing that is known here.
    Working,
    /// Waiting for an answer.
    InputRequired,
    /// Waiting for a login.
    AuthRequired,
    Completed,
    Canceled,
    Failed,
    /// Not begun: the agent does not want it.
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

    /// Returns whether nothing more comes by itself.
    pub(super) fn is_settled(self) -> bool {
        self != Self::Working
    }
}

/// An item of a stream, or the result of a call.
#[derive(Debug)]
pub(super) enum RemoteUpdate<'a> {
    /// A task as it is now.
    Task { state: RemoteState, task: &'a Value },
    /// Another status of it. `is_final`: the stream ends.
    Status { state: RemoteState, is_final: bool, kind: UpdateSubject, update: &'a Value },
    /// A result of it, or more of one.
    Artifact(&'a Value),
    /// An answer without a task.
    Message(&'a Value),
}

/// Subject of a status update, where the `development-tool` extension says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateSubject {
    /// A piece of a text.
    Text,
    Thought,
    ToolCall,
    State,
    /// The extension says nothing of it.
    Unknown,
}

impl<'a> RemoteUpdate<'a> {
    /// Reads one; `None` if it is nothing that is known here.
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
            // What asks for a task in 1.0 is answered without a word on what it is.
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
