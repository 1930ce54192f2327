//! A notification to deliver, and the limits of its delivery.

use std::time::Duration;

use axum::body::Bytes;

use super::place::WebhookUrl;

/// Limits of what is kept for webhooks, and of the attempts to deliver it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Maximum number of waiting notifications of a key; the oldest are dropped for newer ones. 64.
    pub queue: usize,
    /// Maximum number of bytes of those notifications' bodies in all; the newest is kept whatever
    /// its size. 4 MiB.
    pub queue_bytes: usize,
    /// Maximum number of keys with notifications under way; those of further keys are dropped. 64.
    pub targets: usize,
    /// Maximum number of attempts to deliver a notification, the first included. 5.
    pub attempts: u32,
    /// Maximum duration of an attempt, from looking up the name to the head of the response. 10 s.
    pub timeout: Duration,
    /// Maximum wait before the second attempt; each wait is twice the one before. 1 s.
    pub first_wait: Duration,
    /// No longer than this, unless the server asks for it. 30 s.
    pub longest_wait: Duration,
    /// Maximum wait that a server gets by asking with `Retry-After`. 60 s.
    pub longest_retry_after: Duration,
}

impl Default for WebhookLimits {
    fn default() -> Self {
        Self {
            queue: 64,
            queue_bytes: 4 * 1024 * 1024,
            targets: 64,
            attempts: 5,
            timeout: Duration::from_secs(10),
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(30),
            longest_retry_after: Duration::from_mins(1),
        }
    }
}

/// A notification and where it goes. Not to be shown: there are tokens in it.
#[derive(Clone)]
pub struct Delivery {
    /// Key of the configuration; notifications of one key stay in order.
    pub key: String,
    /// Session that it tells of. When there are too many keys, each session gets its share of them.
    pub session: String,
    /// Address that the notification is sent to.
    pub target: WebhookUrl,
    /// Sent with it, as they are; see [`check_header`](super::check_header).
    pub headers: Vec<(String, String)>,
    /// Body that is posted.
    pub body: Bytes,
}
