//! Numbers of spans, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

static ENDED_SPANS: AtomicU64 = AtomicU64::new(0);
static SENT_SPANS: AtomicU64 = AtomicU64::new(0);
static FAILED_SPANS: AtomicU64 = AtomicU64::new(0);

/// Numbers of spans of this process. Spans that have ended and are neither sent nor failed wait to be sent, or were
/// dropped for lack of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanCounts {
    /// Number of spans that have ended.
    pub ended: u64,
    /// Number of spans that a collector has taken.
    pub sent: u64,
    /// Number of spans that could not be sent to a collector.
    pub failed: u64,
}

/// Returns the present numbers.
pub fn span_counts() -> SpanCounts {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    SpanCounts { ended: read(&ENDED_SPANS), sent: read(&SENT_SPANS), failed: read(&FAILED_SPANS) }
}

pub(super) fn count_ended() {
    ENDED_SPANS.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn exported(spans: usize, taken: bool) {
    let count = if taken { &SENT_SPANS } else { &FAILED_SPANS };
    count.fetch_add(u64::try_from(spans).unwrap_or(u64::MAX), Ordering::Relaxed);
}
