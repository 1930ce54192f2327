//! Progress of a turn, as far as it decides if and where another process resumes the turn.

use std::collections::BTreeSet;

use crate::session::events::event::{Caller, Event, ToolOutcome};
use tandem_approval::Decision;
use tandem_model::FinishReason;

/// Maximum number of times that a turn is resumed without a whole answer in between: the turn itself may be what kills
/// the processes.
const MOST_RESUMED: u32 = 3;

/// Policy on the turns that are resumed after the process that ran them was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumePolicy {
    /// No turn is resumed.
    #[default]
    Never,
    /// A turn is resumed if, when its process was killed, no call was running that may have changed something.
    Safe,
    /// A turn with such a call is resumed, too: the model is told that the call may have had part of its effect.
    Always,
}

/// Progress of a turn, as far as it decides if and where another process resumes the turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TurnProgress {
    /// `true` if a command acts by itself, or a command line of the user's runs. Such a turn is not resumed, because
    /// that would act twice.
    acts: bool,
    /// `true` if the first message to the model is complete.
    is_told: bool,
    /// Reason of the end of the last answer, if the answer requests no calls and nothing follows it.
    ended: Option<FinishReason>,
    /// Ids of the calls that may change something, and whose question is open.
    asked: BTreeSet<String>,
    /// Ids of the calls that may have changed something, and that have not ended.
    begun: BTreeSet<String>,
    /// Number of times that the turn was resumed since the last whole answer.
    resumed: u32,
}

impl TurnProgress {
    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            // The reset is here, and not at `TurnFinished`, because a turn may also end while it only waits and this
            // turn runs.
            Event::TurnStarted { .. } => *self = Self::default(),
            Event::TurnResumed { .. } => {
                self.asked.clear();
                self.begun.clear();
                self.resumed += 1;
            }
            Event::CommandStarted { .. } => self.acts = true,
            Event::Asked(_) => (self.acts, self.is_told, self.ended) = (false, true, None),
            Event::MessageCompleted => (self.is_told, self.ended) = (true, None),
            Event::Text(_) | Event::Thought(_) => self.ended = None,
            Event::AnswerFinished { calls, reason, .. } => {
                self.ended = calls.is_empty().then(|| reason.clone());
                self.resumed = 0;
            }
            Event::CallStarted(started) => {
                self.ended = None;
                if started.kind.only_reads() {
                    return;
                }
                self.acts |= started.caller == Caller::Prompt;
                let calls =
                    if started.question.is_some() { &mut self.asked } else { &mut self.begun };
                calls.insert(started.call.id.clone());
            }
            Event::QuestionClosed { call, answer } => {
                // The answers to questions of the model are the result of their call, which changes nothing.
                let changes = answer.as_ref().is_some_and(|(answer, _)| {
                    let decision = answer.decision();
                    decision.runs() && !matches!(decision, Decision::RunWithInput(_))
                });
                if self.asked.remove(call) && changes {
                    self.begun.insert(call.clone());
                }
            }
            // These calls stay in `begun`. An interrupted call may have changed something, whichever process has logged
            // the interruption; so may a call with an outcome that only another version knows.
            Event::CallFinished { outcome: ToolOutcome::Interrupted, .. } => {}
            Event::CallFinished { outcome: ToolOutcome::Unknown(outcome), .. }
                if !outcome.is_done() => {}
            Event::CallFinished { call, .. } => _ = self.begun.remove(call),
            _ => {}
        }
    }

    /// Returns `true` if another process resumes the turn.
    pub(crate) fn may_go_on(&self, policy: ResumePolicy) -> bool {
        let fits = match policy {
            ResumePolicy::Never => false,
            ResumePolicy::Safe => self.begun.is_empty(),
            ResumePolicy::Always => true,
        };
        fits && !self.acts && self.resumed < MOST_RESUMED
    }

    /// Returns `true` if no call runs that may have changed something.
    pub(crate) fn is_between_calls(&self) -> bool {
        self.begun.is_empty()
    }

    /// Returns the place where the turn is resumed.
    pub(crate) fn resume_place(&self) -> ResumePlace {
        match &self.ended {
            Some(reason) => ResumePlace::End(reason.clone()),
            None if self.is_told => ResumePlace::Model,
            None => ResumePlace::Beginning,
        }
    }
}

/// Place in a turn where it is resumed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResumePlace {
    /// The beginning: the files that the prompt mentions are read first.
    Beginning,
    /// The next request to the model.
    Model,
    /// The end, for this reason: the last answer is complete and requests no calls.
    End(FinishReason),
}
