//! Cost of a session, summed from the requests in its log.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::session::events::event::Event;
use crate::session::events::log::{Entry, Millis};
use tandem_model::{Models, Prices, Usage};

/// Name of the tool whose requests are charged, but whose tokens are not counted. Once the tool is called, the cost of
/// the session is not known.
const SEARCH_TOOL: &str = "google_web_search";

/// A request that is charged.
#[derive(Debug, Clone)]
pub(crate) struct ChargedRequest {
    at: Millis,
    /// Id of the model that has answered.
    model: Arc<str>,
    /// Tokens; all zero if they were not counted.
    usage: Usage,
}

impl ChargedRequest {
    /// Returns the request that an entry of the log reports; `None` if the entry reports none. `model`: id of the
    /// model that answers.
    pub(super) fn from_entry(entry: &Entry, model: &str) -> Option<Self> {
        let usage = match &*entry.event {
            Event::AnswerFinished { usage, .. } => *usage,
            Event::Compressed(short) => short.usage,
            Event::CallStarted(started) if started.call.name == SEARCH_TOOL => Usage::default(),
            _ => return None,
        };
        Some(Self { at: entry.at, model: model.into(), usage })
    }
}

/// Returns the tokens of the requests since a time, including cached tokens.
pub(crate) fn tokens_since(requests: &[ChargedRequest], since: Millis) -> u64 {
    let counted = requests.iter().filter(|request| request.at >= since);
    let tokens = counted.map(|ChargedRequest { usage, .. }| {
        usage.input.saturating_add(usage.output).saturating_add(usage.thoughts)
    });
    tokens.fold(0, u64::saturating_add)
}

/// Cost of a session's requests so far, in US dollars.
pub(crate) struct Spending {
    /// Number of requests in the sum.
    pub(crate) counted: usize,
    /// Sum in US dollars; `None` if the cost of a request is not known.
    pub(crate) sum: Option<f64>,
    /// Prices of models, by id.
    prices: HashMap<Arc<str>, Prices>,
}

impl Default for Spending {
    fn default() -> Self {
        Self { counted: 0, sum: Some(0.0), prices: HashMap::new() }
    }
}

impl Spending {
    /// Adds the cost of requests.
    pub(crate) fn add(&mut self, requests: Vec<ChargedRequest>, models: &dyn Models) {
        self.counted += requests.len();
        for ChargedRequest { at, model, usage } in requests {
            let Some(sum) = self.sum else { return };
            let prices = self.prices.entry(model).or_insert_with_key(|id| models.prices(id));
            self.sum = prices.cost(&usage, &day(at)).map(|cost| sum + cost);
        }
    }
}

/// Returns the day of a time, in UTC: `2026-10-07`.
fn day(at: Millis) -> String {
    let time = Timestamp::from_millisecond(at).unwrap_or_default();
    time.to_zoned(TimeZone::UTC).date().to_string()
}
