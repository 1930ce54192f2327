//! A push notification with its receiver, and the limits for deliveries.

use std::time::Duration;

use axum::body::Bytes;

use super::place::WebhookUrl;

/// Limits for waiting push notifications, and for attempts to deliver them. Each has its default at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Maximum number of waiting notifications of a key; the oldest are dropped for newer ones. 64.
    pub queue: usize,
    /// Maximum total size in bytes of the waiting notifications' bodies. The newest notification stays whatever its
    /// size. 4 MiB.
    pub queue_bytes: usize,
    /// Maximum number of keys with undelivered notifications; notifications of further keys are dropped. 64.
    pub targets: usize,
    /// Maximum number of attempts to deliver a notification, including the first attempt. 5.
    pub attempts: u32,
    /// Maximum duration of an attempt, from the name resolution to the headers of the response. 10 s.
    pub timeout: Duration,
    /// Maximum wait before the second attempt. Each further wait is twice the wait before. 1 s.
    pub first_wait: Duration,
    /// Maximum wait between two attempts, unless the server asks for a longer one. 30 s.
    pub longest_wait: Duration,
    /// Maximum wait that a server can ask for with `Retry-After`. 60 s.
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

/// A notification with its receiver. It contains tokens, so it must not be logged.
#[derive(Clone)]
pub struct Delivery {
    /// Key of the configuration. Notifications of one key are delivered in order.
    pub key: String,
    /// Session that the notification is about. If there are too many keys, the sessions get equal shares of
    /// them.
    pub session: String,
    /// URL that the notification is sent to.
    pub target: WebhookUrl,
    /// Headers that are sent unchanged; see [`check_header`](super::check_header).
    pub headers: Vec<(String, String)>,
    /// Body of the POST request.
    pub body: Bytes,
}
