//! A live conversation, driven and watched by any number of front ends.
//!
//! A front end holds an `Arc<Session>` and calls it: [`Session::prompt`], [`Session::cancel`], [`Session::answer`]. It
//! learns what happens from [`Session::events`] alone. Every front end reads the same events in the same order.
//!
//! The layers, each of which uses only the layers below it: the session, which front ends hold; the queue of its turns;
//! the operations (a turn, a command, a call, compression and others), which are functions of the engine; the engine,
//! which holds the parts; the parts (log, state, transcript, model, tools, servers, approvals, instructions); the
//! events.
//!
//! Each folder holds the operations and parts of one subject: `events`, `state`, `context` (what the model is told),
//! `turns`, `calls`, `persistence`.

mod calls;
mod context;
mod engine;
mod events;
mod parts;
mod persistence;
mod state;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::WaitForCancellationFutureOwned;

pub use self::calls::gate::{Gate, Watching};
pub use self::calls::question::{AnswerError, Questions};
pub use self::context::instructions::Today;
pub use self::context::memory::{FolderJudge, Memory, MemoryFile, Places};
pub use self::context::rewind::{EarlierPrompt, EarlierPrompts};
use self::engine::Engine;
pub use self::engine::{DEFAULT_THINKING, NOT_STORED, Upkeep};
pub use self::events::event::{
    CallStarted, Caller, ClientName, Compressed, Event, FORMAT_VERSION, Masked, Origin, PromptFile,
    PromptPart, PromptTags, PushConfig, QuotedMessage, SessionStarted, StopReason, TaskEvent,
    ToldFile, ToldInstructions, ToolOutcome, TurnId, UnknownEvent, UnknownOutcome,
};
pub use self::events::log::{Entry, Log, Millis, Reader, now};
pub use self::events::principal::{PrincipalId, SessionAccess, ShareRole, Shares};
pub use self::events::projection::{
    ANSWER_RESTARTS, Activity, CallRecord, CallStatus, CallStep, LastAnswer, Projection,
    TurnRecord, TurnResult, Update, UpdateKind, explain_age, explain_error, explain_resumed,
    explain_retry, explain_stop, explain_unknown_outcome, origin_label, prompt_text,
};
pub use self::events::saved_workspace::{
    GitOrigin, PastTurns, SavedPlace, SavedWorkspace, WorkspaceSave,
};
pub use self::parts::Parts;
pub use self::persistence::followed::FollowedSession;
pub use self::persistence::recover::{StoredSession, find_orphans, read_stored};
pub use self::persistence::storage::{Persistence, Storage};
pub use self::persistence::store::{
    ActiveSession, Batch, BatchSummary, CurrentUse, ForkPoint, Head, Holder, Listed, Order, Orphan,
    Query, Secrets, SessionUsage, SharedStore, Store, StoreError, Stored, StoredLog, WriteLease,
};
pub use self::persistence::store_health::StoreHealth;
pub use self::state::modes::Modes;
pub use self::state::session_state::SessionState;
use self::state::spending;
pub use self::state::turn_progress::ResumePolicy;
pub use self::state::undo::{CallChange, Selection};
pub use self::turns::command::{
    CommandArgument, CommandReply, CommandTurn, Commands, NotForModel, ResolvedCommand,
    SessionCommand,
};
pub use self::turns::fill::{PromptPiece, Template};
pub use self::turns::queue::TurnQueue;
use self::turns::{command, mention};
use tandem_approval::Permissions;
pub use tandem_approval::sandbox_mark::without_sandbox_marks;
pub use tandem_approval::{
    Answer, BuiltInRule, Choice, ChoiceKind, Decision, Mode, Question, QuestionSubject, RuleName,
    Saved, Scope, describe_program_input, is_same_word, plain_answer,
};
use tandem_content::blocking::blocking;
use tandem_host::background::Background;
pub use tandem_host::buffers::TextBuffers;
pub use tandem_host::client_terminals::{
    ClientCommand, ClientOutput, ClientTerminal, ClientTerminals, TerminalsGuard,
};
pub use tandem_host::outputs::attachment_name;
pub use tandem_host::session_files::BuffersGuard;
pub use tandem_host::stored_files::StoredFile;
pub use tandem_host::terminals::Program;
pub use tandem_host::{
    Access, CommandExit, DiffLine, FileDiff, FileLocation, InputOption, InputQuestion, LineDiff,
    MAX_INPUT_ANSWER_CHARS, ResultContent, ServerAnswer, Side, Summary, Todo, TodoStatus, ToolKind,
    ToolOutput, WebSource, is_answer,
};
use tandem_mcp::Hub;
pub use tandem_mcp::{
    NamedPrompt, PromptArgument, ServerConfig, ServerPrompt, ServerReach, ServerStatus,
};
use tandem_model as model;
pub use tandem_model::answer_schema::AnswerSchema;
pub use tandem_model::offer::{ModelGroup, OfferedModel, ServerScope, TokenPrice, shown_id};
pub use tandem_model::provider::Provider;
pub use tandem_model::{Error as ModelError, Retry, ThinkingLevels, ToolDeclaration, Usage};

/// Reason given for turns that end because the agent ends.
pub const AGENT_ENDS: &str = "Ended early, because the agent ends.";

/// A live conversation, as front ends hold it.
pub struct Session {
    engine: Arc<Engine>,
    turns: Arc<TurnQueue>,
    persistence: Persistence,
}

impl Session {
    /// Makes a session, new or with a stored conversation.
    pub fn new(parts: Parts) -> Arc<Self> {
        let (engine, turns, persistence) = parts.assemble();
        let session = Arc::new(Self { engine, turns, persistence });
        if session.engine.store.is_some() {
            // Closes the session once its events are no longer stored. The task holds only a weak reference, so that it
            // does not keep the session alive.
            let (fenced, closed) = (session.wait_fenced(), session.turns().closed());
            let weak = Arc::downgrade(&session);
            tokio::spawn(async move {
                tokio::select! {
                    () = closed => {}
                    () = fenced => {
                        if let Some(session) = weak.upgrade() {
                            session.close();
                        }
                    }
                }
            });
        }
        session
    }

    /// Returns the session's id, which is unique among the sessions of all processes.
    pub fn id(&self) -> &str {
        &self.engine.id
    }

    /// Returns a reader of the stored events from the index `from` on, past and to come. Front ends are not shown
    /// events that a crash could still lose. While the session is not stored, all events are read.
    pub fn events(&self, from: usize) -> Reader {
        self.engine.log.read_persisted(from)
    }

    /// Waits until all events up to now would survive a loss of power, as far as the store knows. A promise to a
    /// client must wait for this.
    pub async fn wait_durable(&self) {
        self.engine.log.wait_durable(self.engine.log.len().saturating_sub(1)).await;
    }

    /// Folds the events up to now into the transcript, off the runtime's threads: after a long log was opened, that
    /// takes long.
    pub(crate) async fn catch_up(&self) {
        let engine = Arc::clone(&self.engine);
        let caught_up = blocking(move || engine.transcript.lock().catch_up());
        // An error is ignored: while the agent ends, the runtime starts no further task.
        let _ = caught_up.await;
    }

    /// Waits until all events up to now are stored, and returns the store. The error says, for people, why they are not
    /// stored.
    pub async fn wait_stored(&self) -> Result<Arc<dyn Store>, String> {
        self.engine.wait_stored().await.map(Arc::clone)
    }

    /// Waits until no further event of the session is stored: another process has taken the session over, or its store
    /// has refused for too long. The session is then closed here, and front ends read no further events of it; a client
    /// must open the session again.
    pub fn wait_fenced(&self) -> WaitForCancellationFutureOwned {
        self.engine.log.wait_fenced()
    }

    /// Returns the reason why no further event of the session is stored; `None` if there is no such reason.
    pub fn fence_error(&self) -> Option<StoreError> {
        self.engine.fence_error()
    }

    /// Returns `true` while the store refuses events, and the conversation goes on without being stored.
    pub fn is_store_bypassed(&self) -> bool {
        self.engine.log.is_store_bypassed()
    }

    /// Returns the index after the last stored event: the place to begin for a reader of future events only.
    pub fn position(&self) -> usize {
        self.engine.log.persisted_len()
    }

    /// Shows people a text that the model need not know.
    pub fn notify(&self, text: String) {
        self.engine.log.append(Event::Notice(text));
    }

    /// Calls `look` with the current owner, and the principals with whom the session is shared.
    pub fn with_access<T>(&self, look: impl FnOnce(&SessionAccess) -> T) -> T {
        self.engine.state.with_state(|state| look(&state.access))
    }

    /// Returns the name that a client has given the session, if one has.
    pub fn context_name(&self) -> Option<String> {
        self.engine.state.with_state(|state| state.context_name.clone())
    }

    /// Logs an event of a front end with A2A tasks.
    pub fn record(&self, event: TaskEvent) {
        self.engine.log.append(Event::Task(event));
    }

    /// Calls `look` with the current state; also returns the time of the last event of a turn.
    pub(crate) fn state_with_activity<T>(
        &self,
        look: impl FnOnce(&SessionState) -> T,
    ) -> (T, Option<Millis>) {
        self.engine.state.look_with_activity(look)
    }

    /// Queues a turn and returns its number. The turn ends with an [`Event::TurnFinished`] of the same number.
    pub fn prompt(&self, prompt: Vec<PromptPart>, origin: Origin) -> TurnId {
        self.prompt_tagged(prompt, origin, PromptTags::default())
    }

    /// Stores a file that belongs to a prompt beside the session, before the prompt is queued. The error says why the
    /// file cannot be stored.
    pub fn attach(&self, file: &PromptFile, content: &[u8]) -> Result<(), String> {
        self.engine.host.outputs.attach(&file.name, content)
    }

    /// Resumes the turns that another process has left. Called once, when the session is prepared.
    pub(crate) fn go_on(&self) {
        self.turns.go_on();
    }

    /// Queues a turn with tags: facts about the prompt that only its front end knows.
    pub fn prompt_tagged(
        &self,
        prompt: Vec<PromptPart>,
        origin: Origin,
        tags: PromptTags,
    ) -> TurnId {
        self.turns.push(prompt, origin, tags)
    }

    /// Returns `true` if a turn was queued since the session began.
    pub fn has_turns(&self) -> bool {
        self.engine.state.with_state(|state| state.turns > 0)
    }

    /// Cancels a turn that runs or waits. The turn's end follows as an event; the end of a waiting turn comes after
    /// that of a running turn that is being cancelled. Returns `false` if the turn has ended.
    pub fn cancel(&self, turn: TurnId) -> bool {
        self.turns.cancel(turn)
    }

    /// Cancels all turns and lets no further turn start; closes the connections to MCP servers; ends commands in the
    /// background and a summary that is being written.
    pub fn close(&self) {
        self.end(None);
    }

    /// Closes the session. The turns that this cancels end with the reason `why`.
    pub fn close_because(&self, why: &str) {
        self.end(Some(why));
    }

    /// Closes the session, unless a turn runs or waits. Returns `false` if one does.
    pub fn close_if_idle(&self) -> bool {
        let is_idle = self.turns.close_if_idle();
        if is_idle {
            self.end(None);
        }
        is_idle
    }

    /// Leaves the session to another process in the middle of a turn, if the turn only waits for answers: the other
    /// process asks the questions again. Returns `false` if the turn does more, or would not be resumed by this policy.
    /// After `true`, [`Persistence::wait_released`] waits until the other process can have the session.
    pub fn hand_over(&self, policy: ResumePolicy) -> bool {
        let is_left = self.turns.hand_over(policy);
        if is_left {
            self.persistence.hand_over();
        }
        is_left
    }

    fn end(&self, why: Option<&str>) {
        // The turns are closed first, so that they begin no new work while the other parts end.
        self.turns.close(why);
        self.engine.servers.hub.close();
        self.engine.host.background.end();
        self.engine.compression.end();
        self.persistence.close();
    }

    /// Returns `true` if a prompt is a command, which may need no model at all.
    pub fn is_command(&self, prompt: &[PromptPart]) -> bool {
        command::is_command(&**self.turns.commands(), self.hub(), prompt)
    }

    /// Returns `true` if a prompt needs a model: it is no command, and does not look like a command either. May read
    /// files.
    pub fn needs_model(&self, prompt: &[PromptPart]) -> bool {
        command::is_for_model(&**self.turns.commands(), self.hub(), prompt)
    }

    /// Returns the commands that depend on this session: prompts of its MCP servers, and the user's own commands. May
    /// read files.
    pub fn own_commands(&self) -> Vec<SessionCommand> {
        self.turns.commands().of_session(self.hub())
    }

    fn hub(&self) -> &Hub {
        &self.engine.servers.hub
    }

    /// Returns the queue of turns, including the running turn.
    pub fn turns(&self) -> &TurnQueue {
        &self.turns
    }

    /// Returns the persistence: the writer of the log, and the secrets beside the log.
    pub fn persistence(&self) -> &Persistence {
        &self.persistence
    }

    /// Returns the questions to people.
    pub fn questions(&self) -> &Questions {
        &self.engine.approvals.questions
    }

    /// Returns the gate that holds calls without a question until a front end reports that it shows them.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.engine.approvals.gate
    }

    /// Returns the approval modes.
    pub fn modes(&self) -> &Modes {
        &self.engine.modes
    }

    /// Answers the question about a call; the first answer counts.
    pub fn answer(&self, call: &str, answer: Answer, by: Origin) -> Result<(), AnswerError> {
        self.engine.approvals.questions.answer(call, answer, by)
    }

    /// Returns the policy.
    pub fn permissions(&self) -> &Arc<Permissions> {
        &self.engine.approvals.permissions
    }

    /// Returns the session's title; empty before the first prompt.
    pub fn title(&self) -> String {
        self.engine.state.with_state(|state| state.title.clone())
    }

    /// Returns the id of the model that answers.
    pub fn model(&self) -> String {
        self.engine.model.id()
    }

    /// Returns the ids of the models that are known by name.
    pub async fn known_models(&self) -> Result<Vec<String>, String> {
        self.engine.model.known_ids().await
    }

    /// Returns the ids of the models that can be chosen: the models known by name, and the models that servers offer
    /// now which people have chosen.
    pub async fn models_to_choose(&self) -> Vec<String> {
        let mut models = self.known_models().await.unwrap_or_default();
        let served = self.served_models(ServerScope::All).await;
        for model in served.into_iter().flat_map(|group| group.models) {
            if !models.contains(&model.id) {
                models.push(model.id);
            }
        }
        models
    }

    /// Returns the models that can be chosen and can answer, by provider and server: the models of the catalog whose
    /// providers are set up, and the models that servers offer now.
    pub async fn offered_models(&self) -> Vec<ModelGroup> {
        let mut offered = self.engine.model.set_up().await.unwrap_or_default();
        offered.extend(self.served_models(ServerScope::All).await);
        offered
    }

    /// Returns the models that servers offer now.
    pub async fn served_models(&self, scope: ServerScope) -> Vec<ModelGroup> {
        self.engine.model.served(scope).await
    }

    /// Makes another model answer from the next request on. If the model cannot be opened, the model before stays.
    pub async fn set_model(&self, id: &str) -> Result<(), String> {
        self.engine.set_model(id).await.map(drop)
    }

    /// Returns the cost of all requests so far in US dollars, if the price of each is known.
    pub fn cost(&self) -> Option<f64> {
        self.engine.cost()
    }

    /// Returns the number of requests to the model after the first `without`, and the tokens of those of these requests
    /// that were made since the time `since`.
    pub fn tokens_since(&self, since: Millis, without: usize) -> (usize, u64) {
        let requests = self.engine.state.requests(without);
        (requests.len(), spending::tokens_since(&requests, since))
    }

    /// Returns the levels of thinking that the model offers.
    pub fn thinking_levels(&self) -> ThinkingLevels {
        self.engine.model.get().thinking()
    }

    /// Returns the level of thinking that was chosen, if one was.
    pub fn thinking(&self) -> Option<String> {
        self.engine.thinking()
    }

    /// Sets the level of thinking from the next request on; `None` is the level without a choice. The error lists the
    /// levels.
    pub fn set_thinking(&self, level: Option<&str>) -> Result<(), String> {
        self.engine.set_thinking(level)
    }

    /// Checks that the model can be called, as far as this can be told without the network.
    pub fn ready(&self) -> Result<(), model::Error> {
        self.engine.model.get().ready()
    }

    /// Returns the model's input limit in tokens, if it is known.
    pub fn input_limit(&self) -> Option<u64> {
        self.engine.model.input_limit()
    }

    /// Returns the tools that the model may call.
    pub fn tools(&self) -> Arc<[ToolDeclaration]> {
        self.engine.tools.declarations(&*self.engine.model.get())
    }

    /// Limits the model and commands to these tools from now on, also after a restart and on other nodes. Tools are
    /// named as in rules: `read_file`, `mcp_git_*`. Files that the user's own prompt mentions are read nevertheless.
    pub fn limit_tools(&self, tools: Vec<String>) {
        self.engine.log.append(Event::ToolsLimited { tools });
    }

    /// Begins to connect to the MCP servers, without waiting. A server that the project's own settings name is
    /// connected only when the user has agreed.
    pub fn start_servers(&self) {
        self.engine.servers.start();
    }

    /// Adds MCP servers that a client brings, and begins to connect to them.
    pub fn add_servers(&self, servers: Vec<ServerConfig>) {
        self.hub().add(servers);
    }

    /// Returns the status of each MCP server, in the order of their names.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.hub().status()
    }

    /// Returns the directories that the session works in; the first is the directory in which it starts.
    pub fn roots(&self) -> &[PathBuf] {
        self.engine.host.workspace.roots()
    }

    /// Checks that the session works in the directory that a client names: the directory is one of the roots, or below
    /// a root, or it is the name of the session's git repository.
    pub fn works_in(&self, directory: &Path) -> Result<(), String> {
        let is_named = |name| self.engine.workspace.as_ref()?.origin().is_named(name).then_some(());
        if directory.to_str().and_then(is_named).is_some() {
            return Ok(());
        }
        self.engine.host.workspace.check_directory(directory).map(drop)
    }

    /// Makes the unsaved texts of an editor count as the files' content, and has the editor write files, as long as the
    /// guard lives. Of several editors, the last that joined counts.
    pub fn join_buffers(&self, buffers: Arc<dyn TextBuffers>) -> BuffersGuard {
        self.engine.host.editors.join(buffers)
    }

    /// Has commands run in the terminals of a client, as long as the guard lives. Of several clients, the last that
    /// joined counts. Returns `None` if the settings do not allow this.
    pub fn join_terminals(&self, terminals: Arc<dyn ClientTerminals>) -> Option<TerminalsGuard> {
        let open = self.engine.host.client_terminals.as_ref()?;
        Some(open.join(terminals))
    }

    /// Returns the names that prompts can mention: at most `most` files of the workspace that are not ignored, and the
    /// resources that MCP servers list (`server:uri`). Reads the file system.
    pub fn mentionable(&self, most: usize) -> Vec<String> {
        let mut names = mention::files(&self.engine.host.workspace, most);
        names.extend(self.hub().mentionable());
        names
    }

    /// Returns the commands that run in the background.
    pub fn background(&self) -> &Background {
        &self.engine.host.background
    }
}
