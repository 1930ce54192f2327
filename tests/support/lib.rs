//! Support for the tests of several rooms.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::format_collect, reason = "speed does not matter here")]

pub mod a2a;
pub mod api_server;
#[cfg(target_os = "linux")]
pub mod exchange;
pub mod fifo;
pub mod host;
pub mod http;
pub mod limit;
pub mod mcp;
pub mod needs;
pub mod network;
pub mod web_socket;
