//! Content of the status line, apart from what the events tell.

use tandem_agent::session::Mode;

/// Content of the status line, apart from what the events tell.
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
    /// Address at which others can join, and their number of connections: a client may have
    /// several.
    pub(in super::super) a2a: Option<(String, usize)>,
    /// Title that the session was given.
    pub(in super::super) title: Option<String>,
    /// Place of the session, if it is not of this process.
    pub(in super::super) elsewhere: Option<Elsewhere>,
    /// Maximum number of tokens that the model can be told.
    pub(in super::super) input_limit: Option<u64>,
}

/// A session of another process.
#[derive(Debug, Clone)]
pub(in super::super) struct Elsewhere {
    /// Its address.
    pub(in super::super) place: String,
    /// `true` if it cannot be reached for now.
    pub(in super::super) lost: bool,
}
