//! Pending calls: requests that were sent and have no response yet.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::jsonrpc::{Error, Response};

/// Maximum number of requests without a waiting future whose methods are remembered, for the log.
const MAX_REMEMBERED_METHODS: usize = 1024;

/// Sender of a response to the future that waits for it.
pub(super) type ResponseSender = oneshot::Sender<Result<Box<RawValue>, Error>>;

/// Requests that were sent and have no response yet.
#[derive(Default)]
pub(super) struct PendingCalls {
    next_id: u64,
    waiting: HashMap<u64, ResponseSender>,
    /// Ids and methods of the latest requests without a waiting future, by ascending id.
    unawaited: VecDeque<(u64, &'static str)>,
    /// Methods whose refusal by the peer has been logged as a warning.
    refused: HashSet<&'static str>,
    /// `true` if no response can come any more.
    closed: bool,
}

impl PendingCalls {
    /// Adds a request whose response is waited for, and returns its id.
    pub(super) fn awaited(&mut self, response: ResponseSender) -> u64 {
        let id = self.next_id();
        if !self.closed {
            self.waiting.insert(id, response);
        }
        id
    }

    /// Adds a request whose response is not waited for, and returns its id.
    pub(super) fn unawaited(&mut self, method: &'static str) -> u64 {
        let id = self.next_id();
        // The list is bounded, because some peers never answer.
        if self.unawaited.len() == MAX_REMEMBERED_METHODS {
            self.unawaited.pop_front();
        }
        self.unawaited.push_back((id, method));
        id
    }

    fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Returns `true` if a request with this id was sent.
    pub(super) fn has_sent(&self, id: u64) -> bool {
        id < self.next_id
    }

    /// Stops waiting for a response. Returns `false` if the response has come, or can no longer come.
    pub(super) fn abandon(&mut self, id: u64) -> bool {
        self.waiting.remove(&id).is_some()
    }

    /// Hands a response to the future that waits for it.
    pub(super) fn complete(&mut self, Response { id, result }: Response<'_>) {
        let waiting = id.and_then(|id| self.waiting.remove(&id));
        let method = id.and_then(|id| self.take_unawaited(id)).unwrap_or("?");
        match (waiting, result) {
            // Sending fails if the future was dropped; the response is then of no use.
            (Some(waiting), result) => drop(waiting.send(result.map(ToOwned::to_owned))),
            (None, Err(error)) if error.code == Error::REQUEST_CANCELLED => {
                tracing::trace!(?id, "a cancelled request was answered");
            }
            // Only the first refusal of a method is a warning: a peer that does not know the method refuses it each
            // time.
            (None, Err(error)) if self.refused.insert(method) => {
                tracing::warn!(?id, method, %error, "the peer refused a request");
            }
            (None, Err(error)) => {
                tracing::debug!(?id, method, %error, "the peer refused a request");
            }
            (None, Ok(_)) => tracing::trace!(?id, "a response that nobody waits for"),
        }
    }

    /// Removes a request whose response was not waited for, when the response comes, and returns the request's method.
    fn take_unawaited(&mut self, id: u64) -> Option<&'static str> {
        let at = self.unawaited.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.unawaited.remove(at).map(|(_, method)| method)
    }

    /// Makes every waiting future fail, now and from now on, because no response can come.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.waiting.clear();
    }
}
