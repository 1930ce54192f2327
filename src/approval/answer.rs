//! Answers to questions, and the meaning of an answer for the call that was asked about.

use serde::{Deserialize, Serialize};

use super::scope::Scope;

/// The user's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Yes to this call alone, with content that the user has put in place of the proposed content, if any.
    Once {
        /// Content from the user; only for a call that changes a file.
        edited: Option<String>,
    },
    /// Answers to the questions that the call asks, in their order. An empty text: the user has left the question out.
    Input(Vec<String>),
    /// Yes to this call, and to the calls of this scope while the session is open; the question has offered the scope.
    Always(Scope),
    /// Yes to this call, and to the calls of this scope in this and later sessions; only if the question offers to save
    /// the answer.
    AlwaysAndSave(Scope),
    /// No.
    Reject,
    /// No, with the user's message to the model.
    RejectSaying(String),
    /// No, and the turn ends.
    Cancel,
    /// No clear answer: the front end could not make out the answer of its user, for this reason. The call fails.
    Unclear(String),
    /// Answer in place of a person, because no person can be asked; the message tells the model so. The call fails.
    Nobody(String),
}

/// Meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'a> {
    /// The call runs.
    Run,
    /// The call runs with this content in place of the proposed one.
    RunEdited(&'a str),
    /// The call runs with these answers to its own questions.
    RunWithInput(&'a [String]),
    /// The call runs, and so does every call in this scope while the session is open.
    Always(&'a Scope),
    /// The call runs, and so does every call in this scope, in later sessions too.
    AlwaysAndSave(&'a Scope),
    /// The call does not run. The message is from the user to the model, if there is one.
    Reject(Option<&'a str>),
    /// The call does not run, and the turn is cancelled.
    CancelTurn,
    /// The call fails: the front end could not make out the answer, for this reason.
    Unclear(&'a str),
    /// The call fails: no person can be asked, as this message tells the model.
    Nobody(&'a str),
}

impl Answer {
    /// Returns the answer with these texts, one for each question that the call asks; a rejection if all texts are empty.
    pub fn of_texts(answers: Vec<String>) -> Self {
        if answers.iter().all(String::is_empty) { Self::Reject } else { Self::Input(answers) }
    }

    /// Returns the meaning of the answer: the one place where an answer is interpreted.
    pub fn decision(&self) -> Decision<'_> {
        match self {
            Self::Once { edited: None } => Decision::Run,
            Self::Once { edited: Some(content) } => Decision::RunEdited(content),
            Self::Input(answers) => Decision::RunWithInput(answers),
            Self::Always(scope) => Decision::Always(scope),
            Self::AlwaysAndSave(scope) => Decision::AlwaysAndSave(scope),
            Self::Reject => Decision::Reject(None),
            Self::RejectSaying(message) => Decision::Reject(Some(message)),
            Self::Cancel => Decision::CancelTurn,
            Self::Unclear(why) => Decision::Unclear(why),
            Self::Nobody(message) => Decision::Nobody(message),
        }
    }

    /// Returns the name of the kind of answer, for statistics.
    pub fn name(&self) -> &'static str {
        match self.decision() {
            Decision::Run | Decision::RunEdited(_) => "once",
            Decision::RunWithInput(_) => "input",
            Decision::Always(_) | Decision::AlwaysAndSave(_) => "always",
            _ => "no",
        }
    }
}

impl<'a> Decision<'a> {
    /// Returns whether the call runs.
    pub fn runs(self) -> bool {
        match self {
            Self::Run
            | Self::RunEdited(_)
            | Self::RunWithInput(_)
            | Self::Always(_)
            | Self::AlwaysAndSave(_) => true,
            Self::Reject(_) | Self::CancelTurn | Self::Unclear(_) | Self::Nobody(_) => false,
        }
    }

    /// Returns the scope that the user allows from now on.
    pub fn scope(self) -> Option<&'a Scope> {
        match self {
            Self::Always(scope) | Self::AlwaysAndSave(scope) => Some(scope),
            _ => None,
        }
    }

    /// Returns the answer in a word or two, for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Run => "allowed",
            Self::RunEdited(_) => "edited and allowed",
            Self::RunWithInput(_) => "answered",
            Self::Always(_) | Self::AlwaysAndSave(_) => "always allowed",
            Self::Reject(_) => "rejected",
            Self::CancelTurn => "cancelled",
            Self::Unclear(_) => "answer not understood",
            Self::Nobody(_) => "nobody could be asked",
        }
    }
}
