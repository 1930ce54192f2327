//! Work that blocks: run beside the runtime, and ended soon after nobody wants it any more.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use tandem_host::off_thread::off_thread;
use tandem_host::{ToolContext, ToolError};

/// Runs work that reads the disk or computes for long. A cancel ends the wait at once; the work
/// itself must look at the `cancel` of the context that it is given, which also fires when this
/// future is dropped.
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

/// Waits for what an awaited file or path comes to. A cancel ends the wait at once.
pub(super) async fn stoppable<T>(
    cx: &ToolContext,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let result = cx.cancel.run_until_cancelled(work).await;
    result.unwrap_or_else(|| Err(ToolError::cancelled()))
}

/// End of a search: a cancel, or the end of its time.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    cancel: CancellationToken,
    deadline: Instant,
}

impl Deadline {
    /// Until the call is cancelled, or the time that a search may take is over.
    pub(super) fn new(cx: &ToolContext) -> Self {
        Self::at_most(cx.host.limits.search_time, &cx.cancel)
    }

    /// Until it is cancelled, or the time is over.
    pub(super) fn at_most(time: Duration, cancel: &CancellationToken) -> Self {
        let deadline = Instant::now() + time.min(Duration::from_hours(24));
        Self { cancel: cancel.clone(), deadline }
    }

    /// Returns whether to stop.
    pub(super) fn over(&self) -> bool {
        self.cancel.is_cancelled() || self.timed_out()
    }

    /// Returns whether the time is over.
    pub(super) fn timed_out(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// An error if the call was cancelled.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }
}
