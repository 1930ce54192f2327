//! The turns of a session, one after the other: queued, started, cancelled.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::event::{Event, Origin, PromptPart, PromptTags, StopReason, TurnId};
use super::{Session, turn};

/// The turns that have not ended. "A turn runs" and the log's word on it change under one lock.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) running: Option<Pending>,
    queue: VecDeque<Pending>,
    /// Fires when no turn starts any more.
    closed: CancellationToken,
    /// Why not, if people are told.
    closed_because: Option<String>,
}

impl Turns {
    /// Why a turn has ended: if it was cancelled because the session is closed, that.
    fn reason(&self, reason: StopReason) -> StopReason {
        match (reason, &self.closed_because) {
            (StopReason::Cancelled { answering }, Some(why)) => {
                StopReason::Closed { answering, why: why.clone() }
            }
            (reason, _) => reason,
        }
    }
}

/// A turn that has not ended.
#[derive(Clone)]
pub(super) struct Pending {
    turn: TurnId,
    prompt: Arc<[PromptPart]>,
    pub(super) origin: Origin,
    cancel: CancellationToken,
    /// Time that a question of the turn has waited in vain, if that is why the turn is cancelled.
    unanswered: Option<Duration>,
}

impl Session {
    /// Queues a turn. Its end is an [`Event::TurnFinished`] of the same number.
    pub fn prompt(self: &Arc<Self>, prompt: Vec<PromptPart>, origin: Origin) -> TurnId {
        self.prompt_tagged(prompt, origin, PromptTags::default())
    }

    /// Queues a turn with what the front end has to know of it later.
    pub fn prompt_tagged(
        self: &Arc<Self>,
        prompt: Vec<PromptPart>,
        origin: Origin,
        tags: PromptTags,
    ) -> TurnId {
        let mut turns = self.turns.lock();
        let turn = TurnId(self.state(|state| state.turns) + 1);
        let queued =
            Event::TurnQueued { turn, prompt: prompt.clone(), origin: origin.clone(), tags };
        self.log.append(queued);
        let cancel = CancellationToken::new();
        let prompt = prompt.into();
        turns.queue.push_back(Pending { turn, prompt, origin, cancel, unanswered: None });
        self.start_next(&mut turns);
        turn
    }

    /// Starts the turn that has waited longest, if none runs.
    fn start_next(self: &Arc<Self>, turns: &mut Turns) {
        if turns.running.is_some() {
            return;
        }
        let next = loop {
            let Some(next) = turns.queue.pop_front() else { return };
            if !turns.closed.is_cancelled() && !next.cancel.is_cancelled() {
                break next;
            }
            self.cancelled(turns, next.turn);
        };
        turns.running = Some(next.clone());
        self.log.append(Event::TurnStarted { turn: next.turn });
        for notice in self.notices.lock().drain(..) {
            self.log.append(Event::Notice(notice));
        }
        let session = Arc::clone(self);
        tokio::spawn(async move {
            let run = turn::run(&session, &next.prompt, &next.cancel);
            let reason = AssertUnwindSafe(run).catch_unwind().await.unwrap_or(StopReason::Crashed);
            let mut turns = session.turns.lock();
            let unanswered = turns.running.take().and_then(|ended| ended.unanswered);
            let reason = match (reason, unanswered) {
                (StopReason::Cancelled { .. }, Some(waited)) => StopReason::Unanswered(waited),
                (reason, _) => turns.reason(reason),
            };
            session.log.append(Event::TurnFinished { turn: next.turn, reason });
            session.start_next(&mut turns);
        });
    }

    /// A turn that only waited has ended.
    fn cancelled(&self, turns: &Turns, turn: TurnId) {
        let reason = turns.reason(StopReason::Cancelled { answering: false });
        self.log.append(Event::TurnFinished { turn, reason });
    }

    /// The turn that runs.
    pub fn running(&self) -> Option<TurnId> {
        self.turns.lock().running.as_ref().map(|running| running.turn)
    }

    /// Returns whether a turn runs or waits.
    pub fn pending(&self, turn: TurnId) -> bool {
        let turns = self.turns.lock();
        turns.running.iter().chain(&turns.queue).any(|pending| pending.turn == turn)
    }

    /// Returns the number of turns that wait.
    pub fn waiting(&self) -> usize {
        self.turns.lock().queue.len()
    }

    /// Ends a turn that runs or waits; its end follows as an event, after that of one before it
    /// that is ending too. False if it has ended.
    pub fn cancel(self: &Arc<Self>, turn: TurnId) -> bool {
        let mut turns = self.turns.lock();
        let ending = match &turns.running {
            Some(running) if running.turn == turn => {
                self.cancel_running(running);
                return true;
            }
            Some(running) => running.cancel.is_cancelled(),
            None => false,
        };
        let Some(at) = turns.queue.iter().position(|queued| queued.turn == turn) else {
            return false;
        };
        if ending {
            turns.queue[at].cancel.cancel();
        } else {
            turns.queue.remove(at);
            self.cancelled(&turns, turn);
        }
        true
    }

    /// Ends the turn that runs because nobody has answered what it asks about a call. False if
    /// somebody has.
    pub fn expire(&self, call: &str, waited: Duration) -> bool {
        let mut turns = self.turns.lock();
        let Some(running) = &mut turns.running else { return false };
        let expired = self.approvals.questions.expire(call, || running.cancel.cancel());
        if expired {
            running.unanswered = Some(waited);
            self.approvals.questions.withdraw();
        }
        expired
    }

    /// Takes a turn back that waits. False if it has begun.
    pub fn take_back(self: &Arc<Self>, turn: TurnId) -> bool {
        self.running() != Some(turn) && self.cancel(turn)
    }

    fn cancel_running(&self, running: &Pending) {
        running.cancel.cancel();
        self.approvals.questions.withdraw();
    }

    /// Cancels every turn and lets none start; MCP servers are let go, and what runs in the
    /// background is ended, commands and a summary.
    pub fn close(self: &Arc<Self>) {
        self.end_turns(None);
    }

    /// The same; the turns that it ends say why.
    pub fn close_because(self: &Arc<Self>, why: &str) {
        self.end_turns(Some(why));
    }

    fn end_turns(self: &Arc<Self>, why: Option<&str>) {
        let mut turns = self.turns.lock();
        turns.closed.cancel();
        if turns.closed_because.is_none() {
            turns.closed_because = why.map(ToOwned::to_owned);
        }
        if let Some(running) = &turns.running {
            self.cancel_running(running);
        }
        self.start_next(&mut turns);
        drop(turns);
        self.servers.close();
        self.host.background.end();
        self.compression.summary.end();
    }

    /// Returns whether the turn that runs was asked for by another agent.
    pub(super) fn runs_for_agent(&self) -> bool {
        let turns = self.turns.lock();
        turns.running.as_ref().is_some_and(|turn| matches!(turn.origin, Origin::A2a(_)))
    }

    /// Waits until the session is [closed](Self::close).
    pub fn closed(&self) -> WaitForCancellationFutureOwned {
        self.turns.lock().closed.clone().cancelled_owned()
    }

    /// Waits until no turn runs, and so none waits.
    pub async fn idle(&self) {
        let mut log = self.log.read(self.log.len());
        while self.running().is_some() {
            log.next().await;
        }
    }
}
