//! Progress of a turn, as far as going on with it in another process depends on that.

use std::collections::BTreeSet;

use crate::session::events::event::{Caller, Event, ToolOutcome};
use tandem_model::FinishReason;

/// Number of times that a turn goes on without a whole answer in between: it may be the turn that ends
/// the processes.
const MOST_RESUMED: u32 = 3;

/// Turns that go on after the process that ran them was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumePolicy {
    /// None does.
    #[default]
    Never,
    /// Those in which no call had begun, and not ended, that may have changed something.
    Safe,
    /// Those with such a call, too: the model is told that the call may have had part of its effect.
    Always,
}

/// Progress of a turn, as far as going on with it in another process depends on that.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TurnProgress {
    /// `true` if a command does something itself, or what the user typed is run: that is not done twice.
    acts: bool,
    /// `true` if what the model is told first is whole.
    is_told: bool,
    /// Reason of the end of the last answer, if that asks for no calls.
    ended: Option<FinishReason>,
    /// Calls that may change something, and are asked about.
    asked: BTreeSet<String>,
    /// Calls that may have changed something, and have not ended.
    begun: BTreeSet<String>,
    /// Number of times that the turn has gone on since the last whole answer.
    resumed: u32,
}

impl TurnProgress {
    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            // A turn that ends may be one that only waited while this one runs.
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
                let runs = answer.as_ref().is_some_and(|(answer, _)| answer.decision().runs());
                if self.asked.remove(call) && runs {
                    self.begun.insert(call.clone());
                }
            }
            // One that was interrupted may have changed something, whoever has noted that; one that ended in
            // a way of another version, too.
            Event::CallFinished { outcome: ToolOutcome::Interrupted, .. } => {}
            Event::CallFinished { outcome: ToolOutcome::Unknown(outcome), .. }
                if !outcome.is_done() => {}
            Event::CallFinished { call, .. } => _ = self.begun.remove(call),
            _ => {}
        }
    }

    /// Returns whether the turn goes on in another process.
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

    /// Returns the place where the turn goes on.
    pub(crate) fn place(&self) -> ResumePlace {
        match &self.ended {
            Some(reason) => ResumePlace::End(reason.clone()),
            None if self.is_told => ResumePlace::Model,
            None => ResumePlace::Beginning,
        }
    }
}

/// Place in a turn from which it goes on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResumePlace {
    /// The beginning: the files that the prompt mentions are read first.
    Beginning,
    /// The next request to the model.
    Model,
    /// The end, for this reason: all has been said.
    End(FinishReason),
}
