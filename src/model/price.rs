//! Prices of tokens.

use serde::Deserialize;

use super::Usage;
use super::offer::TokenPrice;

/// Prices of a model's tokens.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Prices(Vec<Price>);

/// Price of a model's tokens from a day on, in US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    /// First day (`2026-10-07`, UTC) on which the price is known to hold.
    from: String,
    /// Prompt size in tokens above which the price holds for all tokens of a request.
    #[serde(default)]
    above: u64,
    /// Price of the prompt's tokens that are neither read from the cache nor written into it.
    input: f64,
    /// Price of tokens that are read from the cache; `None` if it is not known.
    #[serde(default)]
    cached: Option<f64>,
    /// Price of tokens that are written into the cache; `None` if it is not known.
    #[serde(default)]
    written: Option<f64>,
    /// Price of the tokens of the answer and of reasoning.
    output: f64,
}

impl Prices {
    /// Returns the cost of a request on a day (`2026-10-07`) in US dollars, if its price is known and
    /// the provider has counted its tokens.
    pub fn cost(&self, usage: &Usage, day: &str) -> Option<f64> {
        let holds = |price: &&Price| {
            price.from.as_str() <= day && (price.above == 0 || usage.input > price.above)
        };
        let prices = self.0.iter().filter(holds);
        let price = prices.max_by_key(|price| (&price.from, price.above))?;
        (*usage != Usage::default()).then(|| price.cost(usage)).flatten()
    }
}

impl Prices {
    /// Returns the price on a day (`2026-10-07`) for a prompt of usual size.
    pub fn on(&self, day: &str) -> Option<TokenPrice> {
        let holds = |price: &&Price| price.from.as_str() <= day && price.above == 0;
        let price = self.0.iter().filter(holds).max_by_key(|price| &price.from)?;
        Some(TokenPrice { input: price.input, output: price.output })
    }
}

impl Price {
    fn cost(&self, usage: &Usage) -> Option<f64> {
        let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.written);
        let parts = [
            (plain, Some(self.input)),
            (usage.cached, self.cached),
            (usage.written, self.written),
            (usage.output.saturating_add(usage.thoughts), Some(self.output)),
        ];
        let counted = parts.into_iter().filter(|(tokens, _)| *tokens > 0);
        #[expect(clippy::cast_precision_loss, reason = "no request has 2^52 tokens")]
        let cost = |(tokens, rate): (u64, Option<f64>)| Some(tokens as f64 * rate? / 1e6);
        counted.map(cost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_of_a_prompt_of_usual_size_is_that_of_the_day() {
        let prices: Prices = serde_json::from_str(PRICES).unwrap();
        let on = |day| prices.on(day).map(|price| (price.input, price.output));
        assert_eq!(on("2026-10-06"), None);
        assert_eq!(on("2026-12-31"), Some((1.0, 5.0)));
        assert_eq!(on("2027-01-01"), Some((4.0, 20.0)));
    }

    const PRICES: &str = r#"[
        {"from": "2026-10-07", "input": 1, "cached": 0.1, "written": 1.25, "output": 5},
        {"from": "2026-10-07", "above": 100000, "input": 2, "cached": 0.2, "written": 2.5, "output": 10},
        {"from": "2027-01-01", "input": 4, "output": 20}
    ]"#;

    #[track_caller]
    fn check(day: &str, [input, cached, written, output, thoughts]: [u64; 5], micros: Option<u32>) {
        let prices: Prices = serde_json::from_str(PRICES).unwrap();
        let cost = prices.cost(&Usage { input, cached, written, output, thoughts }, day);
        let cost = cost.map(|cost| (cost * 1e9).round());
        assert_eq!(cost, micros.map(|micros| f64::from(micros) * 1e3), "{day}");
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        check("2026-11-22", [1000, 0, 0, 0, 0], Some(1000));
        check("2026-11-22", [1000, 400, 400, 10, 20], Some(200 + 40 + 500 + 150));
        check("2026-11-22", [100_000, 0, 0, 1, 0], Some(100_005));
        check("2026-11-22", [100_001, 0, 0, 1, 0], Some(200_012));
    }

    #[test]
    fn what_is_not_known_costs_nothing_that_could_be_said() {
        check("2026-10-06", [1000, 0, 0, 0, 0], None);
        check("2026-11-22", [0, 0, 0, 0, 0], None);
        check("2027-01-01", [1000, 0, 0, 100, 0], Some(6000));
        check("2027-01-01", [1000, 1, 0, 100, 0], None);
        check("2027-01-01", [1000, 0, 1, 100, 0], None);
    }
}
