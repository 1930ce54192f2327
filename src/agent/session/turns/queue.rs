//! The queue of a session's turns, which run one after the other: queuing, starting, cancelling, closing.

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

/// Maximum number of notices that wait for the next turn. Further notices are dropped.
const MAX_NOTICES: usize = 20;

/// The queue of a session's turns, which run one after the other.
pub struct TurnQueue {
    engine: Arc<Engine>,
    commands: Arc<dyn Commands>,
    /// The turns that have not ended. A change of them and the events that log it are made under this lock. The lock is
    /// taken before the locks of the state, the questions and the log.
    turns: Mutex<Turns>,
}

/// The turns that have not ended.
#[derive(Default)]
struct Turns {
    running: Option<Pending>,
    /// Place where the running turn of another process is resumed; `None` once it has resumed.
    resumes_at: Option<ResumePlace>,
    queue: VecDeque<Pending>,
    /// Token that cancels the save of the workspace after the running turn; `None` until that save begins.
    saving: Option<CancellationToken>,
    /// Notices that people are shown when the next turn starts.
    notices: Vec<String>,
    /// Token that fires when the session is closed: no further turn starts.
    closed: CancellationToken,
    /// Reason for the close, which people are told of the turns that the close ends; `None` if these turns are only
    /// cancelled.
    closed_because: Option<String>,
}

impl Turns {
    /// Returns the stop reason to log for a turn. If the session was closed for a reason, a cancellation becomes
    /// `StopReason::Closed` with that reason.
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
    /// Position in the trace of the request that queued the turn.
    trace: TraceContext,
    /// Time that a question of the turn has waited, if the turn is cancelled because no answer came.
    unanswered: Option<Duration>,
}

impl From<ResumedTurn> for Pending {
    fn from(ResumedTurn { turn, prompt, origin, trace }: ResumedTurn) -> Self {
        let cancel = CancellationToken::new();
        Self { turn, prompt, origin, cancel, trace, unanswered: None }
    }
}

impl TurnQueue {
    /// Makes a queue with the turns that another process has left. They wait until [`Self::go_on`] is called. People
    /// are shown `notices` when the first turn starts.
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

    /// Resumes the turns that another process has left.
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

    /// Queues a turn and returns its number. The turn ends with an [`Event::TurnFinished`] of the same number.
    pub(crate) fn push(
        self: &Arc<Self>,
        prompt: Vec<PromptPart>,
        origin: Origin,
        mut tags: PromptTags,
    ) -> TurnId {
        let trace = TraceContext::current();
        tags.trace = trace.fields().into_iter().collect();
        // The lock is held until the turn is queued, or has started: turns are numbered and logged in the order in
        // which they run.
        let mut turns = self.turns.lock();
        let turn = TurnId(self.engine.state.with_state(|state| state.turns) + 1);
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

    /// Returns `true` if a prompt is a command that would run at once, beside the running turn. If no turn runs, no
    /// command runs this way.
    pub fn is_at_once(&self, prompt: &[PromptPart]) -> bool {
        self.runs_beside(&self.turns.lock(), prompt)
    }

    fn runs_beside(&self, turns: &Turns, prompt: &[PromptPart]) -> bool {
        turns.running.is_some()
            && !turns.closed.is_cancelled()
            && command::is_at_once(&*self.commands, prompt)
    }

    /// Runs the command of a new turn beside the running turn, if that command need not wait, and ends the new turn.
    /// Returns `false` if the new turn must be queued.
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

    /// Starts the turn that has waited longest, if no turn runs. Ends the turns before it that were cancelled; if the
    /// session is closed, ends all waiting turns.
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

    /// Spawns the task that runs a turn, whose start or resumption is logged already:
    ///
    /// 1. Waits until the turn may begin, and restores the workspace.
    /// 2. Runs the turn from the place `from`. A panic ends it as `StopReason::Crashed`.
    /// 3. Saves the workspace.
    /// 4. Logs the turn's end, and starts the next turn.
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
            queue.engine.tools.drop_catalog();
            // The save comes before the turn's end is logged: whoever reads the end can rely on the save.
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

    /// Saves the workspace after the running turn. Returns the turn's stop reason, which becomes
    /// `StopReason::Cancelled` if the turn is cancelled during the save.
    async fn save_workspace(&self, reason: StopReason, cancel: &CancellationToken) -> StopReason {
        if self.engine.workspace.is_none() {
            return reason;
        }
        let was_cancelled = matches!(reason, StopReason::Cancelled { .. });
        // The token of a cancelled turn has fired already. The turn's workspace is saved nevertheless, under another
        // token, which a second cancel fires.
        let saving = if was_cancelled { CancellationToken::new() } else { cancel.clone() };
        self.turns.lock().saving = Some(saving.clone());
        workspace_saving::save(&self.engine, &saving).await;
        if saving.is_cancelled() && !was_cancelled {
            return StopReason::Cancelled { answering: false };
        }
        reason
    }

    /// Logs the end of a waiting turn, which never starts.
    fn cancelled(&self, turns: &Turns, turn: TurnId) {
        let reason = turns.reason(StopReason::Cancelled { answering: false });
        self.engine.log.append(Event::TurnFinished { turn, reason });
    }

    /// Shows people a notice that no turn has caused: at once if a turn runs, else when the next turn starts.
    pub(crate) fn tell(&self, notice: String) {
        let mut turns = self.turns.lock();
        if turns.running.is_some() {
            self.engine.log.append(Event::Notice(notice));
        } else if turns.notices.len() < MAX_NOTICES {
            turns.notices.push(notice);
        }
    }

    /// Passes a user's text to the model with the next results of calls, and shows it to people at once. Returns
    /// `false` if no turn runs, or the running turn is cancelled.
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

    /// Returns the running turn, if a turn runs.
    pub fn running(&self) -> Option<TurnId> {
        self.turns.lock().running.as_ref().map(|running| running.turn)
    }

    /// Returns `true` if a turn runs or waits.
    pub fn is_pending(&self, turn: TurnId) -> bool {
        let turns = self.turns.lock();
        turns.running.iter().chain(&turns.queue).any(|pending| pending.turn == turn)
    }

    /// Returns the number of waiting turns.
    pub fn waiting(&self) -> usize {
        self.turns.lock().queue.len()
    }

    /// Cancels a turn that runs or waits. The turn's end follows as an event; the end of a waiting turn comes after
    /// that of a running turn that is being cancelled. Returns `false` if the turn has ended.
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

    /// Cancels a waiting turn. Returns `false` if the turn does not wait any more.
    pub fn take_back(&self, turn: TurnId) -> bool {
        self.cancel_waiting(&mut self.turns.lock(), turn)
    }

    fn cancel_waiting(&self, turns: &mut Turns, turn: TurnId) -> bool {
        let ending = turns.running.as_ref().is_some_and(|running| running.cancel.is_cancelled());
        let Some(at) = turns.queue.iter().position(|queued| queued.turn == turn) else {
            return false;
        };
        // The running turn was cancelled first, but its end is not logged yet. `start_next` logs the end of this turn
        // after it.
        if ending {
            turns.queue[at].cancel.cancel();
        } else {
            turns.queue.remove(at);
            self.cancelled(turns, turn);
        }
        true
    }

    /// Cancels the running turn because its question about the call `call` has no answer after the time `waited`.
    /// Returns `false` if that question is not open any more, or no turn runs.
    pub fn expire(&self, call: &str, waited: Duration) -> bool {
        let questions = &self.engine.approvals.questions;
        let mut turns = self.turns.lock();
        let Some(running) = &mut turns.running else { return false };
        // `expire` runs the closure while it holds the lock of the questions. So the questions accept no answer from a
        // client after the turn is cancelled.
        let expired = questions.expire(call, || running.cancel.cancel());
        if expired {
            running.unanswered = Some(waited);
            questions.withdraw(|| ());
        }
        expired
    }

    fn cancel_running(&self, running: &Pending) {
        // `withdraw` runs the closure while it holds the lock of the questions. So the questions accept no answer from
        // a client after the turn is cancelled.
        self.engine.approvals.questions.withdraw(|| running.cancel.cancel());
    }

    /// Cancels all turns and lets no further turn start. If a reason is given, the turns that this cancels end with
    /// `StopReason::Closed` and that reason.
    pub(crate) fn close(self: &Arc<Self>, why: Option<&str>) {
        let mut turns = self.turns.lock();
        turns.closed.cancel();
        if turns.closed_because.is_none() {
            turns.closed_because = why.map(ToOwned::to_owned);
        }
        if let Some(running) = &turns.running {
            self.cancel_running(running);
        }
        // `closed` has fired, so this starts no turn, but it logs the ends of the waiting turns. If a turn runs, its
        // task does so when the turn has ended.
        self.start_next(&mut turns);
    }

    /// Leaves the running turn and the waiting turns to another process, if the running turn only waits for answers and
    /// `policy` lets the other process resume it. From then on no answer counts here, and no turn starts. Returns
    /// `false` if the running turn does more, or would not be resumed, or if no turn runs.
    pub(crate) fn hand_over(&self, policy: ResumePolicy) -> bool {
        let turns = self.turns.lock();
        if turns.running.as_ref().is_none_or(|running| running.cancel.is_cancelled()) {
            return false;
        }
        let asked = self.engine.state.with_state(|state| {
            let only_asks = state.progress.is_between_calls() && state.progress.may_go_on(policy);
            only_asks.then(|| state.open_questions.clone())
        });
        asked.is_some_and(|asked| self.engine.approvals.questions.hand_over(&asked))
    }

    /// Closes the queue, so that no further turn starts, unless a turn runs or waits. Returns `false` if one does.
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

    /// Waits until no turn runs or waits, and front ends can read the end of the last turn.
    pub async fn idle(&self) {
        let mut log = self.engine.log.read(self.engine.log.len());
        while self.running().is_some() {
            log.next().await;
        }
        // `false` means that no further event is stored, for example because another process has the session. Front
        // ends then read nothing more, so there is nothing to wait for.
        let _ = self.engine.log.wait_persisted(self.engine.log.len().saturating_sub(1)).await;
    }
}
