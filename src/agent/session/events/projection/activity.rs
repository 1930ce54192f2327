//! The activity of a session at one moment.

use super::turn::CallRecord;
use crate::session::events::event::Event;
use crate::session::events::log::Millis;
use tandem_model::Retry;

/// Activity of a session.
#[derive(Debug, Clone, Copy)]
pub enum Activity<'a> {
    /// No turn runs.
    Idle,
    /// A request has failed and is sent again; the time of the next attempt.
    Retrying(&'a Retry, Millis),
    /// The oldest open question waits for an answer.
    AwaitingAnswer(&'a CallRecord),
    /// A call runs; of several calls, the one that started last.
    Calling(&'a CallRecord),
    /// The model writes its answer; the time of the turn's start.
    Answering(Millis),
    /// The model reasons; the time of the turn's start.
    Thinking(Millis),
    /// A command runs; its name, and the time of the turn's start.
    Command(&'a str, Millis),
    /// The model is asked and has written nothing yet; the time of the turn's start.
    AwaitingModel(Millis),
}

/// Kind of text that the model can be writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Answer,
    Thought,
}

/// Returns the kind of text that the model is writing after this event; `None` if it is writing none.
pub(super) fn voice_after(voice: Option<Voice>, event: &Event) -> Option<Voice> {
    match event {
        Event::Text(text) if voice == Some(Voice::Answer) || !text.trim().is_empty() => {
            Some(Voice::Answer)
        }
        Event::Thought(_) => Some(Voice::Thought),
        // A notice, an output or a call is shown as a block of its own, which ends the text above it.
        Event::Text(_)
        | Event::TurnStarted { .. }
        | Event::TurnResumed { .. }
        | Event::TurnFinished { .. }
        | Event::Output(_)
        | Event::CommandFailed(_)
        | Event::CommandReplied { .. }
        | Event::Retry(_)
        | Event::Notice(_)
        | Event::Compressed(_)
        | Event::AnswerFinished { .. }
        | Event::CallStarted(_) => None,
        _ => voice,
    }
}
