//! Sessions, as front ends hold them: turns, calls and questions, and what the model is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod events;
mod kept;
mod long;
mod other_agents;
mod saved_workspace;
mod session;
mod sessions;
mod told;
mod typed;
mod undo;
mod user_questions;
