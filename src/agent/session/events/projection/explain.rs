//! Explanations for people, the same in every front end: of a turn's end, of a failed request and of a retry; and the
//! labels of origins.

use crate::session::events::event::{Origin, PromptPart, StopReason, UnknownOutcome};
use crate::session::events::log::Millis;
use tandem_model::{Error, Retry};

/// Result of a turn that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnResult {
    /// The turn has an answer, complete or cut.
    Completed,
    /// The turn was cancelled, the session was closed, or a question of the turn was not answered in time.
    Cancelled,
    /// The turn has no answer.
    Failed,
}

impl TurnResult {
    /// Returns the result of a turn that ended for this reason.
    pub fn from_reason(reason: &StopReason) -> Self {
        match reason {
            StopReason::EndTurn
            | StopReason::MaxTokens
            | StopReason::MaxRounds(_)
            | StopReason::MaxSessionRounds(_)
            | StopReason::Looping(_) => Self::Completed,
            StopReason::Cancelled { .. }
            | StopReason::Closed { .. }
            | StopReason::Unanswered(_) => Self::Cancelled,
            StopReason::Refused(_)
            | StopReason::SchemaMismatch(_)
            | StopReason::Failed(_)
            | StopReason::Interrupted
            | StopReason::Crashed
            | StopReason::Unknown(_) => Self::Failed,
        }
    }
}

/// Explains to people an outcome of a call that another version of this program wrote, as far as it is known.
pub fn explain_unknown_outcome(outcome: &UnknownOutcome) -> String {
    let text = outcome.text().unwrap_or_default();
    if outcome.is_done() {
        return text.to_owned();
    }
    let kind = outcome.kind();
    let why = format!(
        "The call ended in a way that only a newer tandem knows (`{kind}`); update tandem to read it."
    );
    if text.is_empty() { why } else { format!("{why}\n\n{text}") }
}

/// Explains to people why a turn ended, and what they can do then, in sentences that may contain Markdown. Returns
/// `None` if the model simply had nothing more to say.
pub fn explain_stop(reason: &StopReason) -> Option<String> {
    Some(match reason {
        StopReason::EndTurn => return None,
        StopReason::Cancelled { .. } => "Cancelled.".to_owned(),
        StopReason::Closed { why, .. } => why.clone(),
        StopReason::Unanswered(waited) => format!(
            "Cancelled: nobody answered the question within {} s (`--limit question-seconds=N` \
             allows more). Send a new message to go on.",
            waited.as_secs()
        ),
        StopReason::MaxTokens => {
            "The answer was cut at the model's output limit. Say \"continue\" for the rest."
                .to_owned()
        }
        StopReason::MaxRounds(rounds) => format!(
            "Stopped after {rounds} rounds of tool calls (`--limit rounds=N` allows more). Say \
             \"continue\" to go on."
        ),
        StopReason::MaxSessionRounds(most) => format!(
            "Stopped after {most} requests to the model in this session: `model.maxSessionTurns` in the settings \
             allows no more."
        ),
        StopReason::Looping(what) => format!(
            "Stopped, because the model repeated itself: {what}. Say how to go on, or turn this \
             check off with `model.disableLoopDetection` in the settings."
        ),
        StopReason::Refused(why) => format!(
            "The model's provider refused to answer: {why}. Your prompt is left out of the conversation; word it \
             in another way."
        ),
        StopReason::SchemaMismatch(faults) => format!(
            "The model's last message does not fit the schema of the answer, although the model was told so: {faults}. \
             Make the schema simpler, say in the prompt what each field is for, or choose another model."
        ),
        StopReason::Failed(error) => explain_error(error),
        StopReason::Interrupted => {
            "Interrupted: the agent ended before this turn did. `/continue` goes on.".to_owned()
        }
        StopReason::Unknown(_) => {
            "The turn ended for a reason that only a newer tandem knows; update tandem to read it."
                .to_owned()
        }
        StopReason::Crashed => {
            "The turn ended because of a bug in tandem; the log (`--log-file`) says more."
                .to_owned()
        }
    })
}

/// Explains to people why a model gave no answer.
pub fn explain_error(error: &Error) -> String {
    match error {
        Error::RateLimited(why) => format!("Rate limited: {why}"),
        error => error.to_string(),
    }
}

/// Explains to people that a request is tried again. `restarts` is `true` if text of the answer that was shown is void.
pub fn explain_retry(retry: &Retry, restarts: bool) -> String {
    let again = if restarts { "; the answer begins again" } else { "" };
    format!("{retry}{again}")
}

/// Text between the void part of an answer and the answer's new beginning, for front ends that cannot take back text
/// that they have shown; Markdown.
pub const ANSWER_RESTARTS: &str =
    "*The answer was interrupted (the agent ended) and starts again from here.*";

/// Explains to people that another process resumes a turn. `restarts` is `true` if text of the answer that was shown is
/// void.
pub fn explain_resumed(restarts: bool) -> String {
    let again = if restarts { "; the answer begins again" } else { "" };
    format!("The agent ended before this turn did. The turn goes on{again}")
}

/// Returns the age of a time `at`, in the unit that fits. A time after `now`, which a clock that was set back can
/// cause, counts as just now.
pub fn explain_age(now: Millis, at: Millis) -> String {
    let minutes = now.saturating_sub(at) / 60_000;
    match minutes {
        ..1 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1440 => format!("{} h ago", minutes / 60),
        1440..2880 => "1 day ago".to_owned(),
        _ => format!("{} days ago", minutes / 1440),
    }
}

/// Returns the label that is shown in front of a prompt: the front end that the prompt came from.
pub fn origin_label(origin: &Origin) -> &'static str {
    match origin {
        Origin::Editor => "editor",
        Origin::Terminal | Origin::Attached { .. } => "terminal",
        Origin::A2a { .. } => "A2A",
    }
}

/// Returns a prompt as one text for people.
pub fn prompt_text(prompt: &[PromptPart]) -> String {
    prompt.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_explanation_says_what_happened_and_then_what_to_do() {
        let unanswered = explain_stop(&StopReason::Unanswered(Duration::from_secs(90)));
        let expected = "Cancelled: nobody answered the question within 90 s (`--limit \
            question-seconds=N` allows more). Send a new message to go on.";
        assert_eq!(unanswered.as_deref(), Some(expected));
        assert_eq!(explain_stop(&StopReason::EndTurn), None);
    }

    #[test]
    fn an_age_is_in_the_unit_that_fits() {
        let check = |minutes: Millis, expected: &str| {
            assert_eq!(
                explain_age(1_000_000_000_000, 1_000_000_000_000 - minutes * 60_000),
                expected
            );
        };
        check(-500, "just now");
        check(0, "just now");
        check(3, "3 min ago");
        check(60, "1 h ago");
        check(1439, "23 h ago");
        check(1440, "1 day ago");
        check(2880, "2 days ago");
        check(400 * 1440, "400 days ago");
    }

    #[test]
    fn a_rate_limit_is_named_whatever_the_provider_says() {
        let error = Error::RateLimited("slow down".to_owned());
        assert_eq!(explain_error(&error), "Rate limited: slow down");
        assert_eq!(explain_error(&Error::Unavailable("down".to_owned())), "down");
    }
}
