//! Updates: the meaning of a log entry for people, without a word of a protocol or a screen.

use std::borrow::Cow;
use std::sync::Arc;

use crate::session::events::event::{
    CallStarted, Compressed, Origin, StopReason, ToolOutcome, TurnId,
};
use crate::session::events::log::Millis;
use tandem_model::{Retry, Usage};
use tandem_policy::{Answer, Mode};

/// Meaning of one entry of the log for people.
#[derive(Debug, Clone)]
pub struct Update<'a> {
    /// Log index of the entry.
    pub index: usize,
    /// Time of the entry.
    pub at: Millis,
    /// Turn that it is part of: of an update on one turn of several that turn, else the one that ran
    /// last. `None` if that started before the reader joined.
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
    /// The turn is a command's, of this name.
    CommandStarted(&'a str),
    /// Another process goes on with the turn.
    TurnResumed {
        /// `true` if text of the answer that was shown is void.
        restarts: bool,
    },
    /// The command asks the model: what follows is an answer.
    CommandAsked,
    /// The model's answer goes on: Markdown.
    Text(&'a str),
    /// The model's reasoning goes on: Markdown.
    Thought(&'a str),
    /// A command's output: Markdown.
    Output(&'a str),
    /// A command has failed, for this reason: Markdown.
    CommandFailed(&'a str),
    /// A command has replied, in whose turn it is not: Markdown. The turn that runs goes on.
    CommandReplied(&'a str),
    /// A request is tried again.
    Retry {
        /// Reason, delay and number of the attempt.
        retry: &'a Retry,
        /// `true` if text of the answer that was shown is void.
        restarts: bool,
    },
    /// Something that people should know.
    Note {
        /// Plain text.
        text: Cow<'a, str>,
        /// Compression of the conversation that it tells of, if it was one.
        compressed: Option<&'a Compressed>,
    },
    /// The answer is whole, and cost this.
    AnswerFinished(&'a Usage),
    /// A call is at its next step.
    Call(Arc<CallStarted>, CallStep<'a>),
    /// The turn has ended.
    TurnFinished(&'a StopReason),
    /// The conversation begins anew.
    Forgotten,
    /// The conversation goes back to before this turn.
    Rewound(TurnId),
    /// The session has another title from now on.
    SessionRenamed(&'a str),
    /// Another model answers from now on: its id.
    ModelChanged(&'a str),
    /// The model thinks this much from now on; `None`: as much as without a choice.
    ThinkingChanged(Option<&'a str>),
    /// Another mode holds from now on.
    ModeChanged(Mode),
}

/// A step of a call. Calls that never began have none.
#[derive(Debug, Clone, Copy)]
pub enum CallStep<'a> {
    /// It begins: with the question that the announcement has, or at once.
    Started,
    /// It runs, and all that it has put out so far is this.
    Progress(&'a str),
    /// Its question is closed: by an answer and whose, or by the turn's end.
    QuestionClosed(Option<(&'a Answer, &'a Origin)>),
    /// It has ended.
    Finished(&'a ToolOutcome),
}

/// Text of the model's newest answer, for front ends that give it out whole.
#[derive(Debug, Default)]
pub struct LastAnswer {
    /// Markdown.
    pub text: String,
    /// `true` if more of it may come.
    open: bool,
}

impl LastAnswer {
    /// Takes in an update.
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
