//! The meaning of an answer for the call that was asked about.

use super::event::{Answer, ToolOutcome};
use crate::permission::Scope;
use tandem_host::ToolError;

/// Meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The call runs.
    Run,
    /// The call runs with this content in place of the proposed one.
    RunEdited(&'a str),
    /// The call runs, and so does every call in this scope while the session is open.
    Always(&'a Scope),
    /// The call runs, and so does every call in this scope, in later sessions too.
    AlwaysAndSave(&'a Scope),
    /// The call does not run; the user's message to the model, if there is one.
    Reject(Option<&'a str>),
    /// The call does not run, and the turn is cancelled.
    CancelTurn,
    /// The call fails: the front end could not make out the answer, for this reason.
    Unclear(&'a str),
    /// The call fails: nobody can be asked, as this message tells the model.
    Nobody(&'a str),
}

impl Answer {
    /// Returns the meaning of the answer: the one place where an answer is interpreted.
    pub fn decision(&self) -> Decision<'_> {
        match self {
            Self::Once { edited: None } => Decision::Run,
            Self::Once { edited: Some(content) } => Decision::RunEdited(content),
            Self::Always(scope) => Decision::Always(scope),
            Self::AlwaysAndSave(scope) => Decision::AlwaysAndSave(scope),
            Self::Reject => Decision::Reject(None),
            Self::RejectSaying(message) => Decision::Reject(Some(message)),
            Self::Cancel => Decision::CancelTurn,
            Self::Unclear(why) => Decision::Unclear(why),
            Self::Nobody(message) => Decision::Nobody(message),
        }
    }

    /// Returns the name of the kind of answer, for figures.
    pub fn name(&self) -> &'static str {
        match self.decision() {
            Decision::Run | Decision::RunEdited(_) => "once",
            Decision::Always(_) | Decision::AlwaysAndSave(_) => "always",
            _ => "no",
        }
    }
}

impl<'a> Decision<'a> {
    /// Returns whether the call runs.
    pub fn runs(self) -> bool {
        self.refusal().is_none()
    }

    /// Returns the scope that the user allows from now on.
    pub fn scope(self) -> Option<&'a Scope> {
        match self {
            Self::Always(scope) | Self::AlwaysAndSave(scope) => Some(scope),
            _ => None,
        }
    }

    /// Returns the outcome of a call that does not run.
    pub fn refusal(self) -> Option<ToolOutcome> {
        match self {
            Self::Run | Self::RunEdited(_) | Self::Always(_) | Self::AlwaysAndSave(_) => None,
            Self::Reject(_) => Some(ToolOutcome::Rejected),
            Self::CancelTurn => Some(ToolOutcome::Cancelled),
            Self::Unclear(why) => {
                let message =
                    format!("Not run: the answer to the question was not understood: {why}");
                Some(ToolOutcome::Failed(ToolError::new("answer_unclear", message)))
            }
            Self::Nobody(message) => {
                Some(ToolOutcome::Failed(ToolError::new("nobody_to_ask", message)))
            }
        }
    }

    /// Returns the answer in a word or two, for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Run => "allowed",
            Self::RunEdited(_) => "edited and allowed",
            Self::Always(_) | Self::AlwaysAndSave(_) => "always allowed",
            Self::Reject(_) => "rejected",
            Self::CancelTurn => "cancelled",
            Self::Unclear(_) => "answer not understood",
            Self::Nobody(_) => "nobody could be asked",
        }
    }
}
