//! Current time in the log's unit, and durations for people.

use tokio::time::Instant;

use tandem_agent::session::Millis;

/// Returns the current time in milliseconds since the beginning of 1970, the log's unit.
pub(super) fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

/// Returns a duration for people: `7 s`, `2 min 5 s`.
pub(super) fn seconds(millis: Millis) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes if minutes < 60 => format!("{minutes} min {} s", seconds % 60),
        minutes => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// Waits until the instant `due`; for ever if there is none.
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Returns the earlier of the instant `due`, if there is one, and the instant `too`.
pub(super) fn earlier(due: Option<Instant>, too: Instant) -> Instant {
    due.map_or(too, |due| due.min(too))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_due_later_does_not_hold_up_what_is_due_sooner() {
        let now = Instant::now();
        let later = now + Duration::from_millis(90);
        assert_eq!(earlier(None, now), now);
        assert_eq!(earlier(Some(later), now), now);
        assert_eq!(earlier(Some(now), later), now);
    }
}
