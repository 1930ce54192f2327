//! Tests of the workspace and of the network proxy, through the functions that tools use.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[cfg(target_os = "linux")]
mod network;
mod workspace;
