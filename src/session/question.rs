//! Questions that are open: the first answer wins, whichever front end it comes from.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::event::{Answer, Origin};
use crate::permission::Question;
use crate::sync::Mutex;

/// Why an answer did not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerError {
    /// Somebody was faster.
    AlreadyAnswered {
        /// Who.
        by: Origin,
        /// What they said.
        answer: Answer,
    },
    /// No such question is open; the turn may have ended.
    NotAsked,
    /// "Always" in a scope that was not offered.
    NotOffered,
}

/// The questions of one session.
#[derive(Default)]
pub(super) struct Questions {
    /// By call.
    by_call: Mutex<HashMap<String, State>>,
}

enum State {
    Open { question: Question, answer: oneshot::Sender<(Answer, Origin)> },
    Answered { answer: Answer, by: Origin },
}

impl Questions {
    /// Opens a question. Do so before anybody is told of it, or a fast answer is lost.
    pub(super) fn open(
        &self,
        call: &str,
        question: Question,
    ) -> oneshot::Receiver<(Answer, Origin)> {
        let (sender, receiver) = oneshot::channel();
        let state = State::Open { question, answer: sender };
        self.by_call.lock().insert(call.to_owned(), state);
        receiver
    }

    /// Answers a question, unless somebody did.
    pub(super) fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        let mut questions = self.by_call.lock();
        let state = questions.get_mut(call).ok_or(AnswerError::NotAsked)?;
        match state {
            State::Answered { answer, by } => {
                return Err(AnswerError::AlreadyAnswered {
                    by: by.clone(),
                    answer: answer.clone(),
                });
            }
            State::Open { question, .. } => {
                if let Answer::Always(scope) = &answer
                    && !question.scopes.contains(scope)
                {
                    return Err(AnswerError::NotOffered);
                }
            }
        }
        let answered = State::Answered { answer: answer.clone(), by: by.clone() };
        if let State::Open { answer: waiting, .. } = std::mem::replace(state, answered) {
            // The turn may be ending; then nobody waits, and nothing runs.
            drop(waiting.send((answer, by)));
        }
        Ok(())
    }

    /// Takes a question back that nobody has answered.
    pub(super) fn withdraw(&self, call: &str) {
        let mut questions = self.by_call.lock();
        if matches!(questions.get(call), Some(State::Open { .. })) {
            questions.remove(call);
        }
    }
}
