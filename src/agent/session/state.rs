//! State of a session, folded from its log: model, modes, open calls, costs, and changes of files.

pub(crate) mod active_model;
pub(crate) mod modes;
pub(crate) mod open_calls;
pub(crate) mod session_state;
pub(crate) mod spending;
pub(crate) mod turn_progress;
pub(crate) mod undo;
