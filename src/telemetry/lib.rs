//! Figures of a server for monitoring: numbers of sessions, turns, questions, tokens and requests, and durations, also
//! of the store's operations. The figures contain no content of a session.
//!
//! [`Metrics`] reads each session's log, as a front end does.

mod figures;
mod metrics;
mod session;
mod store;

pub use self::metrics::{ClientGuard, Metrics};
