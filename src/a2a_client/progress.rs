//! Progress of an agent for people, shown no more often than people can see.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two updates.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(50);

/// Display of an agent's progress.
pub(super) struct ProgressDisplay {
    show: Arc<dyn Fn(String) + Send + Sync>,
    /// Earliest time of the next update.
    next: Instant,
    /// `true` if there is progress that has not been shown.
    waits: bool,
}

impl ProgressDisplay {
    pub(super) fn new(show: Arc<dyn Fn(String) + Send + Sync>) -> Self {
        Self { show, next: Instant::now(), waits: false }
    }

    /// Records that there is new progress. Shows `text` now if enough time has passed since the last text; otherwise
    /// the caller shows the progress at [`Self::due`].
    pub(super) fn changed(&mut self, text: impl FnOnce() -> String) {
        self.waits = true;
        if Instant::now() >= self.next {
            self.show(text);
        }
    }

    /// Shows pending progress now.
    pub(super) fn show(&mut self, text: impl FnOnce() -> String) {
        let text = if std::mem::take(&mut self.waits) { text() } else { return };
        // An empty progress would only say that the call has begun, which the call itself shows.
        if !text.is_empty() {
            self.next = Instant::now() + MIN_UPDATE_INTERVAL;
            (self.show)(text);
        }
    }

    /// Returns the time at which pending progress is to be shown; `None` if there is none.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waits.then_some(self.next)
    }
}
