//! A live conversation, driven and watched by any number of front ends.
//!
//! A front end holds an `Arc<Session>` and calls it: [`Session::prompt`], [`Session::cancel`],
//! [`Session::answer`]. What happens it learns from [`Session::events`] alone, and so does every
//! other front end, in one order.

mod call;
mod command;
mod consent;
mod event;
mod gate;
mod log;
mod memory;
mod mention;
mod prompt;
mod question;
mod toolbox;
mod transcript;
mod turn;

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use self::call::ProgressAt;
pub use self::command::{CommandTurn, Commands, Reply};
pub use self::event::{
    Answer, CallStarted, Caller, Event, Origin, PromptPart, StopReason, ToolOutcome, TurnId,
};
use self::gate::Gate;
pub use self::gate::Watching;
pub use self::log::{Entry, Log, Millis, Reader};
pub use self::memory::{FILE as MEMORY_FILE, Memory, MemoryFile};
use self::prompt::Instruction;
pub use self::question::AnswerError;
use self::question::Questions;
use self::toolbox::Toolbox;
use self::transcript::Transcript;
use crate::model::{self, Call, Model, Models};
pub use crate::model::{Error as ModelError, Retry, ToolDeclaration, Usage};
use crate::permission::Permissions;
use crate::permission::consent::Consent;
pub use crate::permission::{Mode, Question, Scope};
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
    /// Who else could.
    pub models: Arc<dyn Models>,
    /// What people have written for the model.
    pub memory: Memory,
    /// What a prompt can be but something for the model.
    pub commands: Arc<dyn Commands>,
    /// What it may call.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The files.
    pub workspace: Arc<Workspace>,
    /// The programs.
    pub processes: Arc<Processes>,
    /// How much is allowed without a question.
    pub mode: Mode,
    /// Whether what the project's own settings would run may be used.
    pub consent: Arc<Consent>,
    /// How much is too much, for tools.
    pub limits: Limits,
    /// How often the model may be asked in one turn.
    pub max_rounds: usize,
    /// How often it may be asked at all, if there is an end to that.
    pub max_session_rounds: Option<usize>,
    /// What people should know from the beginning: they are told in the first turn.
    pub notices: Vec<String>,
}

/// A live conversation.
pub struct Session {
    /// Changed only in a turn.
    model: Mutex<Arc<dyn Model>>,
    models: Arc<dyn Models>,
    commands: Arc<dyn Commands>,
    tools: Toolbox,
    memory: Arc<Memory>,
    /// Who the model is told to be, once that has been asked for.
    instruction: Mutex<Option<Arc<Instruction>>>,
    workspace: Arc<Workspace>,
    processes: Arc<Processes>,
    limits: Arc<Limits>,
    max_rounds: usize,
    max_session_rounds: Option<usize>,
    /// What people have not been told yet.
    notices: Mutex<Vec<String>>,
    permissions: Arc<Permissions>,
    consent: Arc<Consent>,
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
    origin: Origin,
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
            instruction: Mutex::default(),
            permissions: Arc::new(Permissions::new(parts.mode, parts.workspace.roots())),
            consent: parts.consent,
            questions: Questions::default(),
            transcript: Mutex::new(Transcript::new(log.read(0))),
            turns: Mutex::default(),
            log,
            model: Mutex::new(parts.model),
            models: parts.models,
            commands: parts.commands,
            memory: Arc::new(parts.memory),
            tools: Toolbox::new(parts.tools),
            workspace: parts.workspace,
            processes: parts.processes,
            limits: Arc::new(parts.limits),
            max_rounds: parts.max_rounds,
            max_session_rounds: parts.max_session_rounds,
            notices: Mutex::new(parts.notices),
        })
    }

    /// Whether a model can be called, as far as is known without the network.
    pub fn ready(&self) -> Result<(), model::Error> {
        self.answering().ready()
    }

    /// Whether a prompt is a command, which may need no model at all.
    pub fn is_command(&self, prompt: &[PromptPart]) -> bool {
        command::of(self, prompt).is_some()
    }

    /// Queues a turn. Its end is an [`Event::TurnFinished`] of the same number.
    pub fn prompt(self: &Arc<Self>, prompt: Vec<PromptPart>, origin: Origin) -> TurnId {
        let mut turns = self.turns.lock();
        turns.count += 1;
        let turn = TurnId(turns.count);
        let queued = Event::TurnQueued { turn, prompt: prompt.clone(), origin: origin.clone() };
        self.log.append(queued);
        let cancel = CancellationToken::new();
        turns.queue.push_back(Pending { turn, prompt: prompt.into(), origin, cancel });
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
            if !turns.closed && !next.cancel.is_cancelled() {
                break next;
            }
            self.cancelled(next.turn);
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
            session.log.append(Event::TurnFinished { turn: next.turn, reason });
            turns.running = None;
            session.start_next(&mut turns);
        });
    }

    /// A turn that only waited has ended.
    fn cancelled(&self, turn: TurnId) {
        let reason = StopReason::Cancelled { answering: false };
        self.log.append(Event::TurnFinished { turn, reason });
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

    /// How many turns wait.
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
            self.cancelled(turn);
        }
        true
    }

    fn cancel_running(&self, running: &Pending) {
        running.cancel.cancel();
        self.questions.withdraw();
    }

    /// Cancels every turn and lets none start.
    pub fn close(self: &Arc<Self>) {
        let mut turns = self.turns.lock();
        turns.closed = true;
        if let Some(running) = &turns.running {
            self.cancel_running(running);
        }
        self.start_next(&mut turns);
    }

    /// Waits until no turn runs.
    pub async fn idle(&self) {
        let mut log = self.log.read(self.log.len());
        while self.running().is_some() {
            log.next().await;
        }
    }

    /// Answers the question about a call; the first answer counts.
    pub fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        self.questions.answer(call, answer, by)
    }

    /// The calls that are asked about now, in no order.
    pub fn questions(&self) -> Vec<Arc<CallStarted>> {
        self.questions.open_now()
    }

    /// Whether the question about a call still waits for its answer.
    pub fn asks(&self, call: &str) -> bool {
        self.questions.is_open(call)
    }

    /// From now on, as long as the guard lives, a call that needs no question runs in turns of this
    /// origin only when it is [shown](Self::shown), or nothing is said of it for two seconds.
    pub fn watch_calls(self: &Arc<Self>, origin: Origin) -> Watching {
        Watching::new(self, origin)
    }

    /// A call of the running turn that is to be shown before it runs.
    fn gate(&self, call: &str) -> gate::Shown {
        let turns = self.turns.lock();
        match &turns.running {
            Some(running) => self.gate.open(call, &running.origin),
            None => gate::Shown::already(),
        }
    }

    /// Tells that a call is shown to the user; or why it cannot be, and then it does not run.
    pub fn shown(&self, call: &str, shown: Result<(), String>) {
        self.gate.pass(call, shown);
    }

    /// All events from the index `from` on, past and to come.
    pub fn events(&self, from: usize) -> Reader {
        self.log.read(from)
    }

    /// The id of the model that answers.
    pub fn model(&self) -> String {
        self.answering().id().to_owned()
    }

    fn answering(&self) -> Arc<dyn Model> {
        Arc::clone(&self.model.lock())
    }

    /// What the model may call.
    pub fn tools(&self) -> Arc<[ToolDeclaration]> {
        self.tools.declarations()
    }

    /// The directories that the session works in; the first is the one it starts in.
    pub fn roots(&self) -> &[PathBuf] {
        self.workspace.roots()
    }

    /// Whether a directory that a client names is one of those, or below one. The error says not.
    pub fn works_in(&self, directory: &Path) -> Result<(), String> {
        self.workspace.holds(directory)
    }

    /// How many events there are.
    pub fn position(&self) -> usize {
        self.log.len()
    }

    /// How much is allowed without a question.
    pub fn mode(&self) -> Mode {
        self.permissions.mode()
    }

    /// Changes how much is allowed without a question. What is being asked stays asked.
    pub fn set_mode(&self, mode: Mode) {
        self.permissions.set_mode(mode);
        self.log.append(Event::ModeChanged { mode });
    }

    /// Whether what the project's own settings would run may be used.
    pub fn consent(&self) -> &Arc<Consent> {
        &self.consent
    }

    /// How many tokens the model can be told, if that is known.
    pub fn input_limit(&self) -> Option<u64> {
        self.answering().input_limit()
    }

    /// The files of the workspace that are not ignored, as prompts mention them; at most `most`.
    /// Walks the disk.
    pub fn files(&self, most: usize) -> Vec<String> {
        mention::files(&self.workspace, most)
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
