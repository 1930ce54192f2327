//! Questions to the user that arise while a call runs.

use std::sync::Arc;

use futures::future::BoxFuture;

/// A question that another agent asks while a call runs: the agent wants to use a tool on its own machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserQuestion {
    /// The agent's name in the settings.
    pub agent: String,
    /// Name of the tool that the agent would use.
    pub tool: String,
    /// Summary for people, on one line.
    pub label: String,
    /// The agent's question, for people.
    pub description: String,
    /// `true` if the agent says that the action may do harm.
    pub danger: bool,
}

/// Answer of the user, or of the policy in place of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAnswer {
    /// The action is allowed.
    Allowed,
    /// The action is rejected; the reason, if one was given.
    Rejected(Option<String>),
    /// The turn or the call ended before there was an answer.
    Withdrawn,
}

/// Callback that asks the user, if the policy does not decide. Dropping the future withdraws the question.
pub type AskUser = Arc<dyn Fn(UserQuestion) -> BoxFuture<'static, UserAnswer> + Send + Sync>;
