//! Records of turns and calls, and the status of a call.

use std::sync::Arc;

use crate::session::events::event::{CallStarted, Origin, StopReason, ToolOutcome, TurnId};
use crate::session::events::log::{Entry, Millis};
use tandem_approval::{Answer, Decision};

/// One turn, from the queue to its end.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Number of the turn.
    pub id: TurnId,
    /// Prompt as one text.
    pub prompt: String,
    /// Front end that the prompt came from; `None` if the turn was queued before the reader joined.
    pub origin: Option<Origin>,
    /// Log index and time of the queueing; of the start, if the turn was queued before the reader joined.
    pub queued: (usize, Millis),
    /// Time of the start; `None` if the turn has not started yet.
    pub started: Option<Millis>,
    /// Log index of the turn's end, and the reason.
    pub ended: Option<(usize, StopReason)>,
    /// Time of the last change of the turn's state, answers or questions.
    pub changed_at: Millis,
    /// Name of the command, if the turn runs one.
    pub command: Option<String>,
    /// Texts of the model's answers and of a command's outputs, each as Markdown; only in a
    /// complete projection.
    pub answers: Vec<String>,
    /// Ids of the calls that wait for an answer, oldest first.
    pub questions: Vec<String>,
}

impl TurnRecord {
    /// Makes the record of a turn that is known from this entry on.
    pub(super) fn new(id: TurnId, entry: &Entry) -> Self {
        Self {
            id,
            prompt: String::new(),
            origin: None,
            queued: (entry.index, entry.at),
            started: None,
            ended: None,
            changed_at: entry.at,
            command: None,
            answers: Vec::new(),
            questions: Vec::new(),
        }
    }
}

/// One call that has begun.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// Log index of the call's start; `None` if the call started before the reader joined.
    pub index: Option<usize>,
    /// Turn that the call is part of, if the turn is known.
    pub turn: Option<TurnId>,
    /// Announcement of the call.
    pub started: Arc<CallStarted>,
    /// Status of the call.
    pub status: CallStatus,
    /// Time at which the call started, or at which its question was closed. 0 if neither has happened since the reader
    /// joined.
    pub since: Millis,
}

impl CallRecord {
    pub(super) fn new(
        index: Option<usize>,
        turn: Option<TurnId>,
        since: Millis,
        started: &Arc<CallStarted>,
    ) -> Self {
        let status = CallStatus::of_start(started);
        Self { index, turn, started: Arc::clone(started), status, since }
    }
}

/// Status of a call, for every front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// A question about the call is open.
    AwaitingAnswer,
    /// The call runs.
    Running,
    /// The call has succeeded.
    Succeeded,
    /// The call failed, or a rule did not allow it.
    Failed,
    /// The user rejected the call.
    Rejected,
    /// The turn was cancelled before the call ended.
    Cancelled,
    /// The agent's process ended before the call did.
    Interrupted,
    /// The call ended in a way that only another version of this program knows.
    Unknown,
}

impl CallStatus {
    /// Returns the status of a call that begins.
    pub fn of_start(started: &CallStarted) -> Self {
        if started.question.is_some() { Self::AwaitingAnswer } else { Self::Running }
    }

    /// Returns the status of a call whose question is closed: by this answer, or by the turn's end (`None`).
    pub fn of_answer(answer: Option<&Answer>) -> Self {
        match answer.map(Answer::decision) {
            Some(decision) if decision.runs() => Self::Running,
            Some(Decision::Reject(_)) => Self::Rejected,
            Some(Decision::CancelTurn) | None => Self::Cancelled,
            Some(_) => Self::Failed,
        }
    }

    /// Returns the status of a call that has ended.
    pub fn of_outcome(outcome: &ToolOutcome) -> Self {
        match outcome {
            ToolOutcome::Done(_) => Self::Succeeded,
            ToolOutcome::Failed(_) => Self::Failed,
            ToolOutcome::Rejected => Self::Rejected,
            ToolOutcome::Cancelled => Self::Cancelled,
            ToolOutcome::Interrupted => Self::Interrupted,
            ToolOutcome::Unknown(outcome) if outcome.is_done() => Self::Succeeded,
            ToolOutcome::Unknown(_) => Self::Unknown,
        }
    }
}
