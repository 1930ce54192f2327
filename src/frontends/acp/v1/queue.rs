//! Queues for requests about a session that is being opened, closed, deleted or given another model. The requests are
//! served afterwards, in the order in which they were read, so an editor may send a prompt without waiting for the
//! answer to `session/load`.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::answer::answer;
use tandem_wire::acp::v1::SessionIdParams;
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

/// Maximum number of requests that wait for one session.
pub(super) const MOST_WAITING: usize = 1000;

/// Queues of the sessions whose requests have to wait, by the sessions' ids.
#[derive(Default)]
pub(super) struct RequestQueues(Mutex<HashMap<String, RequestQueue>>);

/// Queue of requests about one session. As long as a request waits, each new request waits too, so that the order
/// stays.
#[derive(Default)]
struct RequestQueue {
    is_locked: bool,
    waiting: VecDeque<WaitingRequest>,
}

/// A request that waits in a queue.
pub(super) struct WaitingRequest {
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) responder: Responder,
}

impl RequestQueues {
    /// Locks a session: requests about it that come from now on wait.
    pub(super) fn lock(&self, id: &str) {
        self.0.lock().entry(id.to_owned()).or_default().is_locked = true;
    }

    /// Unlocks a session. The caller then serves the requests that wait.
    pub(super) fn unlock(&self, id: &str) {
        if let Some(queue) = self.0.lock().get_mut(id) {
            queue.is_locked = false;
        }
    }

    /// Queues a request if it has to wait, or answers it with an error if the queue is full. Returns the responder if
    /// the request need not wait.
    pub(super) fn push(
        &self,
        method: &str,
        params: Params<'_>,
        responder: Responder,
    ) -> Option<Responder> {
        let mut queues = self.0.lock();
        // Reading the parameters here and again later costs time, so they are read here only while there are queues.
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

    /// Takes the next request to serve out of the session's queue; `None` if the queue is empty or the session is
    /// locked again. Removes an empty queue that is not locked.
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
