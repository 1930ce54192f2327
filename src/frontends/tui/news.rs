//! Notifications of a session, and replies to requests: the same types for a session of this process and for a session
//! that the terminal is attached to.

use futures::future::BoxFuture;

use tandem_agent::session::Entry;

/// Future result of a request; the error is a text for the user.
pub(super) type Reply<T> = BoxFuture<'static, Result<T, String>>;

/// Notification of a session.
pub(super) enum SessionNotification {
    /// The log has these new entries.
    Entries(Vec<Entry>),
    /// The session cannot be reached for now.
    Lost,
    /// The session can be reached again.
    Restored,
    /// No more news will come; the reason.
    Ended(String),
}
