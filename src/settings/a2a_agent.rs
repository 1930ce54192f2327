//! Other agents as settings name them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mcp_server::Concealed;
use super::server_entry::ServerEntry;

/// Configuration of another agent. Only the types of its values are checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct A2aAgent {
    /// Address of its card, or the beginning of its addresses.
    pub url: Option<Concealed>,
    /// HTTP headers for each request.
    pub headers: BTreeMap<String, Concealed>,
    /// Token for the `Authorization` header.
    pub token: Option<Concealed>,
    /// Milliseconds that it may be silent during a call.
    pub timeout: Option<u64>,
    /// `true` if it is called without a question; never for an agent of an unjudged project.
    pub trust: bool,
    /// Description, for the model and for people.
    pub description: Option<String>,
    /// The entry itself.
    #[serde(skip)]
    pub entry: ServerEntry,
}

impl A2aAgent {
    /// Returns the maximum silence during a call.
    pub fn silence(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }
}
