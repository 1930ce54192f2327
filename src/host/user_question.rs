//! Questions to the user that come up while a call runs.

use std::sync::Arc;

use futures::future::BoxFuture;

/// A question that another agent asks while a call runs: it wants to use a tool where it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserQuestion {
    /// The agent's name in the settings.
    pub agent: String,
    /// Name of the tool that the agent would use.
    pub tool: String,
    /// One line for people.
    pub label: String,
    /// The agent's question, for people.
    pub description: String,
    /// `true` if the agent says that this may do harm.
    pub danger: bool,
}

/// Answer of the user, or of the policy in place of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAnswer {
    /// Yes.
    Allowed,
    /// No; and why, if that was said.
    Rejected(Option<String>),
    /// The turn or the call has ended first.
    Withdrawn,
}

/// Asks the user, if the policy does not know the answer. The question is withdrawn when the future is
/// dropped.
pub type AskUser = Arc<dyn Fn(UserQuestion) -> BoxFuture<'static, UserAnswer> + Send + Sync>;
