//! Resumption of turns: finds the turns of a stored session that another process began, and that go on in this
//! process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::session::events::event::{Event, Origin, PromptPart, TurnId};
use crate::session::events::log::Log;
use crate::session::state::session_state::SessionState;
use crate::session::state::turn_progress::{ResumePlace, ResumePolicy};
use tandem_trace::TraceContext;

/// Turns of a stored session that are resumed.
#[derive(Default)]
pub(crate) struct Resumption {
    /// The turn that ran, and the step at which it continues.
    pub(crate) running: Option<(ResumedTurn, ResumePlace)>,
    /// The turns that waited, oldest first.
    pub(crate) waiting: VecDeque<ResumedTurn>,
}

/// A turn that is resumed, with the data that it was queued with.
pub(crate) struct ResumedTurn {
    pub(crate) turn: TurnId,
    pub(crate) prompt: Arc<[PromptPart]>,
    pub(crate) origin: Origin,
    /// Place in the trace of the request that queued the turn.
    pub(crate) trace: TraceContext,
}

/// Returns `true` if the turns that have not ended are resumed. If the turn that ran is not resumed, the turns that
/// wait are not either, because their prompts were written with the running turn in mind.
pub(super) fn goes_on(state: &SessionState, policy: ResumePolicy) -> bool {
    match state.running {
        Some(_) => state.progress.may_go_on(policy),
        None => policy != ResumePolicy::Never && !state.waiting.is_empty(),
    }
}

/// Finds the turns of a log that have not ended; `state` is the state after the whole log. Reads the whole log.
pub(super) fn find(log: &Log, state: &SessionState) -> Resumption {
    let open: BTreeSet<TurnId> = state.running.iter().chain(&state.waiting).copied().collect();
    let (mut log, mut queued) = (log.read(0), BTreeMap::new());
    while let Some(entry) = log.try_next_entry() {
        if let Event::TurnQueued { turn, prompt, origin, tags } = &*entry.event
            && open.contains(turn)
        {
            let trace = TraceContext::read(|name| tags.trace.get(name).map(String::as_str));
            let (turn, prompt, origin) = (*turn, prompt.clone().into(), origin.clone());
            queued.insert(turn, ResumedTurn { turn, prompt, origin, trace });
        }
    }
    let running = state.running.and_then(|turn| queued.remove(&turn));
    Resumption {
        running: running.map(|turn| (turn, state.progress.resume_place())),
        waiting: queued.into_values().collect(),
    }
}
