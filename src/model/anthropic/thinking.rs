//! Thinking fields of requests. Each generation of models has its own.

use serde::Serialize;

use crate::catalog::{self, Thinking};

/// Minimum thinking budget in tokens.
const MIN_THINKING_TOKENS: u64 = 1024;
/// Level that turns thinking off.
const OFF_LEVEL: &str = "OFF";

/// Thinking fields of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThinkingConfig {
    pub(super) thinking: Option<ThinkingMode>,
    /// The model's `effort`, if it has one.
    pub(super) effort: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ThinkingMode {
    /// The model decides how much to think.
    Adaptive {
        /// Request for summaries, without which newer models send no thoughts.
        display: Display,
    },
    /// The model thinks at the beginning of each turn, up to a number of tokens.
    Enabled { budget_tokens: u64 },
    /// No thinking.
    Disabled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Display {
    Summarized,
}

impl ThinkingConfig {
    /// Returns the fields for a level, or for the default. The error lists the levels.
    pub(super) fn new(
        model: &catalog::ModelProperties,
        max_tokens: u64,
        asked: Option<&str>,
    ) -> Result<Self, String> {
        let Thinking { levels, budgets, default } = &model.thinking;
        let adaptive = !levels.is_empty();
        let Some(level) = asked.map(str::trim).or(default.as_deref().filter(|_| !adaptive)) else {
            let thinking = adaptive.then_some(ADAPTIVE_MODE);
            return Ok(Self { thinking, effort: None });
        };
        if let Some(level) = levels.iter().find(|known| known.eq_ignore_ascii_case(level)) {
            return Ok(if level == OFF_LEVEL {
                Self { thinking: Some(ThinkingMode::Disabled), effort: None }
            } else {
                Self { thinking: Some(ADAPTIVE_MODE), effort: Some(level.to_ascii_lowercase()) }
            });
        }
        let named = budgets.iter().find(|(name, _)| name.eq_ignore_ascii_case(level));
        let named = named.and_then(|(_, budget)| u64::try_from(*budget).ok());
        match named.or(level.parse().ok().filter(|_| !budgets.is_empty())) {
            Some(0) => Ok(Self { thinking: Some(ThinkingMode::Disabled), effort: None }),
            Some(budget_tokens) if (MIN_THINKING_TOKENS..max_tokens).contains(&budget_tokens) => {
                Ok(Self { thinking: Some(ThinkingMode::Enabled { budget_tokens }), effort: None })
            }
            Some(_) => Err(format!(
                "The thinking budget of `{}` must be from {MIN_THINKING_TOKENS} to {} tokens, or 0.",
                model.id,
                max_tokens.saturating_sub(1)
            )),
            None => Err(model.no_such_level(level)),
        }
    }
}

/// Returns the budget, reduced so that tokens are left for the answer; `None` if too few tokens are left for
/// thinking.
pub(super) fn within(budget_tokens: u64, max_tokens: u64) -> Option<ThinkingMode> {
    let budget_tokens = budget_tokens.min(max_tokens / 2 + max_tokens / 4);
    (budget_tokens >= MIN_THINKING_TOKENS).then_some(ThinkingMode::Enabled { budget_tokens })
}

const ADAPTIVE_MODE: ThinkingMode = ThinkingMode::Adaptive { display: Display::Summarized };
