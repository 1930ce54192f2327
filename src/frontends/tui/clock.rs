//! The time, as the log counts it and as people read it.

use tokio::time::Instant;

use tandem_agent::session::Millis;

/// Milliseconds since the beginning of 1970, as the log counts.
pub(super) fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

/// A time for people: `7 s`, `2 min 5 s`.
pub(super) fn seconds(millis: Millis) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes if minutes < 60 => format!("{minutes} min {} s", seconds % 60),
        minutes => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// Waits until an instant; for ever if there is none.
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
