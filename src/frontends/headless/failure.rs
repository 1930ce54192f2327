//! Why a prompt came to nothing, and the exit code that says so.

use std::fmt;

use crate::session::{ModelError, StopReason};

/// What a shell adds to the number of a signal.
const SIGNALLED: i32 = 128;

/// The number of SIGINT.
const INTERRUPT: i32 = 2;

/// Why a prompt came to nothing. Names and codes are those of Gemini CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no key, or it is not accepted.
    NotAuthenticated(String),
    /// What was given makes no prompt.
    Input(String),
    /// The model was to be asked more often than is allowed; how often that is.
    TurnLimit(String),
    /// Somebody cancelled it: a signal, whose number this is, or else one who has joined.
    Cancelled(Option<i32>),
    /// Anything else.
    Other(String),
}

impl Failure {
    pub(super) fn of(reason: &StopReason, signal: Option<i32>) -> Option<Self> {
        Some(match reason {
            StopReason::EndTurn | StopReason::MaxTokens => return None,
            StopReason::Cancelled { .. } | StopReason::Closed { .. } => Self::Cancelled(signal),
            StopReason::Unanswered(waited) => {
                Self::Other(format!("nobody answered a question within {} s", waited.as_secs()))
            }
            StopReason::MaxRounds(rounds) => Self::TurnLimit(format!(
                "stopped after {rounds} rounds of tool calls; `--limit rounds=N` allows more"
            )),
            StopReason::MaxSessionRounds(most) => Self::TurnLimit(format!(
                "the model has been asked {most} times; `model.maxSessionTurns` in the settings \
                 allows no more"
            )),
            StopReason::Looping(what) => Self::Other(format!(
                "stopped, because the model repeated itself, also when it was told so: {what}; \
                 `model.disableLoopDetection` in the settings lets it go on"
            )),
            StopReason::Refused(why) => {
                Self::Other(format!("the model's provider would not answer: {why}"))
            }
            StopReason::Failed(error) => Self::of_model(error),
            StopReason::Crashed => {
                Self::Other("a fault in the agent; its log says more".to_owned())
            }
        })
    }

    pub(super) fn of_model(error: &ModelError) -> Self {
        match error {
            ModelError::NotAuthenticated(why) => Self::NotAuthenticated(why.clone()),
            ModelError::RateLimited(why) => Self::Other(format!("rate limited: {why}")),
            error => Self::Other(error.to_string()),
        }
    }

    /// The exit code.
    pub fn code(&self) -> i32 {
        match self {
            Self::NotAuthenticated(_) => 41,
            Self::Input(_) => 42,
            Self::TurnLimit(_) => 53,
            Self::Cancelled(signal) => SIGNALLED + signal.unwrap_or(INTERRUPT),
            Self::Other(_) => 1,
        }
    }

    /// A name for programs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::NotAuthenticated(_) => "FatalAuthenticationError",
            Self::Input(_) => "FatalInputError",
            Self::TurnLimit(_) => "FatalTurnLimitedError",
            Self::Cancelled(_) => "FatalCancellationError",
            Self::Other(_) => "Error",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthenticated(why)
            | Self::Input(why)
            | Self::TurnLimit(why)
            | Self::Other(why) => f.write_str(why),
            Self::Cancelled(_) => f.write_str("cancelled"),
        }
    }
}
