//! News of a session, and replies to requests: the same for a session of this process and for one
//! that the terminal is attached to.

use futures::future::BoxFuture;

use tandem_agent::session::Entry;

/// Future result of a request; the error is for the person.
pub(super) type Reply<T> = BoxFuture<'static, Result<T, String>>;

/// News of a session.
pub(super) enum News {
    /// The log has these entries more.
    Entries(Vec<Entry>),
    /// The session cannot be reached for now.
    Lost,
    /// The session can be reached again.
    Restored,
    /// There is no more to come, for this reason.
    Ended(String),
}
