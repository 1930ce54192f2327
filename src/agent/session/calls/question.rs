//! The questions about calls. The first answer to a question counts, whichever front end it comes from.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::session::events::event::{CallStarted, Origin};
use parking_lot::Mutex;
use tandem_approval::{Answer, Decision, QuestionSubject};
use tandem_host::is_answer;

/// Reason why an answer did not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerError {
    /// Another answer came first.
    AlreadyAnswered {
        /// Front end of the answer that counted.
        by: Origin,
        /// The answer that counted.
        answer: Answer,
    },
    /// The question was withdrawn before the answer came: the turn was cancelled, the time limit for the answer was
    /// over, or another process asks the question now.
    Withdrawn,
    /// No question was asked about this call.
    NotAsked,
    /// The answer is an "always" in a scope that the question did not offer.
    NotOffered,
}

/// The questions of one session.
#[derive(Default)]
pub struct Questions {
    /// State of each question, by the call's id. The lock makes sure that only one of an answer, an expiry, a
    /// withdrawal and a hand-over closes an open question.
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
    /// Another process will ask the question again. The sender is held, not used: the turn must go on waiting.
    HandedOver {
        _waiting: oneshot::Sender<(Answer, Origin)>,
    },
    Withdrawn,
}

impl Questions {
    /// Opens a question. Must happen before the question is announced: a fast answer would be lost.
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
                if !accepts(asked, &answer) {
                    return Err(AnswerError::NotOffered);
                }
            }
        }
        let answered = QuestionState::Answered { answer: in_short(&answer), by: by.clone() };
        if let QuestionState::Open { answer: waiting, .. } = std::mem::replace(state, answered) {
            // If the turn is ending, the receiver may be gone, and the call does not run.
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

    /// Withdraws the question about a call and returns `true` if the question is open, else returns `false`. Before the
    /// withdrawal is visible, calls `first` under the lock.
    pub(crate) fn expire(&self, call: &str, first: impl FnOnce()) -> bool {
        let mut questions = self.by_call.lock();
        let Some(state @ QuestionState::Open { .. }) = questions.get_mut(call) else {
            return false;
        };
        first();
        *state = QuestionState::Withdrawn;
        true
    }

    /// Leaves all open questions to another process, if each of `calls` has one: no answer counts in this process any
    /// more, and its turn waits for ever. Returns `false`, and changes nothing, if one of `calls` has no open question,
    /// or if `calls` is empty.
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

    /// Withdraws all open questions. Before the withdrawal is visible, calls `first` under the lock. Later answers do
    /// not count, and get [`AnswerError::Withdrawn`].
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

/// Returns `true` if the question about a call accepts an answer: an "always" must be in a scope that the question
/// offers, and a call that asks questions of its own must get an answer to at least one of them.
fn accepts(asked: &CallStarted, answer: &Answer) -> bool {
    let Some(question) = &asked.question else { return false };
    let is_input = question.subject == QuestionSubject::UserInput;
    match answer.decision() {
        Decision::RunWithInput(answers) => {
            is_input
                && answers.len() == asked.input_questions().len()
                && answers.iter().any(|answer| !answer.is_empty())
                && answers.iter().all(|answer| is_answer(answer))
        }
        decision if decision.runs() && is_input => false,
        decision => {
            decision.scope().is_none()
                || question.choices().iter().any(|choice| choice.answer == *answer)
        }
    }
}

/// Returns the answer without the content that the user has edited.
fn in_short(answer: &Answer) -> Answer {
    match answer {
        Answer::Once { .. } => Answer::Once { edited: None },
        other => other.clone(),
    }
}
