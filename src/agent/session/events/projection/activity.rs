//! The activity of a session: what goes on in it now.

use super::turn::CallRecord;
use crate::session::events::event::Event;
use crate::session::events::log::Millis;
use tandem_model::Retry;

/// Activity of a session.
#[derive(Debug, Clone, Copy)]
pub enum Activity<'a> {
    /// No turn runs.
    Idle,
    /// A request has failed and is sent again at this time.
    Retrying(&'a Retry, Millis),
    /// The oldest open question waits for an answer.
    AwaitingAnswer(&'a CallRecord),
    /// A call runs; of several, the one that started last.
    Calling(&'a CallRecord),
    /// The model writes its answer; since when the turn runs.
    Answering(Millis),
    /// The model reasons; since when the turn runs.
    Thinking(Millis),
    /// A command runs; its name, and since when the turn runs.
    Command(&'a str, Millis),
    /// The model is asked and has written nothing yet; since when the turn runs.
    AwaitingModel(Millis),
}

/// Text that the model can be writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Answer,
    Thought,
}

/// Returns what the model is writing after this event.
pub(super) fn voice_after(voice: Option<Voice>, event: &Event) -> Option<Voice> {
    match event {
        Event::Text(text) if voice == Some(Voice::Answer) || !text.trim().is_empty() => {
            Some(Voice::Answer)
        }
        Event::Thought(_) => Some(Voice::Thought),
        // A notice, an output or a call is shown by itself: what was being written stands above it.
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
