//! Failure of a prompt, and its exit code.

use std::fmt;

use tandem_agent::session::{ModelError, StopReason, explain_error, explain_stop};

/// Number that a shell adds to the number of a signal, for the exit code of a program that the signal has ended.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Number of SIGINT.
const SIGINT_NUMBER: i32 = 2;

/// Failure of a prompt. The names and exit codes are Gemini CLI's, except for those of a cut answer, of refused calls
/// and of an answer that does not fit a schema, for which Gemini CLI has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunFailure {
    /// There is no key, or the provider does not accept it.
    NotAuthenticated(String),
    /// The input is no prompt.
    Input(String),
    /// The turn needs more requests to the model than are allowed.
    TurnLimit(String),
    /// The answer was cut at the model's output limit.
    AnswerCut(String),
    /// Tool calls were refused, in a run that refused calls make fail.
    CallsRefused(String),
    /// The prompt was cancelled, by the signal of this number, or without a number by another client of the session.
    Cancelled(Option<i32>),
    /// The last answer does not fit the schema that was asked for.
    SchemaMismatch(String),
    /// Any other failure.
    Other(String),
}

impl RunFailure {
    /// Returns the failure for a turn that ended for the given reason; `None` if the turn has not failed. `signal` is
    /// the number of the signal that has cancelled the prompt, if a signal has.
    pub(super) fn from_reason(reason: &StopReason, signal: Option<i32>) -> Option<Self> {
        let why = explain_stop(reason)?;
        Some(match reason {
            StopReason::EndTurn => return None,
            StopReason::MaxTokens => Self::AnswerCut(why),
            StopReason::Cancelled { .. } | StopReason::Closed { .. } => Self::Cancelled(signal),
            StopReason::MaxRounds(_) | StopReason::MaxSessionRounds(_) => Self::TurnLimit(why),
            StopReason::Failed(error) => Self::of_model(error),
            StopReason::SchemaMismatch(_) => Self::SchemaMismatch(why),
            _ => Self::Other(why),
        })
    }

    /// Returns the failure for an error of the model.
    pub(super) fn of_model(error: &ModelError) -> Self {
        let why = explain_error(error);
        match error {
            ModelError::NotAuthenticated(_) => Self::NotAuthenticated(why),
            _ => Self::Other(why),
        }
    }

    /// Returns the exit code.
    pub fn code(&self) -> i32 {
        match self {
            Self::AnswerCut(_) => 3,
            Self::CallsRefused(_) => 4,
            Self::SchemaMismatch(_) => 5,
            Self::NotAuthenticated(_) => 41,
            Self::Input(_) => 42,
            Self::TurnLimit(_) => 53,
            Self::Cancelled(signal) => SIGNAL_EXIT_BASE + signal.unwrap_or(SIGINT_NUMBER),
            Self::Other(_) => 1,
        }
    }

    /// Returns the failure's name for programs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::NotAuthenticated(_) => "FatalAuthenticationError",
            Self::Input(_) => "FatalInputError",
            Self::TurnLimit(_) => "FatalTurnLimitedError",
            Self::Cancelled(_) => "FatalCancellationError",
            Self::AnswerCut(_) => "OutputLimitError",
            Self::CallsRefused(_) => "CallsRefusedError",
            Self::SchemaMismatch(_) => "SchemaMismatchError",
            Self::Other(_) => "Error",
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthenticated(why)
            | Self::Input(why)
            | Self::TurnLimit(why)
            | Self::AnswerCut(why)
            | Self::CallsRefused(why)
            | Self::SchemaMismatch(why)
            | Self::Other(why) => f.write_str(why),
            Self::Cancelled(_) => f.write_str("cancelled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_name_beside_its_exit_code() {
        let manual = include_str!("../../../docs/headless.md");
        let why = String::new;
        for failure in [
            RunFailure::NotAuthenticated(why()),
            RunFailure::Input(why()),
            RunFailure::TurnLimit(why()),
            RunFailure::AnswerCut(why()),
            RunFailure::CallsRefused(why()),
            RunFailure::SchemaMismatch(why()),
            RunFailure::Cancelled(None),
            RunFailure::Other(why()),
        ] {
            let cells = format!("| `{}` | {} |", failure.name(), failure.code());
            assert!(manual.contains(&cells), "{cells}");
        }
    }
}
