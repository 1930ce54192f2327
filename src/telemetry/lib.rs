//! Figures of a server for monitoring: how many sessions, turns, questions, tokens and requests, and how
//! long things take, the store among them. Nothing of what is said in a session is in them.
//!
//! [`Metrics`] is a reader of each session's log, like a front end.

mod figures;
mod metrics;
mod session;
mod store;

pub use self::metrics::{ClientGuard, Metrics};
