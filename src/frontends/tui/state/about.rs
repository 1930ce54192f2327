//! Content of the status line that does not come from the log's events.

use tandem_agent::session::Mode;

/// Content of the status line that does not come from the log's events.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct StatusInfo {
    /// Name of the model.
    pub(in super::super) model: String,
    /// Level of thinking, if one was chosen.
    pub(in super::super) thinking: Option<String>,
    /// Approval mode: the calls that run without a question.
    pub(in super::super) mode: Mode,
    /// The agent's working directory.
    pub(in super::super) workspace: String,
    /// Address at which other clients can join, and the number of their connections: a client may have several.
    pub(in super::super) a2a: Option<(String, usize)>,
    /// Title of the session, given by a user or by the model.
    pub(in super::super) title: Option<String>,
    /// Place of the session, if it runs in another process.
    pub(in super::super) elsewhere: Option<RemoteSessionInfo>,
    /// Maximum number of tokens in the model's input.
    pub(in super::super) input_limit: Option<u64>,
}

/// A session of another process.
#[derive(Debug, Clone)]
pub(in super::super) struct RemoteSessionInfo {
    /// Address of the agent.
    pub(in super::super) place: String,
    /// `true` while the session cannot be reached.
    pub(in super::super) lost: bool,
}
