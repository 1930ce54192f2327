//! Updates: the meaning of a log entry for people, independent of any protocol or screen.

use std::borrow::Cow;
use std::sync::Arc;

use crate::session::events::event::{
    CallStarted, Compressed, Origin, StopReason, ToolOutcome, TurnId,
};
use crate::session::events::log::Millis;
use tandem_approval::{Answer, Mode};
use tandem_model::{Retry, Usage};

/// Meaning of one entry of the log for people.
#[derive(Debug, Clone)]
pub struct Update<'a> {
    /// Log index of the entry.
    pub index: usize,
    /// Time of the entry.
    pub at: Millis,
    /// Turn that the update is part of: the turn that the event names, else the turn that ran last. `None` if the turn
    /// that ran last started before the reader joined.
    pub turn: Option<TurnId>,
    /// Kind of the update.
    pub kind: UpdateKind<'a>,
}

/// Kind of an update. Details of turns and calls are in the projection.
#[derive(Debug, Clone)]
pub enum UpdateKind<'a> {
    /// A prompt waits for its turn.
    TurnQueued(&'a Origin),
    /// The turn has started.
    TurnStarted,
    /// The turn runs the command of this name.
    CommandStarted(&'a str),
    /// Another process resumes the turn.
    TurnResumed {
        /// `true` if text of the answer that was shown is void.
        restarts: bool,
    },
    /// The command asks the model: the text that follows is an answer.
    CommandAsked,
    /// The model's answer goes on: Markdown.
    Text(&'a str),
    /// The model's reasoning goes on: Markdown.
    Thought(&'a str),
    /// A command's output: Markdown.
    Output(&'a str),
    /// A command has failed, for this reason: Markdown.
    CommandFailed(&'a str),
    /// A command that ran without waiting for its turn has replied: Markdown. The running turn, if any, goes on.
    CommandReplied(&'a str),
    /// A request is tried again.
    Retry {
        /// Reason, delay and number of the attempt.
        retry: &'a Retry,
        /// `true` if text of the answer that was shown is void.
        restarts: bool,
    },
    /// A text that people should know.
    Note {
        /// Plain text.
        text: Cow<'a, str>,
        /// The compression, if the text tells people of a compression.
        compressed: Option<&'a Compressed>,
    },
    /// The answer is complete; the tokens that it cost.
    AnswerFinished(&'a Usage),
    /// A call has reached its next step.
    Call(Arc<CallStarted>, CallStep<'a>),
    /// The turn has ended.
    TurnFinished(&'a StopReason),
    /// The conversation begins anew.
    Forgotten,
    /// The conversation goes back to the state before this turn.
    Rewound(TurnId),
    /// The session has another title from now on.
    SessionRenamed(&'a str),
    /// Another model answers from now on: its id.
    ModelChanged(&'a str),
    /// The model reasons at this level from now on; `None`: at the model's default level.
    ThinkingChanged(Option<&'a str>),
    /// Another approval mode holds from now on.
    ModeChanged(Mode),
}

/// A step of a call. A call that never began has no steps.
#[derive(Debug, Clone, Copy)]
pub enum CallStep<'a> {
    /// The call begins: with the question in its announcement, or at once if the announcement has none.
    Started,
    /// The call runs; its whole output so far.
    Progress(&'a str),
    /// The call's question is closed: by this answer of this origin, or by the turn's end (`None`).
    QuestionClosed(Option<(&'a Answer, &'a Origin)>),
    /// The call has ended.
    Finished(&'a ToolOutcome),
}

/// Text of the model's newest answer, for front ends that output an answer as a whole.
#[derive(Debug, Default)]
pub struct LastAnswer {
    /// Markdown.
    pub text: String,
    /// `true` if more text of the answer may come.
    open: bool,
}

impl LastAnswer {
    /// Applies an update to the text.
    pub fn apply(&mut self, update: &UpdateKind<'_>) {
        match update {
            UpdateKind::Text(more) => {
                if !std::mem::replace(&mut self.open, true) {
                    self.text.clear();
                }
                self.text.push_str(more);
            }
            UpdateKind::Retry { restarts: true, .. }
            | UpdateKind::TurnResumed { restarts: true } => self.text.clear(),
            UpdateKind::AnswerFinished(_) | UpdateKind::TurnStarted => self.open = false,
            _ => {}
        }
    }
}
