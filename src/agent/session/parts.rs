//! The parts that a session is made of, and their assembly.

use std::sync::Arc;

use crate::session::calls::approvals::Approvals;
use crate::session::calls::servers::Servers;
use crate::session::calls::toolbox::{ToolSelection, Toolbox};
use crate::session::context::compress::background::Compression;
use crate::session::context::instructions::{InstructionSources, Instructions, Today};
use crate::session::context::memory::Memory;
use crate::session::context::transcript::Transcript;
use crate::session::engine::{Engine, Upkeep};
use crate::session::events::event::{Event, SessionStarted};
use crate::session::events::log::Log;
use crate::session::events::saved_workspace::SavedWorkspace;
use crate::session::persistence::file_uploads::FileUploads;
use crate::session::persistence::recover::resume;
use crate::session::persistence::session_writer::Refusals;
use crate::session::persistence::storage::{Persistence, Storage};
use crate::session::state::active_model::ActiveModel;
use crate::session::state::modes::Modes;
use crate::session::state::open_calls::OpenCalls;
use crate::session::turns::command::Commands;
use crate::session::turns::queue::TurnQueue;
use parking_lot::Mutex;
use tandem_a2a_client::{Agents, call_agent};
use tandem_approval::consent::Consent;
use tandem_approval::{Mode, Permissions, PolicySetup};
use tandem_host::{Host, Tool};
use tandem_mcp::Hub;
use tandem_model::{Model, Models};

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
    /// The other agents, which the model may call.
    pub agents: Arc<Agents>,
    /// The files, the commands and their limits.
    pub host: Host,
    /// The approval mode to begin with.
    pub mode: Mode,
    /// `true` if a person can be asked.
    pub is_attended: bool,
    /// `true` if the model has the short set of tools, `false` if it has all; `None`: the model's window decides.
    pub short_tools: Option<bool>,
    /// The policy's saved rules, secrets and options.
    pub policy: PolicySetup,
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
    /// Function that returns the current day, for the model.
    pub today: Today,
    /// The directory that the session works in, if it is made for the session and saved elsewhere.
    pub workspace: Option<Arc<dyn SavedWorkspace>>,
    /// The place where the log is stored.
    pub storage: Storage,
}

impl Parts {
    /// Assembles a session, new or stored: its engine, the queue of its turns, and the writer of its log.
    ///
    /// 1. Opens the log. A new session gets its first event here.
    /// 2. Logs what differs from the process before, if the session is a stored one.
    /// 3. Makes the parts, which fold the log.
    /// 4. Connects the news of the sandbox and of MCP servers.
    /// 5. Begins to write the log to the store.
    pub(super) fn assemble(self) -> (Arc<Engine>, Arc<TurnQueue>, Persistence) {
        let host = Arc::new(self.host);
        let (patience, health) = (self.upkeep.store_patience, self.upkeep.store_health.clone());
        let roots = host.workspace.roots();
        let new_log = || Log::new(Arc::clone(&host.scratch), self.upkeep.log_bytes);
        let (policy, model) = (self.policy, self.model.id());
        let permissions = Arc::new(Permissions::new(self.storage.mode(self.mode), policy, roots));
        let mode = permissions.mode();
        let store = self.storage.store();
        // The log is opened before the parts are made, because the parts fold the log, and all other events build on
        // the log's first event.
        let mut opened =
            self.storage.open(new_log, |id| SessionStarted::now(id, roots, model, mode));
        opened.git = self.workspace.as_ref().map(|workspace| workspace.origin().clone());
        let (id, log, state) = (opened.id.clone(), opened.log.clone(), opened.state.clone());
        let resumed = state.look_with_activity(std::clone::Clone::clone);
        for event in resume(&resumed.0, resumed.1, &*self.model, mode, self.mode) {
            log.append(event);
        }
        let (hub, consent, agents) = (self.servers, self.consent, self.agents);
        let tools = self.tools.into_iter().chain([call_agent(&agents)]).collect();
        let transcript = Transcript::new(log.read(0), Arc::clone(&host.outputs));
        let transcript = Arc::new(Mutex::new(transcript));
        let instructions = Instructions::new(InstructionSources {
            memory: self.memory,
            host: Arc::clone(&host),
            permissions: Arc::clone(&permissions),
            today: self.today,
            servers: Arc::clone(&hub),
            log: log.clone(),
            transcript: Arc::clone(&transcript),
        });
        let selection = ToolSelection { short: self.short_tools, is_attended: self.is_attended };
        let engine = Arc::new(Engine {
            id,
            store,
            transcript,
            model: ActiveModel::new(self.model, self.models),
            spending: Mutex::default(),
            instructions,
            tools: Toolbox::new(tools, &hub, &permissions, state.clone(), selection),
            servers: Servers::new(hub, Arc::clone(&consent), log.clone()),
            agents,
            host,
            workspace: self.workspace,
            is_attended: self.is_attended,
            modes: Modes::new(Arc::clone(&permissions), log.clone(), state.clone()),
            approvals: Approvals::new(permissions, consent, log.clone()),
            calls: OpenCalls::new(log.clone(), state.clone()),
            compression: Compression::default(),
            upkeep: self.upkeep,
            max_rounds: self.max_rounds,
            max_session_rounds: self.max_session_rounds,
            log,
            state,
        });
        follow_sandbox(&engine);
        let resumption = std::mem::take(&mut opened.resumption);
        let turns = TurnQueue::new(&engine, self.commands, self.notices, resumption);
        follow_servers(&engine, &turns);
        let uploads = FileUploads::new(&engine.id, engine.store.as_ref(), &engine.host.scratch);
        let refusals = move |served| Refusals::new(served, patience, health);
        (engine, turns, opened.persist(uploads, refusals))
    }
}

/// Shows people the news of MCP servers.
fn follow_servers(engine: &Engine, turns: &Arc<TurnQueue>) {
    // The reference is weak: the engine holds the hub, so a strong one would keep the engine alive for ever.
    let told = Arc::downgrade(turns);
    engine.servers.hub.on_news(move |news| {
        if let Some(turns) = told.upgrade() {
            turns.tell(news);
        }
    });
}

/// Tells people and the model the news of the sandbox.
fn follow_sandbox(engine: &Engine) {
    let Some(sandbox) = &engine.host.sandbox else { return };
    let log = engine.log.clone();
    sandbox.on_news(move |news| {
        log.append(Event::ToldNext(format!("\n\n[{news}]")));
        log.append(Event::Notice(news));
    });
}
