//! Requests about a session wait while it is being opened, closed or deleted, or its model changed, and
//! are served after that in the order read: an editor need not wait for the answer to `session/load`
//! before it prompts.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::answer::answer;
use tandem_wire::acp::v1::SessionIdParams;
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

/// Maximum number of requests that wait for one session.
pub(super) const MOST_WAITING: usize = 1000;

/// Queues of the sessions whose requests have to wait, by their ids.
#[derive(Default)]
pub(super) struct RequestQueues(Mutex<HashMap<String, RequestQueue>>);

/// Requests about one session. Until the last of them is served, each new one waits too.
#[derive(Default)]
struct RequestQueue {
    is_locked: bool,
    waiting: VecDeque<WaitingRequest>,
}

/// A request that waits.
pub(super) struct WaitingRequest {
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) responder: Responder,
}

impl RequestQueues {
    /// Lets the requests about a session wait that come from now on.
    pub(super) fn lock(&self, id: &str) {
        self.0.lock().entry(id.to_owned()).or_default().is_locked = true;
    }

    /// Ends that; the requests that wait are to be served.
    pub(super) fn unlock(&self, id: &str) {
        if let Some(queue) = self.0.lock().get_mut(id) {
            queue.is_locked = false;
        }
    }

    /// Takes a request that has to wait; returns the responder of any other.
    pub(super) fn push(
        &self,
        method: &str,
        params: Params<'_>,
        responder: Responder,
    ) -> Option<Responder> {
        let mut queues = self.0.lock();
        // Parameters are read twice only while there are queues.
        if queues.is_empty() {
            return Some(responder);
        }
        let Ok(SessionIdParams { session_id }) = params.parse() else { return Some(responder) };
        let Some(queue) = queues.get_mut(&session_id) else { return Some(responder) };
        if queue.waiting.len() < MOST_WAITING {
            let (method, params) = (method.to_owned(), params.0.map(ToOwned::to_owned));
            queue.waiting.push_back(WaitingRequest { method, params, responder });
        } else {
            let error = Error::internal(format_args!("{MOST_WAITING} requests wait already"));
            answer(responder, Err::<(), _>(error));
        }
        None
    }

    /// Returns the next request to serve; none if the session is locked again. A queue without any is
    /// removed.
    pub(super) fn pop(&self, id: &str) -> Option<WaitingRequest> {
        let mut queues = self.0.lock();
        let queue = queues.get_mut(id).filter(|queue| !queue.is_locked)?;
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queues.remove(id);
        }
        next
    }
}
