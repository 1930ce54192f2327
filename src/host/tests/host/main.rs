//! The workspace and the network proxy, as tools use them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[cfg(target_os = "linux")]
mod network;
mod workspace;
