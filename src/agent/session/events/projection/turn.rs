//! Records of turns and calls, and the status of a call.

use std::sync::Arc;

use crate::session::events::event::{CallStarted, Origin, StopReason, ToolOutcome, TurnId};
use crate::session::events::log::{Entry, Millis};
use tandem_policy::{Answer, Decision};

/// One turn, from the queue to its end.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Number of the turn.
    pub id: TurnId,
    /// Prompt as one text.
    pub prompt: String,
    /// Front end that the prompt came from; `None` if it was queued before the reader joined.
    pub origin: Option<Origin>,
    /// Log index and time at which it was queued, as far as the reader knows.
    pub queued: (usize, Millis),
    /// Time at which it started.
    pub started: Option<Millis>,
    /// Log index of its end, and the reason.
    pub ended: Option<(usize, StopReason)>,
    /// Time of the last change of its state, its answers or its questions.
    pub changed_at: Millis,
    /// Name of the command, if the turn is one's.
    pub command: Option<String>,
    /// Texts of the model's answers and of a command's outputs, each as Markdown; only in a
    /// complete projection.
    pub answers: Vec<String>,
    /// Ids of the calls that wait for an answer, oldest first.
    pub questions: Vec<String>,
}

impl TurnRecord {
    /// A turn that is known from this entry on.
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
    /// Log index of its start; `None` if that was before the reader joined.
    pub index: Option<usize>,
    /// Turn that it is part of, if that is known.
    pub turn: Option<TurnId>,
    /// Announcement of the call.
    pub started: Arc<CallStarted>,
    /// Status of the call.
    pub status: CallStatus,
    /// Time at which it started, or its question was closed.
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
    /// A question about it is open.
    AwaitingAnswer,
    /// It runs.
    Running,
    /// It has done what it was called for.
    Succeeded,
    /// It did not work, or was not allowed by a rule.
    Failed,
    /// The user did not want it.
    Rejected,
    /// The turn was cancelled first.
    Cancelled,
    /// The agent was stopped first.
    Interrupted,
    /// It ended in a way that only another version of this program knows.
    Unknown,
}

impl CallStatus {
    /// Returns the status of a call that begins.
    pub fn of_start(started: &CallStarted) -> Self {
        if started.question.is_some() { Self::AwaitingAnswer } else { Self::Running }
    }

    /// Returns the status of a call whose question is closed: by this answer, or by the turn's end.
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
