//! A live conversation, driven and watched by any number of front ends.
//!
//! A front end holds an `Arc<Session>` and calls it: [`Session::prompt`], [`Session::cancel`],
//! [`Session::answer`]. What happens it learns from [`Session::events`] alone, and so does every
//! other front end, in one order.

mod at_path;
mod background;
mod call;
mod command;
mod compress;
mod consent;
mod conversation;
mod decision;
mod event;
mod fill;
mod gate;
mod instructions;
mod log;
mod loops;
mod memory;
mod mention;
mod plan;
mod projection;
mod prompt;
mod question;
mod queue;
mod resources;
mod servers;
mod state;
mod toolbox;
mod transcript;
mod turn;
mod undo;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::call::ProgressAt;
pub use self::command::{CommandArgument, CommandReply, CommandTurn, Commands, SessionCommand};
use self::compress::Compression;
pub use self::decision::Decision;
pub use self::event::{
    Answer, CallStarted, Caller, ClientName, Compressed, Event, FORMAT, Masked, Origin, PromptPart,
    PromptTags, PushConfig, Quote, SessionStarted, StopReason, TaskEvent, ToolOutcome, TurnId,
    UnknownEvent,
};
pub use self::fill::{PromptPiece, Template};
use self::gate::Gate;
pub use self::gate::Watching;
use self::instructions::Instructions;
use self::log::Shelf;
pub use self::log::{Entry, Log, Millis, Reader};
pub use self::memory::{Memory, MemoryFile, Places};
pub use self::projection::{
    Activity, CallRecord, CallStatus, CallStep, LastAnswer, Projection, TurnRecord, TurnResult,
    Update, UpdateKind, explain_error, explain_retry, explain_stop, origin_label, prompt_text,
};
pub use self::question::AnswerError;
use self::question::Questions;
use self::queue::Turns;
pub use self::state::SessionState;
use self::state::StateReader;
use self::toolbox::Toolbox;
use self::transcript::Transcript;
pub use self::undo::{CallChange, Selection};
use crate::permission::consent::Consent;
use crate::permission::{self, Permissions};
pub use crate::permission::{Mode, Question, RuleName, Saved, Scope};
use parking_lot::Mutex;
use tandem_mcp::Hub;
pub use tandem_mcp::{
    NamedPrompt, PromptArgument, ServerConfig, ServerPrompt, ServerReach, ServerStatus,
};
use tandem_model::{self as model, Call, Model, Models, tokens};
pub use tandem_model::{Error as ModelError, Retry, ToolDeclaration, Usage};
use tandem_tools::background::Background;
pub use tandem_tools::terminals::Program;
pub use tandem_tools::{
    Access, Content, DiffLine, FileDiff, Kind, LineDiff, Location, ServerAnswer, Side, Source,
    Summary, Todo, TodoStatus, ToolOutput,
};
use tandem_tools::{Host, Tool};

/// Parts of a new session.
pub struct Parts {
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The other models, by id.
    pub models: Arc<dyn Models>,
    /// Memory files that people have written for the model.
    pub memory: Memory,
    /// The slash commands.
    pub commands: Arc<dyn Commands>,
    /// The built-in tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The MCP servers, whose tools the model may call too.
    pub servers: Arc<Hub>,
    /// The files, the commands and their limits.
    pub host: Host,
    /// The approval mode to begin with.
    pub mode: Mode,
    /// The policy's saved rules, secrets and options.
    pub policy: permission::PolicySetup,
    /// The user's consent to what the project's own settings would run.
    pub consent: Arc<Consent>,
    /// Maximum number of requests to the model in one turn.
    pub max_rounds: usize,
    /// Bounds on the growth of the conversation.
    pub upkeep: Upkeep,
    /// Maximum number of requests to the model in the session; `None` sets no limit.
    pub max_session_rounds: Option<usize>,
    /// Notices that people are shown in the first turn.
    pub notices: Vec<String>,
    /// Returns the current day, for the model.
    pub today: Today,
}

/// Returns the current day.
pub type Today = Arc<dyn Fn() -> jiff::civil::Date + Send + Sync>;

/// Bounds on the growth of a conversation.
#[derive(Debug, Clone)]
pub struct Upkeep {
    /// Share of the model's window, from 0 to 1, from which on the conversation is compressed.
    pub compress_at: f64,
    /// `true` if a model that repeats itself is told, and then stopped.
    pub detect_loops: bool,
    /// Bytes of the log that stay in memory; older events are in a file.
    pub log_bytes: usize,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self { compress_at: 0.5, detect_loops: true, log_bytes: 16 << 20 }
    }
}

/// Parts of a session that decide if a call runs.
struct Approvals {
    /// The policy, with the approval mode and what the user said always to allow.
    permissions: Arc<Permissions>,
    /// Held while the mode is looked up and then changed.
    mode_changes: Mutex<()>,
    /// The user's consent to what the project's own settings would run.
    consent: Arc<Consent>,
    /// The questions that wait for an answer.
    questions: Questions,
    /// Calls that need no question, but must be shown before they run.
    gate: Gate,
}

/// A live conversation.
pub struct Session {
    id: String,
    /// Changed only in a turn.
    model: Mutex<Arc<dyn Model>>,
    models: Arc<dyn Models>,
    commands: Arc<dyn Commands>,
    tools: Toolbox,
    servers: Arc<Hub>,
    instructions: Arc<Instructions>,
    host: Arc<Host>,
    max_rounds: usize,
    upkeep: Upkeep,
    compression: Compression,
    max_session_rounds: Option<usize>,
    /// Notices that people have not been shown yet.
    notices: Mutex<Vec<String>>,
    approvals: Approvals,
    progress: ProgressAt,
    /// The ids of calls that are not in the log yet, and of those that were dropped on the way there.
    reserved: Mutex<HashSet<String>>,
    /// All events; the only state that lasts.
    log: Log,
    state: Mutex<StateReader>,
    transcript: Mutex<Transcript>,
    turns: Mutex<Turns>,
}

impl Session {
    /// Makes a session with an empty conversation.
    pub fn new(parts: Parts) -> Arc<Self> {
        let host = Arc::new(parts.host);
        let shelf = Shelf::new(Arc::clone(&host.scratch), parts.upkeep.log_bytes);
        let log = Log::new(shelf);
        let permissions = Permissions::new(parts.mode, parts.policy, host.workspace.roots());
        let permissions = Arc::new(permissions);
        let servers = Arc::clone(&parts.servers);
        let (roots, mode) = (host.workspace.roots(), permissions.mode());
        let started = SessionStarted::now(roots, parts.model.id(), mode);
        let id = started.id.clone();
        log.append(Event::SessionStarted(Arc::new(started)));
        let session = Arc::new(Self {
            id,
            progress: ProgressAt::default(),
            reserved: Mutex::default(),
            transcript: Mutex::new(Transcript::new(log.read(0), Arc::clone(&host.outputs))),
            turns: Mutex::default(),
            model: Mutex::new(parts.model),
            models: parts.models,
            commands: parts.commands,
            instructions: Arc::new(Instructions::new(
                parts.memory,
                Arc::clone(&host.workspace),
                host.limits.tree_entries,
                parts.today,
            )),
            tools: Toolbox::new(parts.tools, servers, Arc::clone(&permissions)),
            servers: parts.servers,
            approvals: Approvals {
                permissions,
                mode_changes: Mutex::default(),
                consent: parts.consent,
                questions: Questions::default(),
                gate: Gate::default(),
            },
            host,
            max_rounds: parts.max_rounds,
            upkeep: parts.upkeep,
            compression: Compression::default(),
            state: Mutex::new(StateReader::new(log.read(0))),
            max_session_rounds: parts.max_session_rounds,
            notices: Mutex::new(parts.notices),
            log,
        });
        session.listen_to_servers();
        session
    }

    /// Returns the session's id, which no other session of any process has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Records an event of a front end with tasks.
    pub fn record(&self, event: TaskEvent) {
        self.log.append(Event::Task(event));
    }

    /// Checks that the model can be called, as far as is known without the network.
    pub fn ready(&self) -> Result<(), model::Error> {
        self.answering().ready()
    }

    /// Returns `true` if a prompt is a command, which may need no model at all.
    pub fn is_command(&self, prompt: &[PromptPart]) -> bool {
        command::is_one(self, prompt)
    }

    /// Returns whether a prompt cannot be answered without a model: it is no command, and does not
    /// look like one either. May read files.
    pub fn needs_model(&self, prompt: &[PromptPart]) -> bool {
        !self.is_command(prompt) && command::unknown(self, prompt).is_none()
    }

    /// Returns the commands that only this session has now. May read files.
    pub fn own_commands(&self) -> Vec<SessionCommand> {
        self.commands.of_session(self)
    }

    /// Answers the question about a call; the first answer counts.
    pub fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        self.approvals.questions.answer(call, answer, by)
    }

    /// Returns the calls whose question is open, in no order.
    pub fn questions(&self) -> Vec<Arc<CallStarted>> {
        self.approvals.questions.open_now()
    }

    /// Returns `true` if the question about a call still waits for its answer.
    pub fn asks(&self, call: &str) -> bool {
        self.approvals.questions.is_open(call)
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
            Some(running) => self.approvals.gate.open(call, &running.origin),
            None => gate::Shown::already(),
        }
    }

    /// Reports that a call is shown to the user, or the reason why it cannot be: then it does not
    /// run.
    pub fn shown(&self, call: &str, shown: Result<(), String>) {
        self.approvals.gate.pass(call, shown);
    }

    /// Returns a reader of all events from the index `from` on, past and to come.
    pub fn events(&self, from: usize) -> Reader {
        self.log.read(from)
    }

    /// Returns the id of the model that answers.
    pub fn model(&self) -> String {
        self.answering().id().to_owned()
    }

    fn answering(&self) -> Arc<dyn Model> {
        Arc::clone(&self.model.lock())
    }

    /// Returns the tools that the model may call.
    pub fn tools(&self) -> Arc<[ToolDeclaration]> {
        self.tools.declarations()
    }

    /// Returns the directories that the session works in; the first is the one it starts in.
    pub fn roots(&self) -> &[PathBuf] {
        self.host.workspace.roots()
    }

    /// Checks that a directory that a client names is one of the roots, or below one.
    pub fn works_in(&self, directory: &Path) -> Result<(), String> {
        self.host.workspace.holds(directory)
    }

    /// Returns a (real) path as people are shown it: without the directory that the session starts in.
    pub fn relative(&self, path: &Path) -> String {
        self.host.workspace.relative(path)
    }

    /// Returns the number of events.
    pub fn position(&self) -> usize {
        self.log.len()
    }

    /// Returns the approval mode.
    pub fn mode(&self) -> Mode {
        self.approvals.permissions.mode()
    }

    /// Returns the approval modes that the policy allows.
    pub fn modes(&self) -> Vec<Mode> {
        self.approvals.permissions.modes().collect()
    }

    /// Returns the policy.
    pub fn permissions(&self) -> &Arc<Permissions> {
        &self.approvals.permissions
    }

    /// Returns the user's consent to what the project's own settings would run.
    pub fn consent(&self) -> &Arc<Consent> {
        &self.approvals.consent
    }

    /// Returns the estimated prompt size in tokens, without the results of calls that still run.
    fn size(&self) -> u64 {
        let beside = || {
            let tools = self.tools.declarations();
            let tools = tools.iter().map(tokens::of_tool);
            self.instructions.tokens() + tools.sum::<u64>()
        };
        self.transcript.lock().size(beside)
    }

    /// Returns the commands that run in the background.
    pub fn background(&self) -> &Background {
        &self.host.background
    }

    /// Returns the model's input limit in tokens, if it is known.
    pub fn input_limit(&self) -> Option<u64> {
        self.answering().input_limit()
    }

    /// Returns what prompts can mention: at most `most` files of the workspace, none that is ignored, and
    /// the resources that MCP servers list (`server:uri`). Walks the disk.
    pub fn mentionable(&self, most: usize) -> Vec<String> {
        let mut names = mention::files(&self.host.workspace, most);
        names.extend(self.servers.mentionable());
        names
    }

    /// Returns the call, under an id that no other call of the session has.
    fn unique(&self, mut call: Call) -> Call {
        let mut reserved = self.reserved.lock();
        self.state(|state| {
            let is_known = |id: &String| state.calls.contains(id);
            reserved.retain(|id| !is_known(id));
            let mut n = state.calls.len() + reserved.len();
            while call.id.is_empty() || is_known(&call.id) || reserved.contains(&call.id) {
                n += 1;
                call.id = format!("{}-{n}", call.name);
            }
        });
        reserved.insert(call.id.clone());
        call
    }
}
