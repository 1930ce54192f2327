//! Updates: the meaning of a log entry for people, without a word of a protocol or a screen.

use std::borrow::Cow;
use std::sync::Arc;

use super::Projection;
use crate::permission::Mode;
use crate::session::event::{Answer, CallStarted, Event, Origin, StopReason, ToolOutcome, TurnId};
use crate::session::log::{Entry, Millis};
use tandem_model::{Retry, Usage};

/// Note in place of an event that this version does not know.
const NEWER: &str = "Something happened that is not shown: another version of tandem wrote it.";

/// Meaning of one entry of the log for people.
#[derive(Debug, Clone)]
pub struct Update<'a> {
    /// Log index of the entry.
    pub index: usize,
    /// Time of the entry.
    pub at: Millis,
    /// Turn that it is part of: of a queue's or an end's update that turn, else the one that ran
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
        /// Tokens of the request that it tells of, if it was one.
        usage: Option<&'a Usage>,
    },
    /// The answer is whole, and cost this.
    AnswerFinished(&'a Usage),
    /// A call is at its next step.
    Call(Arc<CallStarted>, CallStep<'a>),
    /// The turn has ended.
    TurnFinished(&'a StopReason),
    /// The conversation begins anew.
    Forgotten,
    /// Another model answers from now on: its id.
    ModelChanged(&'a str),
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

pub(super) fn of<'a>(projection: &Projection, entry: &'a Entry) -> Option<Update<'a>> {
    let turn = match &*entry.event {
        Event::TurnQueued { turn, .. } | Event::TurnFinished { turn, .. } => Some(*turn),
        _ => projection.running_at(entry.index),
    };
    let kind = kind(projection, entry)?;
    Some(Update { index: entry.index, at: entry.at, turn, kind })
}

fn kind<'a>(projection: &Projection, entry: &'a Entry) -> Option<UpdateKind<'a>> {
    let call = |id: &str, step| {
        let started = &projection.call(id)?.started;
        Some(UpdateKind::Call(Arc::clone(started), step))
    };
    Some(match &*entry.event {
        Event::TurnQueued { origin, .. } => UpdateKind::TurnQueued(origin),
        Event::TurnStarted { .. } => UpdateKind::TurnStarted,
        Event::CommandStarted { name } => UpdateKind::CommandStarted(name),
        Event::Asked(_) => UpdateKind::CommandAsked,
        Event::Text(text) => UpdateKind::Text(text),
        Event::Thought(text) => UpdateKind::Thought(text),
        Event::Output(text) => UpdateKind::Output(text),
        Event::CommandFailed(why) => UpdateKind::CommandFailed(why),
        Event::Retry(retry) => {
            UpdateKind::Retry { retry, restarts: projection.restarts_at(entry.index) }
        }
        Event::Notice(notice) => UpdateKind::Note { text: notice.into(), usage: None },
        Event::Compressed(short) => {
            UpdateKind::Note { text: short.to_string().into(), usage: Some(&short.usage) }
        }
        Event::AnswerFinished { usage, .. } => UpdateKind::AnswerFinished(usage),
        Event::CallStarted(started) => {
            // Who joined late knows the call already.
            projection.call(&started.call.id).filter(|call| call.index == Some(entry.index))?;
            UpdateKind::Call(Arc::clone(started), CallStep::Started)
        }
        Event::CallProgress { call: id, output } => return call(id, CallStep::Progress(output)),
        Event::QuestionClosed { call: id, answer } => {
            let answer = answer.as_ref().map(|(answer, by)| (answer, by));
            return call(id, CallStep::QuestionClosed(answer));
        }
        Event::CallFinished { call: id, outcome } => return call(id, CallStep::Finished(outcome)),
        Event::TurnFinished { reason, .. } => UpdateKind::TurnFinished(reason),
        Event::Forgotten => UpdateKind::Forgotten,
        Event::ModelChanged { model } => UpdateKind::ModelChanged(model),
        Event::ModeChanged { mode, .. } => UpdateKind::ModeChanged(*mode),
        Event::Unknown(_) => UpdateKind::Note { text: NEWER.into(), usage: None },
        // For the model, for `/undo` or for what goes on after a restart: people are told by the call or the command.
        Event::Told { .. }
        | Event::ToldNext(_)
        | Event::Masked(_)
        | Event::SessionStarted(_)
        | Event::SystemPrompt(_)
        | Event::AlwaysAllowed { .. }
        | Event::AlwaysRemoved { .. }
        | Event::Task(_)
        | Event::FileChanged { .. }
        | Event::FileRestored { .. } => return None,
    })
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
            UpdateKind::Retry { restarts: true, .. } => self.text.clear(),
            UpdateKind::AnswerFinished(_) | UpdateKind::TurnStarted => self.open = false,
            _ => {}
        }
    }
}
