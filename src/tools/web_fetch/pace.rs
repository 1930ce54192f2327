//! Rate limit for each host: a model that reads page after page must not become a burden to the host.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Period in which requests are counted.
const COUNTING_PERIOD: Duration = Duration::from_mins(1);

/// Times of the requests to each host within the last minute. The lock guards the map.
#[derive(Default)]
pub(super) struct RequestTimes(Mutex<HashMap<String, Vec<Instant>>>);

impl RequestTimes {
    /// Counts a request to a host. If the host has had `most` requests within the last minute, the error is the time
    /// until the next request is allowed.
    pub(super) fn ask(&self, host: &str, most: usize, now: Instant) -> Result<(), Duration> {
        let mut asked = self.0.lock();
        asked.retain(|_, times| {
            times.retain(|time| now.duration_since(*time) < COUNTING_PERIOD);
            !times.is_empty()
        });
        let times = asked.entry(host.to_owned()).or_default();
        if times.len() < most {
            times.push(now);
            return Ok(());
        }
        let first = times.first().map_or(now, |first| *first);
        Err(COUNTING_PERIOD.saturating_sub(now.duration_since(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_asked_so_often_within_a_minute_and_others_are_not_held_up() {
        let (pace, start) = (RequestTimes::default(), Instant::now());
        let ask = |host, second| pace.ask(host, 2, start + Duration::from_secs(second));
        assert_eq!(ask("a.test", 0), Ok(()));
        assert_eq!(ask("a.test", 20), Ok(()));
        assert_eq!(ask("a.test", 30), Err(Duration::from_secs(30)));
        assert_eq!(ask("b.test", 30), Ok(()));
        assert_eq!(ask("a.test", 60), Ok(()));
        assert_eq!(ask("a.test", 61), Err(Duration::from_secs(19)));
        assert_eq!(pace.0.lock().len(), 2);
        assert_eq!(ask("c.test", 200), Ok(()));
        assert_eq!(pace.0.lock().len(), 1);
    }

    #[test]
    fn with_none_allowed_nothing_is_asked() {
        assert_eq!(RequestTimes::default().ask("a.test", 0, Instant::now()), Err(COUNTING_PERIOD));
    }
}
