//! Turns that go on in another process than the one that began them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::session::events::event::{Event, Origin, PromptPart, TurnId};
use crate::session::events::log::Log;
use crate::session::state::session_state::SessionState;
use crate::session::state::turn_progress::{ResumePlace, ResumePolicy};
use tandem_trace::TraceContext;

/// Turns of a stored session that go on.
#[derive(Default)]
pub(crate) struct Resumption {
    /// The turn that ran, and where it goes on.
    pub(crate) running: Option<(ResumedTurn, ResumePlace)>,
    pub(crate) waiting: VecDeque<ResumedTurn>,
}

/// A turn as it was queued.
pub(crate) struct ResumedTurn {
    pub(crate) turn: TurnId,
    pub(crate) prompt: Arc<[PromptPart]>,
    pub(crate) origin: Origin,
    /// Place in the trace of the request that it was queued by.
    pub(crate) trace: TraceContext,
}

/// Returns whether the turns that have not ended go on. If the one that ran does not, no other does: what
/// waits was said with that in mind.
pub(super) fn goes_on(state: &SessionState, policy: ResumePolicy) -> bool {
    match state.running {
        Some(_) => state.progress.may_go_on(policy),
        None => policy != ResumePolicy::Never && !state.waiting.is_empty(),
    }
}

/// Finds the turns that have not ended in a log that leads to this state. Reads all of the log.
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
        running: running.map(|turn| (turn, state.progress.place())),
        waiting: queued.into_values().collect(),
    }
}
