//! Events of front ends that serve tasks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TurnId;

/// A fact about the tasks that a front end makes of turns. The model is told nothing of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskEvent {
    /// Clients name the session so, and not by its own id.
    ContextNamed {
        /// The name, as the first client has chosen it.
        context: String,
    },
    /// The session's task was cancelled, although its last turn had ended.
    Cancelled {
        /// That turn; 0 if there was none.
        turn: TurnId,
    },
    /// Somebody is to be notified of a task, in place of the configuration of the same key.
    PushConfigSet {
        /// Task and configuration.
        key: String,
        /// The configuration.
        config: PushConfig,
    },
    /// Nobody is notified any more under this key.
    PushConfigDeleted {
        /// Task and configuration.
        key: String,
    },
}

/// A configuration of notifications. It may hold credentials of the receiver's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PushConfig {
    /// The task's id.
    pub task: String,
    /// The turn that the task is, if it is one.
    #[serde(default)]
    pub turn: Option<TurnId>,
    /// The version of the protocol that notifications are written in.
    pub protocol: String,
    /// The configuration as the client has set it.
    pub set: Value,
}
