//! Replies of the Gemini API.

use crate::api;
pub(crate) use crate::api::server::{Reply, Server};

impl Reply {
    /// A recorded stream.
    pub(crate) fn recorded(name: &str) -> Self {
        Self::stream(recorded(name))
    }

    /// An answer that says one thing.
    pub(crate) fn text(text: &str) -> Self {
        Self::stream(event(&format!(
            r#"{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}"#
        )))
    }
}

impl Server {
    pub(crate) fn models_url(&self) -> String {
        format!("{}/v1beta/models", self.address())
    }
}

/// A recorded stream's bytes.
pub(crate) fn recorded(name: &str) -> Vec<u8> {
    api::recorded(&format!("gemini/{name}.sse"))
}

/// One event with this candidate.
pub(crate) fn event(candidate: &str) -> String {
    format!("data: {{\"candidates\":[{candidate}]}}\n\n")
}
