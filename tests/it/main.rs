//! The agent as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod policy;
mod tidy;
