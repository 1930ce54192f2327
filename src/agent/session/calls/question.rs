//! Questions that are open: the first answer wins, whichever front end it comes from.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::session::events::event::{CallStarted, Origin};
use parking_lot::Mutex;
use tandem_policy::{Answer, Question};

/// Reason why an answer did not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerError {
    /// Somebody was faster.
    AlreadyAnswered {
        /// Front end of the answer that counted.
        by: Origin,
        /// The answer that counted.
        answer: Answer,
    },
    /// The turn was cancelled first.
    Withdrawn,
    /// No such question was asked.
    NotAsked,
    /// "Always" in a scope that was not offered.
    NotOffered,
}

/// The questions of one session.
#[derive(Default)]
pub struct Questions {
    /// State of each question, by call.
    by_call: Mutex<HashMap<String, QuestionState>>,
}

enum QuestionState {
    Open {
        asked: Arc<CallStarted>,
        answer: oneshot::Sender<(Answer, Origin)>,
    },
    Answered {
        answer: Answer,
        by: Origin,
    },
    /// Another process is going to ask again. The sender is kept, so that the turn waits as before.
    HandedOver {
        _waiting: oneshot::Sender<(Answer, Origin)>,
    },
    Withdrawn,
}

impl Questions {
    /// Opens a question. Do so before anybody is told of it, or a fast answer is lost.
    pub(super) fn open(&self, asked: Arc<CallStarted>) -> oneshot::Receiver<(Answer, Origin)> {
        let (sender, receiver) = oneshot::channel();
        let call = asked.call.id.clone();
        self.by_call.lock().insert(call, QuestionState::Open { asked, answer: sender });
        receiver
    }

    /// Answers the question about a call; the first answer counts.
    pub(crate) fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        let mut questions = self.by_call.lock();
        let state = questions.get_mut(call).ok_or(AnswerError::NotAsked)?;
        match state {
            QuestionState::Withdrawn | QuestionState::HandedOver { .. } => {
                return Err(AnswerError::Withdrawn);
            }
            QuestionState::Answered { answer, by } => {
                return Err(AnswerError::AlreadyAnswered {
                    by: by.clone(),
                    answer: answer.clone(),
                });
            }
            QuestionState::Open { asked, .. } => {
                if !asked.question.as_ref().is_some_and(|question| offered(question, &answer)) {
                    return Err(AnswerError::NotOffered);
                }
            }
        }
        let answered = QuestionState::Answered { answer: in_short(&answer), by: by.clone() };
        if let QuestionState::Open { answer: waiting, .. } = std::mem::replace(state, answered) {
            // The turn may be ending; then nobody waits, and nothing runs.
            drop(waiting.send((answer, by)));
        }
        Ok(())
    }

    /// Returns `true` if the question about a call still waits for its answer.
    pub fn is_open(&self, call: &str) -> bool {
        matches!(self.by_call.lock().get(call), Some(QuestionState::Open { .. }))
    }

    /// Returns the calls whose question is open, in no order.
    pub fn open_now(&self) -> Vec<Arc<CallStarted>> {
        let open = |state: &QuestionState| match state {
            QuestionState::Open { asked, .. } => Some(Arc::clone(asked)),
            QuestionState::Answered { .. }
            | QuestionState::HandedOver { .. }
            | QuestionState::Withdrawn => None,
        };
        self.by_call.lock().values().filter_map(open).collect()
    }

    /// Takes a question back if nobody has answered it; `first` happens before anybody notices.
    pub(crate) fn expire(&self, call: &str, first: impl FnOnce()) -> bool {
        let mut questions = self.by_call.lock();
        let Some(state @ QuestionState::Open { .. }) = questions.get_mut(call) else {
            return false;
        };
        first();
        *state = QuestionState::Withdrawn;
        true
    }

    /// Leaves the questions about these calls to another process, if all of them are open: no answer counts any more, and
    /// the turn waits for ever. Returns `false`, and leaves none, if one has been answered.
    pub(crate) fn hand_over(&self, calls: &BTreeSet<String>) -> bool {
        let mut questions = self.by_call.lock();
        let is_open =
            |call: &String| matches!(questions.get(call), Some(QuestionState::Open { .. }));
        if calls.is_empty() || !calls.iter().all(is_open) {
            return false;
        }
        for state in questions.values_mut() {
            *state = match std::mem::replace(state, QuestionState::Withdrawn) {
                QuestionState::Open { answer, .. } => {
                    QuestionState::HandedOver { _waiting: answer }
                }
                other => other,
            };
        }
        true
    }

    /// Takes all questions back that nobody has answered; `first` happens before anybody notices. What is said
    /// from then on does not count, and nobody is told that it does.
    pub(crate) fn withdraw(&self, first: impl FnOnce()) {
        let mut questions = self.by_call.lock();
        first();
        for state in questions.values_mut() {
            if matches!(state, QuestionState::Open { .. }) {
                *state = QuestionState::Withdrawn;
            }
        }
    }
}

/// Returns whether the question offers an answer.
fn offered(question: &Question, answer: &Answer) -> bool {
    answer.decision().scope().is_none()
        || question.choices().iter().any(|choice| choice.answer == *answer)
}

/// Returns the answer without its content.
fn in_short(answer: &Answer) -> Answer {
    match answer {
        Answer::Once { .. } => Answer::Once { edited: None },
        other => other.clone(),
    }
}
