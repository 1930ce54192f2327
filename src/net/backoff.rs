//! Delays before the retry of a failed attempt.

use std::ops::Range;
use std::time::{Duration, SystemTime};

/// Exponential backoff with jitter.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Factor from one delay to the next.
    pub factor: u32,
    /// Longest delay, before jitter.
    pub longest: Duration,
    /// Range of the random factor for each delay. Clients that fail at the same time must not retry at the same time.
    pub jitter: Range<f64>,
}

impl Backoff {
    /// Returns a backoff that doubles the delay from `first` up to `longest`, without jitter.
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { first, factor: 2, longest, jitter: 1.0..1.0 }
    }

    /// Returns the delay after `failures` failures in a row, which is at least 1.
    pub fn delay(&self, failures: u32) -> Duration {
        self.delay_at(failures, fastrand::f64())
    }

    /// Returns the delay after `failures` failures in a row, with `chance`, from 0 to 1, as the random number.
    pub fn delay_at(&self, failures: u32, chance: f64) -> Duration {
        let factor = self.factor.saturating_pow(failures.saturating_sub(1));
        let delay = self.first.saturating_mul(factor).min(self.longest);
        let Range { start, end } = self.jitter;
        let jittered = delay.as_secs_f64() * (start + (end - start) * chance);
        Duration::try_from_secs_f64(jittered).unwrap_or(delay)
    }
}

/// Parses the value of a `Retry-After` header, which is a number of seconds or a date. For a date in the past, returns
/// a delay of 0.
pub fn retry_after(header: &str) -> Option<Duration> {
    if let Ok(seconds) = header.trim().parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(header.trim()).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_never_overflow() {
        let backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30));
        let delays = [0, 1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|n| backoff.delay(n).as_secs());
        assert_eq!(delays, [1, 1, 2, 4, 8, 16, 30, 30, 30]);
        let endless =
            Backoff { jitter: 2.0..2.0, ..Backoff::doubling(Duration::MAX, Duration::MAX) };
        assert_eq!(endless.delay(9), Duration::MAX);
    }

    #[test]
    fn jitter_is_a_share_of_the_delay() {
        let doubling = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30));
        let backoff = Backoff { jitter: 0.5..1.5, ..doubling };
        let millis = [0.0, 0.25, 1.0].map(|chance| backoff.delay_at(2, chance).as_millis());
        assert_eq!(millis, [1000, 1500, 3000]);
    }

    #[test]
    fn a_server_asks_for_seconds_or_names_a_date() {
        let seconds = |header: &str| retry_after(header).map(|wait| wait.as_secs());
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(seconds(&later).is_some_and(|wait| (90..=100).contains(&wait)));
        for bad in ["-1", "soon", "", "nan", "inf"] {
            assert_eq!(seconds(bad), None, "{bad:?}");
        }
    }
}
