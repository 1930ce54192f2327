//! The gate for calls that run without a question: the front end shows such a call first, and a call that it cannot
//! show does not run.
//!
//! ACP 0.0.9 asks for this: the editor answers `pushToolCall` with its id for the call, and an error there means that
//! the user would never see the call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::session::events::event::{Origin, ToolOutcome};
use parking_lot::Mutex;
use tandem_host::ToolError;

/// Maximum time for which a call waits for a front end's report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The calls that wait to be shown.
#[derive(Default)]
pub struct Gate {
    /// Origins whose front end reports the calls that it shows; one entry for each `Watching`.
    watching: Mutex<Vec<Origin>>,
    /// Senders of the reports that calls wait for, by the call's id.
    waiting: Mutex<HashMap<String, oneshot::Sender<Result<(), String>>>>,
}

/// The wait of a call for its report. When it is dropped, the call no longer waits at the gate.
pub(super) struct GateWait {
    gate: Arc<Gate>,
    call: String,
    /// Receiver of the report; `None` if no front end of the turn's origin watches.
    report: Option<oneshot::Receiver<Result<(), String>>>,
}

impl Gate {
    /// Registers a call at the gate. Must happen before the call is announced: the report of a fast front end would be
    /// lost. Only the front end that the turn's prompt came from can hold up a call.
    pub(super) fn open(self: &Arc<Self>, call: &str, origin: &Origin) -> GateWait {
        let report = self.watching.lock().contains(origin).then(|| {
            let (sender, receiver) = oneshot::channel();
            self.waiting.lock().insert(call.to_owned(), sender);
            receiver
        });
        GateWait { gate: Arc::clone(self), call: call.to_owned(), report }
    }

    /// Watches the calls of turns of this origin. As long as the guard lives, a call that needs no question runs only
    /// when it is reported as [shown](Self::pass), or after two seconds without a report.
    pub fn watch(self: &Arc<Self>, origin: Origin) -> Watching {
        self.watching.lock().push(origin.clone());
        Watching { gate: Arc::clone(self), origin }
    }

    /// Reports that a call is shown to the user. An error says why the front end cannot show the call, which then does
    /// not run. The first report counts.
    pub fn pass(&self, call: &str, shown: Result<(), String>) {
        if let Some(waiting) = self.waiting.lock().remove(call) {
            // The call may stop waiting between the two lines.
            let _ = waiting.send(shown);
        }
    }
}

impl GateWait {
    /// Waits until the call may run. The error is the outcome of a call that may not.
    pub(super) async fn passed(mut self, cancel: &CancellationToken) -> Result<(), ToolOutcome> {
        let Some(report) = self.report.take() else { return Ok(()) };
        match cancel.run_until_cancelled(tokio::time::timeout(REPORT_TIMEOUT, report)).await {
            Some(Ok(Ok(Err(why)))) => {
                let message = format!("Not run: the editor could not show this call: {why}");
                Err(ToolOutcome::Failed(ToolError::new("not_shown", message)))
            }
            // The call may run: the call is shown, or the time is over, or no front end watches any more.
            Some(_) => Ok(()),
            None => Err(ToolOutcome::Cancelled),
        }
    }
}

impl Drop for GateWait {
    fn drop(&mut self) {
        self.gate.waiting.lock().remove(&self.call);
    }
}

/// Guard of [`Gate::watch`]: the front end watches until the guard is dropped.
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
            // No front end is left that reports calls as shown. Dropping the senders lets the waiting calls run at
            // once.
            self.gate.waiting.lock().clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_was_not_reported_in_time_runs_and_leaves_nothing_at_the_gate() {
        let gate = Arc::<Gate>::default();
        let _watching = gate.watch(Origin::Editor);
        let shown = gate.open("call", &Origin::Editor);
        assert!(shown.passed(&CancellationToken::new()).await.is_ok());
        assert!(gate.waiting.lock().is_empty());
    }
}
