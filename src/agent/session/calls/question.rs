//! The questions about calls. The first answer to a question counts, whichever front end it comes from.

use std::collections::{BTreeSet, HashMap, VecDeque};
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
    /// No question was asked about this call, or the question is forgotten, because a thousand others were closed
    /// after it.
    NotAsked,
    /// The answer is an "always" in a scope that the question did not offer.
    NotOffered,
}

/// Maximum number of closed questions whose end is remembered, for late answers.
const MAX_CLOSED_QUESTIONS: usize = 1000;

/// The questions of one session.
#[derive(Default)]
pub struct Questions {
    /// States of the questions. The lock makes sure that only one of an answer, an expiry, a withdrawal and a hand-over
    /// closes an open question.
    states: Mutex<QuestionStates>,
}

#[derive(Default)]
struct QuestionStates {
    /// State of each open question, and of those closed last, by the call's id.
    by_call: HashMap<String, QuestionState>,
    /// Ids of the calls whose question is answered or withdrawn, the first closed first.
    closed: VecDeque<String>,
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

impl QuestionStates {
    /// Returns `true` if the question about a call waits for its answer.
    fn is_open(&self, call: &str) -> bool {
        matches!(self.by_call.get(call), Some(QuestionState::Open { .. }))
    }

    /// Replaces the state of the open question about a call by `state`, which closes the question, and returns the
    /// state before. Forgets the question that was closed first if too many are remembered.
    fn close(&mut self, call: &str, state: QuestionState) -> Option<QuestionState> {
        let before = self.by_call.insert(call.to_owned(), state);
        self.closed.push_back(call.to_owned());
        if self.closed.len() > MAX_CLOSED_QUESTIONS
            && let Some(oldest) = self.closed.pop_front()
        {
            let is_closed = |state: &QuestionState| {
                matches!(state, QuestionState::Answered { .. } | QuestionState::Withdrawn)
            };
            // The same call id may have a newer question, which is still open. The state of an open question stays.
            if self.by_call.get(&oldest).is_some_and(is_closed) {
                self.by_call.remove(&oldest);
            }
        }
        before
    }
}

impl Questions {
    /// Opens a question. Must happen before the question is announced: a fast answer would be lost.
    pub(super) fn open(&self, asked: Arc<CallStarted>) -> oneshot::Receiver<(Answer, Origin)> {
        let (sender, receiver) = oneshot::channel();
        let call = asked.call.id.clone();
        let open = QuestionState::Open { asked, answer: sender };
        self.states.lock().by_call.insert(call, open);
        receiver
    }

    /// Answers the question about a call; the first answer counts.
    pub(crate) fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        let mut questions = self.states.lock();
        match questions.by_call.get(call).ok_or(AnswerError::NotAsked)? {
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
        if let Some(QuestionState::Open { answer: waiting, .. }) = questions.close(call, answered) {
            // If the turn is ending, the receiver may be gone, and the call does not run.
            drop(waiting.send((answer, by)));
        }
        Ok(())
    }

    /// Returns `true` if the question about a call still waits for its answer.
    pub fn is_open(&self, call: &str) -> bool {
        self.states.lock().is_open(call)
    }

    /// Returns the calls whose question is open, in no order.
    pub fn open_now(&self) -> Vec<Arc<CallStarted>> {
        let open = |state: &QuestionState| match state {
            QuestionState::Open { asked, .. } => Some(Arc::clone(asked)),
            QuestionState::Answered { .. }
            | QuestionState::HandedOver { .. }
            | QuestionState::Withdrawn => None,
        };
        self.states.lock().by_call.values().filter_map(open).collect()
    }

    /// Withdraws the question about a call and returns `true` if the question is open, else returns `false`. Before the
    /// withdrawal is visible, calls `first` under the lock.
    pub(crate) fn expire(&self, call: &str, first: impl FnOnce()) -> bool {
        let mut questions = self.states.lock();
        if !questions.is_open(call) {
            return false;
        }
        first();
        questions.close(call, QuestionState::Withdrawn);
        true
    }

    /// Leaves all open questions to another process, if each of `calls` has one: no answer counts in this process any
    /// more, and its turn waits for ever. Returns `false`, and changes nothing, if one of `calls` has no open question,
    /// or if `calls` is empty.
    pub(crate) fn hand_over(&self, calls: &BTreeSet<String>) -> bool {
        let mut questions = self.states.lock();
        if calls.is_empty() || !calls.iter().all(|call| questions.is_open(call)) {
            return false;
        }
        for state in questions.by_call.values_mut() {
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
        let mut questions = self.states.lock();
        first();
        let all = questions.by_call.keys();
        let open: Vec<_> = all.filter(|call| questions.is_open(call)).cloned().collect();
        for call in open {
            questions.close(&call, QuestionState::Withdrawn);
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

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tandem_approval::Question;
    use tandem_host::{Access, Summary, ToolKind};
    use tandem_model::Call;

    use super::*;
    use crate::session::events::event::Caller;

    fn asked(id: usize) -> Arc<CallStarted> {
        Arc::new(CallStarted {
            call: Call { id: id.to_string(), name: "t".to_owned(), args: Value::Null },
            caller: Caller::Model,
            kind: ToolKind::Other,
            summary: Summary::default(),
            access: Access::Nothing,
            question: Some(Question::default()),
        })
    }

    #[test]
    fn the_questions_closed_last_are_remembered_and_those_before_are_forgotten() {
        let questions = Questions::default();
        let _waiting = questions.open(asked(0));
        for id in 1..=MAX_CLOSED_QUESTIONS + 2 {
            let _answer = questions.open(asked(id));
            if id % 2 == 0 {
                questions.answer(&id.to_string(), Answer::Reject, Origin::Editor).unwrap();
            } else {
                assert!(questions.expire(&id.to_string(), || ()));
            }
        }
        let late = |id: usize| questions.answer(&id.to_string(), Answer::Reject, Origin::Editor);
        assert_eq!(late(2), Err(AnswerError::NotAsked));
        assert_eq!(late(3), Err(AnswerError::Withdrawn));
        assert!(matches!(late(4), Err(AnswerError::AlreadyAnswered { .. })));
        assert_eq!(questions.states.lock().by_call.len(), MAX_CLOSED_QUESTIONS + 1);
        assert_eq!(late(0), Ok(()), "an open question stays, however old it is");
    }
}
