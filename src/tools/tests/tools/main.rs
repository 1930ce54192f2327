//! The built-in tools, called as a session calls them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod client_terminals;
mod edit;
#[cfg(target_os = "linux")]
mod exchanged;
mod read;
mod titles;
mod web;
