//! Cancellation of requests that a peer has sent: `$/cancel_request`, as ACP v1 defines it.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Notification in both directions: the sender of a request no longer needs the result.
pub(super) const CANCEL_REQUEST: &str = "$/cancel_request";

/// Parameters of [`CANCEL_REQUEST`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelRequestParams<Id> {
    /// Id of the request to cancel.
    pub(super) request_id: Id,
}

/// Cancellation tokens of the requests that are not answered yet, by the JSON text of their ids. The text is enough,
/// because a peer writes an id the same way each time.
#[derive(Default)]
pub(super) struct Cancellations(Mutex<HashMap<Box<str>, OpenRequest>>);

#[derive(Default)]
struct OpenRequest {
    token: CancellationToken,
    /// Number of unanswered requests with this id; more than one if the peer has used the id again.
    requests: usize,
}

impl Cancellations {
    /// Adds a request, and returns its token.
    pub(super) fn add(&self, id: &str) -> CancellationToken {
        let mut entries = self.0.lock();
        let entry = entries.entry(id.into()).or_default();
        entry.requests += 1;
        entry.token.clone()
    }

    /// Removes a request that is answered.
    pub(super) fn remove(&self, id: &str) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.get_mut(id) {
            entry.requests -= 1;
            if entry.requests == 0 {
                entries.remove(id);
            }
        }
    }

    /// Fires the token of a request, unless it is answered.
    pub(super) fn cancel(&self, id: &str) {
        let token = self.0.lock().get(id).map(|entry| entry.token.clone());
        // The lock is released before: firing the token may wake tasks that wait for it.
        if let Some(token) = token {
            token.cancel();
        } else {
            tracing::debug!(id, "the request to cancel is not open");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cancellations;

    #[test]
    fn only_the_token_of_the_open_request_fires() {
        let cancellations = Cancellations::default();
        let (one, other) = (cancellations.add("1"), cancellations.add("\"1\""));
        cancellations.cancel("2");
        cancellations.cancel("1");
        assert!(one.is_cancelled());
        assert!(!other.is_cancelled());
    }

    #[test]
    fn an_id_used_again_after_its_answer_is_a_new_request() {
        let cancellations = Cancellations::default();
        let first = cancellations.add("1");
        cancellations.cancel("1");
        cancellations.remove("1");
        let second = cancellations.add("1");
        assert!(first.is_cancelled());
        assert!(!second.is_cancelled());
    }

    #[test]
    fn an_id_used_twice_at_once_stays_open_until_both_are_answered() {
        let cancellations = Cancellations::default();
        let (first, second) = (cancellations.add("1"), cancellations.add("1"));
        cancellations.remove("1");
        cancellations.cancel("1");
        assert!(first.is_cancelled() && second.is_cancelled());
        cancellations.remove("1");
        assert!(cancellations.0.lock().is_empty());
    }
}
