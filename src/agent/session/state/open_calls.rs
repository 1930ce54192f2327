//! The calls of a session that have not ended: their ids, and what they have put out so far.

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
    /// The ids of calls that are not in the log yet, and of those that were dropped on the way there.
    reserved: Mutex<HashSet<String>>,
    /// Log index of the last progress event of each running call.
    progress: Arc<Mutex<HashMap<String, Option<usize>>>>,
}

impl OpenCalls {
    pub(crate) fn new(log: Log, state: CurrentState) -> Self {
        Self { log, state, reserved: Mutex::default(), progress: Arc::default() }
    }

    /// Returns the call, under an id that no other call of the session has.
    pub(crate) fn with_unique_id(&self, mut call: Call) -> Call {
        let mut reserved = self.reserved.lock();
        self.state.look(|state| {
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

    /// Returns a function that shows people all that a call has put out so far.
    pub(crate) fn progress(&self, call: &str) -> impl Fn(String) + Send + Sync + 'static {
        let (progress, log, call) = (Arc::clone(&self.progress), self.log.clone(), call.to_owned());
        progress.lock().insert(call.clone(), None);
        move |output: String| {
            // Gone when the call has finished: what comes late is not shown.
            if let Some(last) = progress.lock().get_mut(&call) {
                let event = Event::CallProgress { call: call.clone(), output };
                *last = Some(log.supersede(*last, event));
            }
        }
    }

    /// Records the end of a call.
    pub(crate) fn finish(&self, call: String, outcome: ToolOutcome) {
        let last = self.progress.lock().remove(&call).flatten();
        self.log.supersede(last, Event::CallFinished { call, outcome });
    }
}
