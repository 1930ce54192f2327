//! Shows people what an agent does, not more often than they can see.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// Shows what an agent does.
pub(super) struct Progress {
    show: Arc<dyn Fn(String) + Send + Sync>,
    /// Time from which on there may be another.
    next: Instant,
    /// `true` if there is something that has not been shown.
    waits: bool,
}

impl Progress {
    pub(super) fn new(show: Arc<dyn Fn(String) + Send + Sync>) -> Self {
        Self { show, next: Instant::now(), waits: false }
    }

    /// There is something new: `text` is shown, now or at [`Self::due`].
    pub(super) fn changed(&mut self, text: impl FnOnce() -> String) {
        self.waits = true;
        if Instant::now() >= self.next {
            self.show(text);
        }
    }

    /// Shows it now.
    pub(super) fn show(&mut self, text: impl FnOnce() -> String) {
        let text = if std::mem::take(&mut self.waits) { text() } else { return };
        // That it has begun says the call itself.
        if !text.is_empty() {
            self.next = Instant::now() + PAUSE;
            (self.show)(text);
        }
    }

    /// Returns the time at which something that waits is to be shown.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waits.then_some(self.next)
    }
}
