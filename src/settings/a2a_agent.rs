//! Other agents as settings name them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conceal::conceal_server;
use super::mcp_server::{Concealed, runs};
use super::origin::SettingOrigin;

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
    /// Origin of the entry. Always set in [`Settings`](super::Settings).
    #[serde(skip)]
    pub origin: Option<SettingOrigin>,
    /// The environment variables whose values were put into it.
    #[serde(skip)]
    pub variables: Vec<String>,
    /// As it is in the file: variables are still names.
    #[serde(skip)]
    pub(super) written: Value,
}

impl A2aAgent {
    /// Returns the maximum silence during a call.
    pub fn silence(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }

    /// Returns all that decides what is sent, and where, as it is written: no variable has been put in.
    pub(super) fn runs(&self) -> String {
        runs(&self.written)
    }

    /// Returns the same for people, without the secrets that may be written there.
    pub(super) fn shown(&self) -> String {
        runs(&conceal_server(&self.written, &self.variables))
    }

    /// Returns `true` if a project in a folder that the user has not judged names the agent: then the user is
    /// asked before anything is sent to it.
    pub fn unjudged(&self) -> bool {
        self.origin.as_ref().is_some_and(SettingOrigin::unjudged)
    }
}
