//! Options and limits of requests to models.

use std::time::Duration;

use super::retry::RetryPolicy;
use tandem_net::Backoff;

/// Options and limits of requests to a model.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// Thinking level, one of the model's levels in the catalog.
    pub thinking: Option<String>,
    /// Retries of failed requests.
    pub retry: RetryPolicy,
    /// Retries after answers that cannot be used.
    pub content_retry: RetryPolicy,
    /// Maximum number of times in a row that an answer is resumed at the same checkpoint.
    pub reconnects: u32,
    /// Timeout of a connection attempt.
    pub connect_timeout: Duration,
    /// Maximum time between two pieces of data from the server.
    pub idle: Duration,
    /// Maximum time that a stream may stay open after the end of the answer.
    pub linger: Duration,
    /// Maximum time for which a request waits for the facts that a server on this machine tells about its model.
    pub facts_wait: Duration,
    /// Maximum size of one event in bytes.
    pub max_event: usize,
    /// Maximum size of one answer in bytes.
    pub max_answer: usize,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            thinking: None,
            retry: RetryPolicy::default(),
            content_retry: RetryPolicy {
                attempts: 4,
                backoff: Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30)),
                ..RetryPolicy::default()
            },
            reconnects: 3,
            connect_timeout: Duration::from_secs(30),
            idle: Duration::from_mins(5),
            linger: Duration::from_secs(5),
            facts_wait: Duration::from_secs(1),
            max_event: 32 << 20,
            max_answer: 32 << 20,
        }
    }
}
