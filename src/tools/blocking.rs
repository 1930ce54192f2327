//! Blocking work: run on a thread for blocking work, and ended soon after its caller no longer waits for it.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use tandem_host::off_thread::off_thread;
use tandem_host::{ToolContext, ToolError};

/// Runs work that reads the disk or computes for long. A cancel ends the wait at once. The work itself must check the
/// `cancel` of the context that it is given, which also fires when this future is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&ToolContext) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancel = cx.cancel.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let cx = ToolContext { cancel: cancel.clone(), ..cx.clone() };
    let work = off_thread(move || work(&cx));
    cancel.run_until_cancelled(work).await.unwrap_or_else(|| Err(ToolError::cancelled()))
}

/// Waits for the result of asynchronous work. A cancel ends the wait at once.
pub(super) async fn stoppable<T>(
    cx: &ToolContext,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let result = cx.cancel.run_until_cancelled(work).await;
    result.unwrap_or_else(|| Err(ToolError::cancelled()))
}

/// End of a search: the cancel of its call, or the end of its time.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    cancel: CancellationToken,
    deadline: Instant,
}

impl Deadline {
    /// Returns a deadline at the cancel of the call or after the maximum time of a search.
    pub(super) fn new(cx: &ToolContext) -> Self {
        Self::at_most(cx.host.limits.search_time, &cx.cancel)
    }

    /// Returns a deadline at a cancel or after `time`, at most a day.
    pub(super) fn at_most(time: Duration, cancel: &CancellationToken) -> Self {
        // The cap keeps the sum from overflowing, which would panic.
        let deadline = Instant::now() + time.min(Duration::from_hours(24));
        Self { cancel: cancel.clone(), deadline }
    }

    /// Returns whether the search has to stop.
    pub(super) fn over(&self) -> bool {
        self.cancel.is_cancelled() || self.timed_out()
    }

    /// Returns whether the time is over.
    pub(super) fn timed_out(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns an error if the call was cancelled.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }
}
