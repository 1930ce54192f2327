//! What the last row says, apart from what the events tell.

use tandem_agent::session::Mode;

/// What the status line says, apart from what the events tell.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct StatusInfo {
    /// Who answers.
    pub(in super::super) model: String,
    /// How much is allowed without a question.
    pub(in super::super) mode: Mode,
    /// Where the agent works.
    pub(in super::super) workspace: String,
    /// Where others can join, and how many connections they have: a client may have several.
    pub(in super::super) a2a: Option<(String, usize)>,
    /// Where the session is, if it is not of this process.
    pub(in super::super) elsewhere: Option<Elsewhere>,
    /// How many tokens the model can be told.
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
