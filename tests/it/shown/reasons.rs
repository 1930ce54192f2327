//! Reasons why a front end shows nothing of an event.

use tandem_agent::session::{Event, StopReason};

use super::Case;

/// The columns in their order.
const OLD: usize = 0;
const NEW: usize = 1;
const A2A: usize = 2;
const TERMINAL: usize = 3;
const PRINT: usize = 4;

const ALL: &[usize] = &[OLD, NEW, A2A, TERMINAL, PRINT];

type Reasons = Vec<(&'static [usize], &'static str)>;

/// Returns the empty columns of a case, with the reasons. Fails to compile for a variant without an entry here.
pub(super) fn of(case: &Case) -> Reasons {
    match &case.event {
        Event::SessionStarted(_) => vec![(ALL, "who opens a session is told of it by the answer")],
        Event::SystemPrompt(_)
        | Event::InstructionsTold(_)
        | Event::Told { .. }
        | Event::ToldNext(_)
        | Event::Masked(_)
        | Event::MessageCompleted => vec![(ALL, "only the model is told")],
        Event::AlwaysAllowed { .. } | Event::AlwaysRemoved { .. } => {
            vec![(ALL, "the answer or the command that it comes from is shown")]
        }
        Event::FileChanged { .. } | Event::FileRestored { .. } => {
            vec![(ALL, "the call or the command that changes the file is shown")]
        }
        Event::Task(_) => vec![(ALL, "state that only the A2A server needs")],
        Event::WorkspaceSaved(_) => {
            vec![(ALL, "the end of the turn, which follows, tells A2A clients")]
        }
        Event::ToolsLimited { .. } => vec![(ALL, "`/tools` lists the tools that are left")],
        Event::CommandStarted { .. } | Event::Asked(_) | Event::Forgotten => {
            vec![(ALL, "the command's output says what people need")]
        }
        Event::Rewound { .. } => vec![(ALL, "the command's output says what people need")],
        Event::TurnQueued { .. } => vec![(&[OLD, NEW], "shown when it starts")],
        Event::TurnStarted { .. } if case.own => vec![(&[OLD, NEW], "the editor has the prompt")],
        Event::TurnStarted { .. } => vec![(&[PRINT], "it shows its own turn only")],
        Event::TurnFinished { reason, .. } if !case.own => of_anothers(reason),
        Event::Output(_)
        | Event::Compressed(_)
        | Event::Text(_)
        | Event::Retry(_)
        | Event::TurnResumed { .. }
        | Event::Notice(_)
        | Event::CommandReplied { .. }
        | Event::CallStarted(_)
        | Event::CallFinished { .. }
        | Event::TurnFinished { .. }
        | Event::Unknown(_) => Vec::new(),
        Event::CommandFailed(_) => vec![(&[PRINT], "it is told at the end, with the exit code")],
        Event::Thought(_) => vec![(&[PRINT], "it is no part of the answer")],
        Event::CallProgress { .. } => vec![(&[PRINT], "the call's end is told")],
        Event::SessionRenamed { .. } => {
            vec![(&[OLD, PRINT], NOWHERE), (&[A2A], "a task has no title")]
        }
        Event::ModelChanged { .. } => {
            vec![(&[OLD, PRINT], NOWHERE), (&[A2A], "each update names the model")]
        }
        Event::ThinkingChanged { .. } => vec![
            (&[OLD, A2A, PRINT], NOWHERE),
            (&[TERMINAL], "the status line has it where the model has levels"),
        ],
        Event::ModeChanged { .. } => vec![(&[OLD, A2A, PRINT], NOWHERE)],
        Event::AnswerFinished { .. } => {
            vec![(&[OLD, A2A], NOWHERE), (&[PRINT], "tokens are told at the end, with `json`")]
        }
        Event::QuestionClosed { answer, .. } => {
            let mut reasons: Reasons = vec![
                (&[OLD], "it cannot withdraw a question; the call's end is shown"),
                (&[PRINT], "the call's end is told"),
            ];
            if answer.is_none() {
                reasons.push((&[A2A], "the end of the call and of the turn follow at once"));
            }
            reasons
        }
    }
}

/// Reason of front ends whose format has no place for the event.
const NOWHERE: &str = "there is no place for it";

/// Returns the reasons for the end of a turn that another front end began.
fn of_anothers(reason: &StopReason) -> Reasons {
    let print: (&[usize], &str) = (&[PRINT], "it shows its own turn only");
    match reason {
        StopReason::Unanswered(_)
        | StopReason::MaxTokens
        | StopReason::MaxRounds(_)
        | StopReason::MaxSessionRounds(_)
        | StopReason::Looping(_)
        | StopReason::Refused(_) => vec![print],
        StopReason::EndTurn
        | StopReason::Cancelled { .. }
        | StopReason::Closed { .. }
        | StopReason::SchemaMismatch(_)
        | StopReason::Failed(_)
        | StopReason::Crashed
        | StopReason::Interrupted
        | StopReason::Unknown(_) => {
            vec![(&[OLD], "only the answer to the prompt tells, where it was begun"), print]
        }
    }
}
