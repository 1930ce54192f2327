//! Replies of the Gemini API.

use crate::api;
pub(crate) use crate::api::server::{Reply, Server, event};

/// A recorded stream.
pub(crate) fn replayed(name: &str) -> Reply {
    Reply::stream(recorded(name))
}

/// A recorded stream's bytes.
pub(crate) fn recorded(name: &str) -> Vec<u8> {
    api::recorded(&format!("gemini/{name}.sse"))
}
