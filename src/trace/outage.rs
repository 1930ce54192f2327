//! Lines of the log on a collector that takes no spans: one a minute, and not one for each batch.

use std::time::{Duration, Instant};

/// Time between two lines that say that spans are lost.
const PAUSE: Duration = Duration::from_mins(1);

/// A collector that may be away.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Time of the last line that says that spans are lost.
    reported: Option<Instant>,
    /// `true` if the log says so, and not yet that the collector is back.
    is_away: bool,
    /// Spans that have been lost since that line.
    lost: usize,
}

impl Outage {
    /// Notes spans that the collector did not take; returns the line for the log, if it is time for one.
    pub(super) fn failed(&mut self, spans: usize, why: &str, now: Instant) -> Option<String> {
        self.lost += spans;
        if self.reported.is_some_and(|last| now.duration_since(last) < PAUSE) {
            return None;
        }
        (self.reported, self.is_away) = (Some(now), true);
        let lost = std::mem::take(&mut self.lost);
        Some(format!("{lost} spans of traces are lost, because the collector takes none: {why}"))
    }

    /// Notes that the collector has taken spans; returns the line for the log, if there is something to say.
    pub(super) fn sent(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_away).then(|| match std::mem::take(&mut self.lost) {
            0 => "the collector takes spans of traces again".to_owned(),
            lost => format!("the collector takes spans of traces again; {lost} more are lost"),
        })
    }

    /// Returns the last line for the log, if something is left to say.
    pub(super) fn ended(&mut self) -> Option<String> {
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
        // One that comes and goes has no more lines than one that is away.
        assert_eq!(outage.failed(6, "gone", after(62)), None);
        assert_eq!(outage.sent(), None);
        assert_eq!(outage.failed(1, "gone", after(120)), lost(7));
        assert_eq!(outage.sent(), Some(back.to_owned()));
        assert_eq!(outage.ended(), None);
        assert_eq!(outage.failed(9, "gone", after(121)), None);
        assert_eq!(outage.ended(), Some("9 more spans of traces are lost".to_owned()));
    }
}
