//! Lines of the log about a collector that takes no spans: at most one a minute, not one for each batch.

use std::time::{Duration, Instant};

/// Shortest time between two lines about lost spans.
const MIN_LINE_INTERVAL: Duration = Duration::from_mins(1);

/// State of a collector that may be unavailable.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Time of the last line about lost spans.
    reported: Option<Instant>,
    /// `true` if the log says that the collector is unavailable, and not yet that it is back.
    is_away: bool,
    /// Number of spans that have been lost since that line.
    lost: usize,
}

impl Outage {
    /// Records spans that the collector did not take. Returns a line for the log, if enough time has passed since
    /// the last line.
    pub(super) fn failed(&mut self, spans: usize, why: &str, now: Instant) -> Option<String> {
        self.lost += spans;
        if self.reported.is_some_and(|last| now.duration_since(last) < MIN_LINE_INTERVAL) {
            return None;
        }
        (self.reported, self.is_away) = (Some(now), true);
        let lost = std::mem::take(&mut self.lost);
        Some(format!("{lost} spans of traces are lost, because the collector takes none: {why}"))
    }

    /// Records that the collector has taken spans. Returns a line for the log, if the last line says that the
    /// collector is unavailable.
    pub(super) fn sent(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_away).then(|| match std::mem::take(&mut self.lost) {
            0 => "the collector takes spans of traces again".to_owned(),
            lost => format!("the collector takes spans of traces again; {lost} more are lost"),
        })
    }

    /// Returns the last line for the log, if there are lost spans that no line has counted.
    pub(super) fn last_line(&mut self) -> Option<String> {
        let lost = std::mem::take(&mut self.lost);
        (lost > 0).then(|| format!("{lost} more spans of traces are lost"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_a_line_a_minute_and_one_at_its_end() {
        let (mut outage, begin) = (Outage::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let lost = |lost| {
            Some(format!("{lost} spans of traces are lost, because the collector takes none: gone"))
        };
        assert_eq!(outage.sent(), None);
        assert_eq!(outage.failed(2, "gone", begin), lost(2));
        assert_eq!(outage.failed(3, "gone", after(59)), None);
        assert_eq!(outage.failed(4, "gone", after(60)), lost(7));
        assert_eq!(outage.failed(5, "gone", after(61)), None);
        let back = "the collector takes spans of traces again";
        assert_eq!(outage.sent(), Some(format!("{back}; 5 more are lost")));
        assert_eq!(outage.sent(), None);
        // A collector that comes and goes causes no more lines than one that stays away.
        assert_eq!(outage.failed(6, "gone", after(62)), None);
        assert_eq!(outage.sent(), None);
        assert_eq!(outage.failed(1, "gone", after(120)), lost(7));
        assert_eq!(outage.sent(), Some(back.to_owned()));
        assert_eq!(outage.last_line(), None);
        assert_eq!(outage.failed(9, "gone", after(121)), None);
        assert_eq!(outage.last_line(), Some("9 more spans of traces are lost".to_owned()));
    }
}
