//! Calls that run without a question are shown first: what a front end cannot show does not run.
//!
//! ACP 0.0.9 asks for this: the editor answers `pushToolCall` with its id for the call, and an
//! error there means that its user would never see what happens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::session::events::event::{Origin, ToolOutcome};
use parking_lot::Mutex;
use tandem_host::ToolError;

/// Maximum time that a silent front end holds up a call.
const PATIENCE: Duration = Duration::from_secs(2);

/// The calls that wait to be shown.
#[derive(Default)]
pub struct Gate {
    /// The front ends that want to say that they show a call.
    watching: Mutex<Vec<Origin>>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Result<(), String>>>>,
}

/// A call that waits to be shown; nothing if nobody watches.
pub(super) struct Shown(Option<oneshot::Receiver<Result<(), String>>>);

impl Gate {
    /// Opens the gate for a call, which must not be announced yet: a fast front end would report in
    /// vain. Only the front end that a turn came from can hold a call up.
    pub(super) fn open(&self, call: &str, origin: &Origin) -> Shown {
        if !self.watching.lock().contains(origin) {
            return Shown(None);
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(call.to_owned(), sender);
        Shown(Some(receiver))
    }

    /// Watches the calls of turns of this origin: as long as the guard lives, a call that needs no question runs only
    /// when it is [shown](Self::pass), or when nothing is said of it for two seconds.
    pub fn watch(self: &Arc<Self>, origin: Origin) -> Watching {
        self.watching.lock().push(origin.clone());
        Watching { gate: Arc::clone(self), origin }
    }

    /// Reports that a call is shown to the user, or the reason why it cannot be: then the call does not run. The first
    /// report counts.
    pub fn pass(&self, call: &str, shown: Result<(), String>) {
        if let Some(waiting) = self.waiting.lock().remove(call) {
            // The turn may have been cancelled meanwhile.
            let _ = waiting.send(shown);
        }
    }
}

impl Shown {
    /// Waits until the call may run. The error is what becomes of it instead.
    pub(super) async fn passed(self, cancel: &CancellationToken) -> Result<(), ToolOutcome> {
        let Some(shown) = self.0 else { return Ok(()) };
        match cancel.run_until_cancelled(tokio::time::timeout(PATIENCE, shown)).await {
            Some(Ok(Ok(Err(why)))) => {
                let message = format!("Not run: the editor could not show this call: {why}");
                Err(ToolOutcome::Failed(ToolError::new("not_shown", message)))
            }
            // Shown, or nobody says anything.
            Some(_) => Ok(()),
            None => Err(ToolOutcome::Cancelled),
        }
    }
}

/// Guard that lives as long as a front end watches.
pub struct Watching {
    gate: Arc<Gate>,
    origin: Origin,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watching = self.gate.watching.lock();
        if let Some(at) = watching.iter().position(|origin| *origin == self.origin) {
            watching.swap_remove(at);
        }
        if watching.is_empty() {
            // Nobody is left to say anything.
            self.gate.waiting.lock().clear();
        }
    }
}
