//! A live conversation, driven and watched by any number of front ends.
//!
//! A front end holds an `Arc<Session>` and calls it: [`Session::prompt`], [`Session::cancel`],
//! [`Session::answer`]. What happens it learns from [`Session::events`] alone, and so does every
//! other front end, in one order.

mod call;
mod event;
mod gate;
mod log;
mod mention;
mod prompt;
mod question;
mod toolbox;
mod transcript;
mod turn;

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use self::call::ProgressAt;
pub use self::event::{
    Answer, CallStarted, Caller, Event, Origin, PromptPart, StopReason, ToolOutcome, TurnId,
};
use self::gate::Gate;
pub use self::gate::Watching;
pub use self::log::{Entry, Log, Millis, Reader};
pub use self::question::AnswerError;
use self::question::Questions;
use self::toolbox::Toolbox;
use self::transcript::Transcript;
use crate::model::{self, Call, Model};
pub use crate::model::{Error as ModelError, Retry};
use crate::permission::{Mode, Permissions};
pub use crate::permission::{Question, Scope};
use crate::sync::Mutex;
use crate::tools::process::Processes;
use crate::tools::workspace::Workspace;
pub use crate::tools::{
    Access, Content, FileDiff, Kind, Location, Summary, Todo, TodoStatus, ToolOutput,
};
use crate::tools::{Limits, Tool};

/// What a session is made of.
pub struct Parts {
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// What it may call.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The files.
    pub workspace: Arc<Workspace>,
    /// The programs.
    pub processes: Arc<Processes>,
    /// How much is allowed without a question.
    pub mode: Mode,
    /// How much is too much, for tools.
    pub limits: Limits,
    /// How often the model may be asked in one turn.
    pub max_rounds: usize,
}

/// A live conversation.
pub struct Session {
    model: Arc<dyn Model>,
    tools: Toolbox,
    /// Who the model is told to be, once it has been asked.
    system: OnceLock<Arc<str>>,
    workspace: Arc<Workspace>,
    processes: Arc<Processes>,
    limits: Arc<Limits>,
    max_rounds: usize,
    permissions: Arc<Permissions>,
    questions: Questions,
    gate: Gate,
    progress: ProgressAt,
    /// The ids that calls have had.
    call_ids: Mutex<HashSet<String>>,
    /// All that has happened; the only state that lasts.
    log: Log,
    transcript: Mutex<Transcript>,
    turns: Mutex<Turns>,
}

/// The turns that have not ended. "A turn runs" and the log's word on it change under one lock.
#[derive(Default)]
struct Turns {
    /// How many there have been.
    count: u64,
    running: Option<Pending>,
    queue: VecDeque<Pending>,
    /// No turn starts any more.
    closed: bool,
}

/// A turn that has not ended.
#[derive(Clone)]
struct Pending {
    turn: TurnId,
    prompt: Arc<[PromptPart]>,
    cancel: CancellationToken,
}

impl Session {
    /// An empty conversation.
    pub fn new(parts: Parts) -> Arc<Self> {
        let log = Log::default();
        Arc::new(Self {
            gate: Gate::default(),
            progress: ProgressAt::default(),
            call_ids: Mutex::default(),
            system: OnceLock::new(),
            permissions: Arc::new(Permissions::new(parts.mode, parts.workspace.roots())),
            questions: Questions::default(),
            transcript: Mutex::new(Transcript::new(log.read(0))),
            turns: Mutex::default(),
            log,
            model: parts.model,
            tools: Toolbox::new(parts.tools),
            workspace: parts.workspace,
            processes: parts.processes,
            limits: Arc::new(parts.limits),
            max_rounds: parts.max_rounds,
        })
    }

    /// Whether a model can be called, as far as is known without the network.
    pub fn ready(&self) -> Result<(), model::Error> {
        self.model.ready()
    }

    /// Queues a turn. Its end is an [`Event::TurnFinished`] of the same number.
    pub fn prompt(self: &Arc<Self>, prompt: Vec<PromptPart>, origin: Origin) -> TurnId {
        let mut turns = self.turns.lock();
        turns.count += 1;
        let turn = TurnId(turns.count);
        self.log.append(Event::TurnQueued { turn, prompt: prompt.clone(), origin });
        let cancel = CancellationToken::new();
        turns.queue.push_back(Pending { turn, prompt: prompt.into(), cancel });
        self.start_next(&mut turns);
        turn
    }

    /// Starts the turn that has waited longest, if none runs.
    fn start_next(self: &Arc<Self>, turns: &mut Turns) {
        if turns.running.is_some() {
            return;
        }
        let Some(next) = turns.queue.pop_front() else { return };
        if turns.closed || next.cancel.is_cancelled() {
            let reason = StopReason::Cancelled { answering: false };
            self.log.append(Event::TurnFinished { turn: next.turn, reason });
            return self.start_next(turns);
        }
        turns.running = Some(next.clone());
        self.log.append(Event::TurnStarted { turn: next.turn });
        let session = Arc::clone(self);
        tokio::spawn(async move {
            let run = turn::run(&session, &next.prompt, &next.cancel);
            let reason = AssertUnwindSafe(run).catch_unwind().await.unwrap_or(StopReason::Crashed);
            let mut turns = session.turns.lock();
            session.log.append(Event::TurnFinished { turn: next.turn, reason });
            turns.running = None;
            session.start_next(&mut turns);
        });
    }

    /// The turn that runs.
    pub fn running(&self) -> Option<TurnId> {
        self.turns.lock().running.as_ref().map(|running| running.turn)
    }

    /// Whether a turn runs or waits.
    pub fn pending(&self, turn: TurnId) -> bool {
        let turns = self.turns.lock();
        turns.running.iter().chain(&turns.queue).any(|pending| pending.turn == turn)
    }

    /// Ends a turn that runs or waits; its end follows as an event. False if it has ended.
    pub fn cancel(self: &Arc<Self>, turn: TurnId) -> bool {
        let mut turns = self.turns.lock();
        if let Some(running) = turns.running.as_ref().filter(|running| running.turn == turn) {
            running.cancel.cancel();
            return true;
        }
        let Some(at) = turns.queue.iter().position(|queued| queued.turn == turn) else {
            return false;
        };
        turns.queue.remove(at);
        let reason = StopReason::Cancelled { answering: false };
        self.log.append(Event::TurnFinished { turn, reason });
        true
    }

    /// Cancels every turn and lets none start.
    pub fn close(self: &Arc<Self>) {
        let mut turns = self.turns.lock();
        turns.closed = true;
        if let Some(running) = &turns.running {
            running.cancel.cancel();
        }
        self.start_next(&mut turns);
    }

    /// Waits until no turn runs.
    pub async fn idle(&self) {
        let mut log = self.log.read(0);
        while self.running().is_some() {
            log.next().await;
        }
    }

    /// Answers the question about a call; the first answer counts.
    pub fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        self.questions.answer(call, answer, by)
    }

    /// From now on, as long as the guard lives, a call that needs no question runs only when its
    /// front end says that it is [shown](Self::shown), or says nothing for two seconds.
    pub fn watch_calls(self: &Arc<Self>) -> Watching {
        Watching::new(self)
    }

    /// Tells that a call is shown to the user; or why it cannot be, and then it does not run.
    pub fn shown(&self, call: &str, shown: Result<(), String>) {
        self.gate.pass(call, shown);
    }

    /// All events from the index `from` on, past and to come.
    pub fn events(&self, from: usize) -> Reader {
        self.log.read(from)
    }

    /// How much is allowed without a question.
    pub fn mode(&self) -> Mode {
        self.permissions.mode()
    }

    /// The call, under an id that no other call of the session has.
    fn unique(&self, mut call: Call) -> Call {
        let mut ids = self.call_ids.lock();
        let mut n = ids.len();
        while call.id.is_empty() || ids.contains(&call.id) {
            n += 1;
            call.id = format!("{}-{n}", call.name);
        }
        ids.insert(call.id.clone());
        call
    }
}
