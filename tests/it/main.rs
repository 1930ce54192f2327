//! The agent as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod credentials;
mod env_file;
mod login;
mod login_page;
mod tidy;
