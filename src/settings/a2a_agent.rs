//! Other agents as settings describe them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mcp_server::Concealed;
use super::server_entry::ServerEntry;

/// Configuration of another agent. Only the types of its values are checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct A2aAgent {
    /// Address of the agent's card, or the base of the agent's addresses.
    pub url: Option<Concealed>,
    /// HTTP headers for each request.
    pub headers: BTreeMap<String, Concealed>,
    /// Token for the `Authorization` header.
    pub token: Option<Concealed>,
    /// Maximum silence of the agent during a call, in milliseconds.
    pub timeout: Option<u64>,
    /// `true` if calls of the agent need no question; never for an agent of an unjudged project.
    pub trust: bool,
    /// Description of the agent, for the model and for people.
    pub description: Option<String>,
    /// The entry from which the settings were read.
    #[serde(skip)]
    pub entry: ServerEntry,
}

impl A2aAgent {
    /// Returns the maximum silence during a call.
    pub fn silence(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }
}
