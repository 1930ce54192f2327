//! The turns of a session, one after the other: queued, started, cancelled.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tracing::Instrument as _;

use super::command::{self, Commands};
use super::{spans, turn};
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::{Event, Origin, PromptPart, PromptTags, StopReason, TurnId};
use crate::session::persistence::resumption::{ResumedTurn, Resumption};
use crate::session::persistence::workspace_saving;
use crate::session::state::turn_progress::{ResumePlace, ResumePolicy};
use parking_lot::Mutex;
use tandem_trace::TraceContext;

/// Maximum number of notices that are kept for the next turn.
const MAX_NOTICES: usize = 20;

/// The turns of a session, which run one after the other.
pub struct TurnQueue {
    engine: Arc<Engine>,
    commands: Arc<dyn Commands>,
    /// "A turn runs" and the log's word on it change under this lock, which is taken before those of the
    /// state, the questions and the log.
    turns: Mutex<Turns>,
}

/// The turns that have not ended.
#[derive(Default)]
struct Turns {
    running: Option<Pending>,
    /// Place where the turn that runs goes on, until it does.
    resumes_at: Option<ResumePlace>,
    queue: VecDeque<Pending>,
    /// Ends the saving of the workspace after the turn that runs, once that has begun.
    saving: Option<CancellationToken>,
    /// Notices that people are shown when the next turn starts.
    notices: Vec<String>,
    /// Fires when no turn starts any more.
    closed: CancellationToken,
    /// Reason why no turn starts any more, if people are told.
    closed_because: Option<String>,
}

impl Turns {
    /// Returns the stop reason of a turn: if it was cancelled because the session is closed, that.
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
struct Pending {
    turn: TurnId,
    prompt: Arc<[PromptPart]>,
    origin: Origin,
    cancel: CancellationToken,
    /// Place in the trace of the request that the turn was queued by.
    trace: TraceContext,
    /// Time that a question of the turn has waited in vain, if that is why the turn is cancelled.
    unanswered: Option<Duration>,
}

impl From<ResumedTurn> for Pending {
    fn from(ResumedTurn { turn, prompt, origin, trace }: ResumedTurn) -> Self {
        let cancel = CancellationToken::new();
        Self { turn, prompt, origin, cancel, trace, unanswered: None }
    }
}

impl TurnQueue {
    /// Makes a queue of the turns that another process has left, which wait until they [go on](Self::go_on).
    /// The notices are shown when the first one starts.
    pub(in crate::session) fn new(
        engine: &Arc<Engine>,
        commands: Arc<dyn Commands>,
        notices: Vec<String>,
        resumption: Resumption,
    ) -> Arc<Self> {
        let Resumption { running, waiting } = resumption;
        let (running, resumes_at) = running.map(|(turn, place)| (turn.into(), place)).unzip();
        let queue = waiting.into_iter().map(Pending::from).collect();
        let turns = Turns { running, resumes_at, queue, notices, ..Turns::default() };
        Arc::new(Self { engine: Arc::clone(engine), commands, turns: Mutex::new(turns) })
    }

    /// Goes on with the turns that another process has left.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let mut turns = self.turns.lock();
        match (turns.running.clone(), turns.resumes_at.take()) {
            (Some(running), Some(place)) => {
                self.engine.log.append(Event::TurnResumed { turn: running.turn });
                self.run(running, place);
            }
            _ => self.start_next(&mut turns),
        }
    }

    /// Returns the slash commands.
    pub(crate) fn commands(&self) -> &Arc<dyn Commands> {
        &self.commands
    }

    /// Queues a turn. Its end is an [`Event::TurnFinished`] of the same number.
    pub(crate) fn push(
        self: &Arc<Self>,
        prompt: Vec<PromptPart>,
        origin: Origin,
        mut tags: PromptTags,
    ) -> TurnId {
        let trace = TraceContext::current();
        tags.trace = trace.fields().into_iter().collect();
        // Held until the turn has started: turns are numbered, and in the log, in the order they run.
        let mut turns = self.turns.lock();
        let turn = TurnId(self.engine.state.look(|state| state.turns) + 1);
        let queued =
            Event::TurnQueued { turn, prompt: prompt.clone(), origin: origin.clone(), tags };
        self.engine.log.append(queued);
        if self.replies_at_once(&turns, turn, &prompt, &origin) {
            return turn;
        }
        let cancel = CancellationToken::new();
        let prompt = prompt.into();
        turns.queue.push_back(Pending { turn, prompt, origin, cancel, trace, unanswered: None });
        self.start_next(&mut turns);
        turn
    }

    /// Returns `true` if a prompt is a command that is carried out at once beside the turn that runs. Without such a
    /// turn, none is.
    pub fn is_at_once(&self, prompt: &[PromptPart]) -> bool {
        self.runs_beside(&self.turns.lock(), prompt)
    }

    fn runs_beside(&self, turns: &Turns, prompt: &[PromptPart]) -> bool {
        turns.running.is_some()
            && !turns.closed.is_cancelled()
            && command::is_at_once(&*self.commands, prompt)
    }

    /// Carries out the command of a turn that need not wait for the one that runs, and ends it. Returns `false`
    /// if the turn must wait, or may begin.
    fn replies_at_once(
        &self,
        turns: &Turns,
        turn: TurnId,
        prompt: &[PromptPart],
        origin: &Origin,
    ) -> bool {
        if !self.runs_beside(turns, prompt) {
            return false;
        }
        let reply = command::run_at_once(&self.engine, &*self.commands, prompt, origin);
        let Some(text) = reply else { return false };
        self.engine.log.append(Event::CommandReplied { turn, text });
        let reason = StopReason::EndTurn;
        self.engine.log.append(Event::TurnFinished { turn, reason });
        true
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
        self.engine.log.append(Event::TurnStarted { turn: next.turn });
        for notice in turns.notices.drain(..) {
            self.engine.log.append(Event::Notice(notice));
        }
        self.run(next, ResumePlace::Beginning);
    }

    /// Runs a turn from some place on.
    fn run(self: &Arc<Self>, next: Pending, from: ResumePlace) {
        let queue = Arc::clone(self);
        let span = spans::turn(&self.engine.id, next.turn, &next.prompt, &next.trace);
        let run = async move {
            let Pending { turn, prompt, origin, cancel, .. } = &next;
            let current = CurrentTurn { origin, cancel };
            let run = async {
                if !queue.engine.may_begin().await {
                    return Err(StopReason::Cancelled { answering: false });
                }
                workspace_saving::restore(&queue.engine, cancel).await?;
                Ok(turn::run_from(from, &queue.engine, queue.commands(), current, prompt).await)
            };
            let run = run.map(|ran| ran.unwrap_or_else(|reason| reason));
            let reason = AssertUnwindSafe(run).catch_unwind().await.unwrap_or(StopReason::Crashed);
            queue.engine.tools.free();
            // Whoever reads of the turn's end can rely on that.
            let reason = queue.save_workspace(reason, cancel).await;
            let mut turns = queue.turns.lock();
            turns.saving = None;
            let unanswered = turns.running.take().and_then(|ended| ended.unanswered);
            let reason = match (reason, unanswered) {
                (StopReason::Cancelled { .. }, Some(waited)) => StopReason::Unanswered(waited),
                (reason, _) => turns.reason(reason),
            };
            spans::turn_ended(&reason);
            queue.engine.log.append(Event::TurnFinished { turn: *turn, reason });
            queue.start_next(&mut turns);
        };
        tokio::spawn(run.instrument(span));
    }

    /// Saves the workspace after the turn that runs; returns the reason of the turn's end, which is another one if
    /// the turn is cancelled now.
    async fn save_workspace(&self, reason: StopReason, cancel: &CancellationToken) -> StopReason {
        if self.engine.workspace.is_none() {
            return reason;
        }
        let was_cancelled = matches!(reason, StopReason::Cancelled { .. });
        // The workspace of a turn that was cancelled is saved all the same, until it is cancelled once more.
        let saving = if was_cancelled { CancellationToken::new() } else { cancel.clone() };
        self.turns.lock().saving = Some(saving.clone());
        workspace_saving::save(&self.engine, &saving).await;
        if saving.is_cancelled() && !was_cancelled {
            return StopReason::Cancelled { answering: false };
        }
        reason
    }

    /// Records the end of a turn that only waited.
    fn cancelled(&self, turns: &Turns, turn: TurnId) {
        let reason = turns.reason(StopReason::Cancelled { answering: false });
        self.engine.log.append(Event::TurnFinished { turn, reason });
    }

    /// Tells people something that came up by itself: now if a turn runs, else in the next.
    pub(crate) fn tell(&self, notice: String) {
        let mut turns = self.turns.lock();
        if turns.running.is_some() {
            self.engine.log.append(Event::Notice(notice));
        } else if turns.notices.len() < MAX_NOTICES {
            turns.notices.push(notice);
        }
    }

    /// Tells the model something with the next results of calls, if a turn runs, and people at once.
    /// Returns `false` if none runs.
    pub fn steer(&self, text: &str) -> bool {
        let turns = self.turns.lock();
        if turns.running.as_ref().is_none_or(|running| running.cancel.is_cancelled()) {
            return false;
        }
        self.engine.log.append(Event::Notice(format!("Said meanwhile: {text}")));
        let told = format!("\n\n[The user says meanwhile: {text}]");
        self.engine.log.append(Event::ToldNext(told));
        true
    }

    /// Returns the turn that runs.
    pub fn running(&self) -> Option<TurnId> {
        self.turns.lock().running.as_ref().map(|running| running.turn)
    }

    /// Returns `true` if a turn runs or waits.
    pub fn is_pending(&self, turn: TurnId) -> bool {
        let turns = self.turns.lock();
        turns.running.iter().chain(&turns.queue).any(|pending| pending.turn == turn)
    }

    /// Returns the number of turns that wait.
    pub fn waiting(&self) -> usize {
        self.turns.lock().queue.len()
    }

    /// Ends a turn that runs or waits; its end follows as an event, after that of one before it
    /// that is ending too. Returns `false` if it has ended.
    pub(crate) fn cancel(&self, turn: TurnId) -> bool {
        let mut turns = self.turns.lock();
        match &turns.running {
            Some(running) if running.turn == turn => {
                self.cancel_running(running);
                turns.saving.iter().for_each(CancellationToken::cancel);
                true
            }
            _ => self.cancel_waiting(&mut turns, turn),
        }
    }

    /// Takes a turn back that waits. Returns `false` if it has begun.
    pub fn take_back(&self, turn: TurnId) -> bool {
        self.cancel_waiting(&mut self.turns.lock(), turn)
    }

    fn cancel_waiting(&self, turns: &mut Turns, turn: TurnId) -> bool {
        let ending = turns.running.as_ref().is_some_and(|running| running.cancel.is_cancelled());
        let Some(at) = turns.queue.iter().position(|queued| queued.turn == turn) else {
            return false;
        };
        if ending {
            turns.queue[at].cancel.cancel();
        } else {
            turns.queue.remove(at);
            self.cancelled(turns, turn);
        }
        true
    }

    /// Ends the turn that runs because nobody has answered what it asks about a call. Returns `false`
    /// if somebody has.
    pub fn expire(&self, call: &str, waited: Duration) -> bool {
        let questions = &self.engine.approvals.questions;
        let mut turns = self.turns.lock();
        let Some(running) = &mut turns.running else { return false };
        let expired = questions.expire(call, || running.cancel.cancel());
        if expired {
            running.unanswered = Some(waited);
            questions.withdraw(|| ());
        }
        expired
    }

    fn cancel_running(&self, running: &Pending) {
        self.engine.approvals.questions.withdraw(|| running.cancel.cancel());
    }

    /// Cancels every turn and lets none start; the turns that it ends say why, if a reason is given.
    pub(crate) fn close(self: &Arc<Self>, why: Option<&str>) {
        let mut turns = self.turns.lock();
        turns.closed.cancel();
        if turns.closed_because.is_none() {
            turns.closed_because = why.map(ToOwned::to_owned);
        }
        if let Some(running) = &turns.running {
            self.cancel_running(running);
        }
        // It starts none any more: if no turn runs, nobody else would record the end of those that wait.
        self.start_next(&mut turns);
    }

    /// Leaves the turn that runs, and those that wait, to another process, if all that the turn does is to wait for
    /// answers, and another process goes on with it: no answer counts any more, and no turn starts. Returns `false` if
    /// the turn does more, or would not go on.
    pub(crate) fn hand_over(&self, policy: ResumePolicy) -> bool {
        let turns = self.turns.lock();
        if turns.running.as_ref().is_none_or(|running| running.cancel.is_cancelled()) {
            return false;
        }
        let asked = self.engine.state.look(|state| {
            let only_asks = state.progress.is_between_calls() && state.progress.may_go_on(policy);
            only_asks.then(|| state.open_questions.clone())
        });
        asked.is_some_and(|asked| self.engine.approvals.questions.hand_over(&asked))
    }

    /// Lets no turn start any more, unless one runs or waits. Returns `false` if one does.
    pub(crate) fn close_if_idle(&self) -> bool {
        let turns = self.turns.lock();
        let is_idle = turns.running.is_none() && turns.queue.is_empty();
        if is_idle {
            turns.closed.cancel();
        }
        is_idle
    }

    /// Waits until the session is [closed](crate::session::Session::close).
    pub fn closed(&self) -> WaitForCancellationFutureOwned {
        self.turns.lock().closed.clone().cancelled_owned()
    }

    /// Waits until no turn runs, and so none waits, and people are shown that.
    pub async fn idle(&self) {
        let mut log = self.engine.log.read(self.engine.log.len());
        while self.running().is_some() {
            log.next().await;
        }
        // Of a session that another process has, nobody is shown more.
        let _ = self.engine.log.kept(self.engine.log.len().saturating_sub(1)).await;
    }
}
