//! How models are asked, and how much is too much.

use std::time::Duration;

use serde_json::{Map, Value};

use super::retry::Policy;
use crate::net::Backoff;

/// How a model is asked, and how much is too much.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much it thinks: one of the levels that the catalog has for it.
    pub thinking: Option<String>,
    /// Fields that the user wants in every request, as the API has them: sampling, a seed. For the
    /// Gemini API they are those of `generationConfig`.
    pub generation: Map<String, Value>,
    /// When requests fail.
    pub retry: Policy,
    /// When answers are worthless.
    pub content_retry: Policy,
    /// How often an answer that breaks off is taken up again without any progress.
    pub reconnects: u32,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the server may say nothing.
    pub idle: Duration,
    /// How long a stream may stay open after the answer has ended.
    pub linger: Duration,
    /// Bytes of one event.
    pub max_event: usize,
    /// Bytes of one answer.
    pub max_answer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            thinking: None,
            generation: Map::new(),
            retry: Policy::default(),
            content_retry: Policy {
                attempts: 4,
                backoff: Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30)),
                ..Policy::default()
            },
            reconnects: 3,
            connect_timeout: Duration::from_secs(30),
            idle: Duration::from_mins(5),
            linger: Duration::from_secs(5),
            max_event: 32 << 20,
            max_answer: 32 << 20,
        }
    }
}
