//! Retry policy: when a failed request is repeated. This module only calculates; the caller waits.

use std::time::Duration;

use super::Error;
use tandem_net::Backoff;

/// Retry policy: the number of attempts and the waits between them.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub attempts: u32,
    /// Waits between attempts, unless the server asks for others.
    pub backoff: Backoff,
    /// Longest wait that the server may ask for. If the server asks for a longer wait, no retry follows, and the
    /// error says so.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let usual = Backoff::doubling(Duration::from_secs(5), Duration::from_secs(30));
        Self {
            attempts: 10,
            backoff: Backoff { jitter: 0.7..1.3, ..usual },
            patience: Duration::from_mins(5),
        }
    }
}

/// Hint at when another attempt may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryHint {
    /// No retry: the request would fail again.
    Never,
    /// Retry at once: the next request will be a different one.
    Now,
    /// Retry in a few seconds: the server is overloaded.
    Soon,
    /// No hint.
    Unknown,
    /// Retry after this wait at the earliest: the server asks for it.
    After(Duration),
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestFailure {
    /// Error that is returned if no retry follows.
    pub(super) error: Error,
    /// Hint at whether and when to retry.
    pub(super) advice: RetryHint,
    /// Reason for the retry, in a few words.
    pub(super) reason: String,
}

impl RequestFailure {
    /// Returns a failure that would happen again.
    pub(super) fn terminal(error: Error) -> Self {
        Self { error, advice: RetryHint::Never, reason: String::new() }
    }

    /// Returns a failure that may pass.
    pub(super) fn passing(reason: impl Into<String>, error: Error) -> Self {
        Self { error, advice: RetryHint::Unknown, reason: reason.into() }
    }

    /// Returns the failure of a request whose next attempt leaves out the part that the server refused. The retry is
    /// announced if `reason` is not empty, or if a part of the answer that has been shown is void.
    pub(super) fn adapted(reason: &str) -> Self {
        let error = Error::Rejected("The server did not accept the request.".to_owned());
        Self { error, advice: RetryHint::Now, reason: reason.to_owned() }
    }

    /// Replaces the hint at when to retry.
    #[must_use]
    pub(super) fn advised(mut self, advice: RetryHint) -> Self {
        self.advice = advice;
        self
    }
}

/// A failed request or answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// The request or the connection failed.
    Failed(RequestFailure),
    /// The model is unknown.
    NoModel(Error),
    /// The server does not have the API, or does not have the model in it; the failure holds if no other API has an
    /// answer.
    OtherApi(Box<Self>),
    /// The stream breaks the rules of the API.
    Garbled(Error),
}

impl From<RequestFailure> for AttemptFailure {
    fn from(failure: RequestFailure) -> Self {
        Self::Failed(failure)
    }
}

impl AttemptFailure {
    /// Returns the failure of a request beside the conversation, for which there is no other model or API.
    pub(super) fn into_failure(self) -> RequestFailure {
        match self {
            Self::Failed(failure) => failure,
            Self::NoModel(error) | Self::Garbled(error) => RequestFailure::terminal(error),
            Self::OtherApi(trouble) => trouble.into_failure(),
        }
    }

    /// Returns the error, for a request that is not retried.
    pub(super) fn into_error(self) -> Error {
        self.into_failure().error
    }
}

/// Maximum number of quick attempts after [`RetryHint::Soon`]; later attempts wait as usual.
const MAX_QUICK_ATTEMPTS: u32 = 3;

impl RetryPolicy {
    /// Returns the wait before the next attempt, after `failed` failed attempts; `None` if no attempt is left.
    /// `chance` is a random number from 0 to 1.
    pub(super) fn delay(&self, failed: u32, advice: RetryHint, chance: f64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        // An overloaded server often has room again within a second.
        let soon = self.backoff.first / 5;
        let backoff = match advice {
            RetryHint::Never => return None,
            RetryHint::Now => return Some(Duration::ZERO),
            RetryHint::After(wait) if wait > self.patience => return None,
            RetryHint::After(wait) => {
                // The wait is never shorter than the server asks for, and never zero.
                let wait = wait.max(soon);
                Backoff { first: wait, factor: 1, longest: wait, jitter: 1.0..1.2 }
            }
            RetryHint::Soon if failed <= MAX_QUICK_ATTEMPTS => {
                Backoff { first: soon, factor: 3, ..self.backoff.clone() }
            }
            RetryHint::Soon | RetryHint::Unknown => self.backoff.clone(),
        };
        Some(backoff.delay_at(failed, chance))
    }
}

/// Parses durations such as `34.07s`, `900ms` and `1h2m3.5s`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    // Parsed by hand, because no crate reads the forms of both Google's and OpenAI's APIs.
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let amount: f64 = rest[..number].parse().ok()?;
        rest = &rest[number..];
        let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(amount * seconds).ok()?)?;
        rest = &rest[unit..];
    }
    (!text.trim().is_empty()).then_some(total)
}

/// Returns the wait that a message asks for with words such as `Please retry in 12.3s`.
pub(super) fn wait_in(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    let begin = ["retry in ", "retry after ", "reset after ", "try again in "]
        .iter()
        .find_map(|phrase| lower.find(phrase).map(|at| at + phrase.len()))?;
    let word = lower[begin..].split_whitespace().next()?;
    duration(word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()))
}

/// Derives a hint on retries from the name of an exceeded quota.
pub(super) fn quota_advice(id: &str) -> RetryHint {
    let id = id.to_ascii_lowercase();
    if id.contains("perday") || id.contains("daily") {
        RetryHint::Never
    } else if id.contains("perminute") {
        RetryHint::After(Duration::from_mins(1))
    } else {
        RetryHint::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn delays(advice: RetryHint, chance: f64) -> Vec<u128> {
        let policy = RetryPolicy::default();
        let mut failed = 0;
        std::iter::from_fn(|| {
            failed += 1;
            policy.delay(failed, advice, chance).map(|delay| delay.as_millis())
        })
        .collect()
    }

    #[test]
    fn waits_double_up_to_the_cap_and_end() {
        let cap = 30_000;
        let usual = [5000, 10_000, 20_000, cap, cap, cap, cap, cap, cap];
        assert_eq!(delays(RetryHint::Unknown, 0.5), usual);
        assert_eq!(delays(RetryHint::Soon, 0.5)[..5], [1000, 3000, 9000, cap, cap]);
        assert!(delays(RetryHint::Never, 0.5).is_empty());
        assert_eq!(delays(RetryHint::Now, 0.5), [0; 9]);
    }

    #[test]
    fn chance_moves_a_wait_by_thirty_percent_at_most() {
        assert_eq!(delays(RetryHint::Unknown, 0.0)[0], 3500);
        assert_eq!(delays(RetryHint::Unknown, 1.0)[0], 6500);
    }

    #[test]
    fn what_the_server_asks_for_is_never_cut_short() {
        let asked = |seconds| RetryHint::After(Duration::from_secs(seconds));
        assert_eq!(delays(asked(100), 0.0)[0], 100_000);
        assert_eq!(delays(asked(100), 1.0)[0], 120_000);
        assert_eq!(delays(asked(300), 0.0)[0], 300_000);
        assert_eq!(delays(asked(0), 0.0)[0], 1000);
        assert!(delays(asked(301), 0.0).is_empty());
    }

    #[test]
    fn absurd_policies_do_not_overflow() {
        let max = u32::MAX;
        let policy = RetryPolicy {
            attempts: max,
            backoff: Backoff {
                factor: max,
                ..Backoff::doubling(Duration::MAX, Duration::from_secs(1))
            },
            ..RetryPolicy::default()
        };
        assert_eq!(policy.delay(max - 1, RetryHint::Unknown, 0.5), Some(Duration::from_secs(1)));
        assert_eq!(policy.delay(0, RetryHint::Soon, 0.5), Some(Duration::from_secs(1)));
    }

    #[track_caller]
    fn check(text: &str, expected_millis: Option<u128>) {
        assert_eq!(duration(text).map(|it| it.as_millis()), expected_millis, "{text:?}");
    }

    #[test]
    fn durations_are_read() {
        check("34.07s", Some(34_070));
        check("900ms", Some(900));
        check("0s", Some(0));
        check("1h2m3.5s", Some(3_723_500));
        check(" 12s ", Some(12_000));
        check("2d", Some(172_800_000));
        for bad in ["", "s", "12", "-3s", "1.2.3s", "nans", "infs", "5 s", "5y", "٣s"] {
            check(bad, None);
        }
        check(&format!("{}s", "9".repeat(400)), None);
    }

    #[test]
    fn waits_are_found_in_messages() {
        let millis = |text| wait_in(text).map(|wait| wait.as_millis());
        assert_eq!(millis("Quota exceeded. Please retry in 12.3s."), Some(12_300));
        assert_eq!(millis("* limit: 5\nPlease Retry In 900ms, thanks"), Some(900));
        assert_eq!(millis("Your quota will reset after 1h0m1s."), Some(3_601_000));
        assert_eq!(millis("Limit 3. Please try again in 20s. Visit x"), Some(20_000));
        assert_eq!(millis("Please retry in a while"), None);
        assert_eq!(millis("Please retry in "), None);
        assert_eq!(millis("no"), None);
    }

    #[test]
    fn quotas_tell_by_their_names() {
        let minute = RetryHint::After(Duration::from_mins(1));
        assert_eq!(
            quota_advice("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
            RetryHint::Never
        );
        assert_eq!(quota_advice("DailyLimit"), RetryHint::Never);
        assert_eq!(quota_advice("GenerateContentInputTokensPerMinute"), minute);
        assert_eq!(quota_advice("Something"), RetryHint::Unknown);
    }
}
