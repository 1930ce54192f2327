//! Events of a session: their types, the log that keeps them in order, and the projection that explains them to
//! people.

pub(crate) mod event;
pub(crate) mod log;
pub(crate) mod principal;
pub(crate) mod projection;
pub(crate) mod saved_workspace;
