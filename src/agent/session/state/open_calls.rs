//! The calls of a session that have not ended: their ids, and the output that people are shown of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::session_state::CurrentState;
use crate::session::events::event::{Event, ToolOutcome};
use crate::session::events::log::Log;
use parking_lot::Mutex;
use tandem_model::Call;

/// The calls that have not ended.
pub(crate) struct OpenCalls {
    log: Log,
    state: CurrentState,
    /// Ids of calls that are not in the log yet, and of calls that were dropped before they were logged. The lock is
    /// taken before the lock of the state.
    reserved: Mutex<HashSet<String>>,
    /// Log index of the last progress event of each running call.
    progress: Arc<Mutex<HashMap<String, Option<usize>>>>,
}

impl OpenCalls {
    pub(crate) fn new(log: Log, state: CurrentState) -> Self {
        Self { log, state, reserved: Mutex::default(), progress: Arc::default() }
    }

    /// Returns the call with an id that no other call of the session has: its own id, or a new one.
    pub(crate) fn with_unique_id(&self, mut call: Call) -> Call {
        let mut reserved = self.reserved.lock();
        self.state.with_state(|state| {
            let is_known = |id: &String| state.calls.contains(id);
            reserved.retain(|id| !is_known(id));
            let mut n = state.calls.len() + reserved.len();
            while call.id.is_empty() || is_known(&call.id) || reserved.contains(&call.id) {
                n += 1;
                call.id = format!("{}-{n}", call.name);
            }
        });
        reserved.insert(call.id.clone());
        call
    }

    /// Returns a function that shows people the whole output of a call up to now. In the log, each output replaces the
    /// output before.
    pub(crate) fn progress(&self, call: &str) -> impl Fn(String) + Send + Sync + 'static {
        let (progress, log, call) = (Arc::clone(&self.progress), self.log.clone(), call.to_owned());
        progress.lock().insert(call.clone(), None);
        move |output: String| {
            // The entry is removed when the call has finished: output that comes late is not shown.
            if let Some(last) = progress.lock().get_mut(&call) {
                let event = Event::CallProgress { call: call.clone(), output };
                *last = Some(log.supersede(*last, event));
            }
        }
    }

    /// Logs the end of a call. In the log, the end replaces the last output of the call.
    pub(crate) fn finish(&self, call: String, outcome: ToolOutcome) {
        let last = self.progress.lock().remove(&call).flatten();
        self.log.supersede(last, Event::CallFinished { call, outcome });
    }
}
