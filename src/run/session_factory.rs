//! Construction of sessions from the command line and the settings of a directory.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use super::login_keys::LoginKeys;
use super::models::ModelChoice;
use super::search::GoogleSearch;
use super::{agents, parts, servers};
use crate::cli::{AgentArgs, WorkArgs};
use tandem_a2a_client::Agents;
use tandem_agent::commands::Registry;
use tandem_agent::session::{
    Head, NOT_STORED, Parts, SavedWorkspace, Session, Storage, Store, StoreHealth, Upkeep,
};
use tandem_agent::sessions::{
    Leased, LoadedSession, MakeSession, SessionLimits, SessionRequest, Sessions, WantedSession,
    find, fork,
};
use tandem_approval::Mode;
use tandem_host::Host;
use tandem_host::scratch::Scratch;
use tandem_host::terminals::{EnvironmentFilter, Supervisor, Terminals};
use tandem_host::workspace::Workspace;
use tandem_mcp::{self as mcp, Hub};
use tandem_model::options::RequestOptions;
use tandem_model::{Model, Models as _};
use tandem_net as net;
use tandem_settings::limits::Limits;
use tandem_settings::{self as config, Credentials, Env, Settings};
use tandem_store::FileStore;

/// The parts that all sessions of the process share, and the flags. Makes sessions from them.
#[derive(Clone)]
pub(super) struct SessionFactory {
    work: WorkArgs,
    pub(super) credentials: Arc<Credentials>,
    pub(super) supervisor: Arc<Supervisor>,
    /// Health of the store of all sessions.
    pub(super) store_health: StoreHealth,
}

impl SessionFactory {
    /// Builds the shared parts for the working directory, and reads the settings of the directory.
    pub(super) fn new(work: &WorkArgs) -> anyhow::Result<(Self, Settings)> {
        let (env, settings) = set_up(work, env()?);
        let servers = settings.model_servers();
        let supervisor = Supervisor::of_agent(config::provider_variable_names(&servers));
        let credentials = Credentials::with_servers(env, servers, &supervisor);
        let store_health = StoreHealth::default();
        Ok((Self { work: work.clone(), credentials, supervisor, store_health }, settings))
    }

    pub(super) fn env(&self) -> &Env {
        self.credentials.env()
    }

    pub(super) fn directory(&self) -> &Path {
        self.env().directory()
    }

    /// Returns the same parts for work in another directory, and the settings of this directory. The settings of the
    /// directory where the agent was started do not apply there, but the flags do.
    pub(super) fn in_directory(&self, directory: &Path) -> (Self, Settings) {
        let (env, settings) = set_up(&self.work, self.env().in_directory(directory));
        let credentials = self.credentials.in_environment(env, settings.model_servers());
        (Self { credentials, ..self.clone() }, settings)
    }

    pub(super) fn limits(&self, settings: &Settings) -> Limits {
        settings.limits(&self.work.limits)
    }

    /// Returns the model that sessions begin with, and the choice of models. An error also has the remarks about the
    /// settings.
    pub(super) fn model(
        &self,
        settings: &Settings,
    ) -> anyhow::Result<(Arc<dyn Model>, ModelChoice)> {
        self.model_alone(settings).map_err(|error| with_remarks(error, settings.remarks()))
    }

    /// Does the same as [`model`](Self::model), without remarks in an error.
    pub(super) fn model_alone(
        &self,
        settings: &Settings,
    ) -> anyhow::Result<(Arc<dyn Model>, ModelChoice)> {
        let thinking = settings.model.thinking.clone();
        let options = RequestOptions { thinking, ..self.limits(settings).model };
        let models = ModelChoice::new(
            Arc::clone(&self.credentials),
            self.login_keys(settings),
            options,
            settings,
        );
        Ok((models.first(settings)?, models))
    }

    /// Returns the source that looks for API keys in the variables of the user's login shell.
    pub(super) fn login_keys(&self, settings: &Settings) -> Arc<LoginKeys> {
        let environment = environment(&self.credentials, settings);
        let terminals = Terminals::new(&self.supervisor, environment);
        LoginKeys::new(Arc::clone(&self.credentials), terminals)
    }

    /// Returns the store of sessions; `None` if the user has turned off storing.
    pub(super) fn store(&self) -> Option<Arc<dyn Store>> {
        Some(Arc::new(FileStore::new(self.env().sessions_dir()?)))
    }

    /// Returns the function that makes sessions for an editor, a terminal or one prompt. A new session works in the
    /// working directory, a stored one in its own directory.
    pub(super) fn maker(&self, agent: &AgentArgs, settings: &Settings) -> MakeSession {
        let (factory, settings) = (self.clone(), settings.clone());
        let included: Vec<_> =
            agent.include_directories.iter().map(|dir| self.directory().join(dir)).collect();
        let interactive = agent.prompt.is_none() || agent.is_shared();
        Arc::new(move |request: &SessionRequest, storage: Storage| {
            // A stored session continues in its own directory, with the settings of that directory.
            let elsewhere = request.directory.as_deref().filter(|dir| *dir != factory.directory());
            let elsewhere = elsewhere.map(|dir| factory.in_directory(dir));
            let (factory, settings) = match &elsewhere {
                Some((factory, settings)) => (factory, settings),
                None => (&factory, &settings),
            };
            let settings_first = settings.context.include_directories.iter().chain(&included);
            let directories: Vec<_> = settings_first.chain(&request.more).cloned().collect();
            let workspace = Workspace::new(factory.directory(), &directories);
            let mode = settings.general.default_approval_mode;
            workspace
                .context("cannot work in that directory")
                .and_then(|workspace| {
                    let new = NewSession { workspace, saved: None, mode, interactive, storage };
                    factory.session(settings, new)
                })
                .map_err(|err| format!("{err:#}"))
        })
    }

    /// Makes a registry of up to `loaded` sessions. No session is unloaded for being idle; only the front end unloads
    /// sessions.
    pub(super) fn registry(
        &self,
        make: MakeSession,
        loaded: usize,
        settings: &Settings,
    ) -> Arc<Sessions> {
        let log_bytes = self.limits(settings).log_bytes;
        let limits = SessionLimits { loaded, idle: None, log_bytes };
        Sessions::with_store(make, limits, self.store())
    }

    /// Makes a registry of one session, and opens the session: a new session in the working directory, or the stored
    /// session that the user asked for.
    pub(super) async fn one_session(
        &self,
        agent: &AgentArgs,
        settings: &Settings,
        wanted: &WantedSession,
    ) -> anyhow::Result<OpenedSession> {
        let sessions = self.registry(self.maker(agent, settings), 1, settings);
        let session = self.first_session(wanted, &sessions).await?;
        Ok((sessions, session))
    }

    /// Opens the session that the process begins with: a new session in the working directory, or the stored session
    /// that the user asked for.
    pub(super) async fn first_session(
        &self,
        wanted: &WantedSession,
        sessions: &Sessions,
    ) -> anyhow::Result<Leased<LoadedSession>> {
        if let Some(id) = self.find_wanted(wanted, sessions).await? {
            return load(sessions, &id).await;
        }
        let session = sessions.create(&SessionRequest::default(), |_| ());
        session.map_err(|error| anyhow!(error.to_string()))
    }

    /// Makes a registry of one session, and loads the stored session with this id into it.
    pub(super) async fn stored_session(
        &self,
        make: MakeSession,
        settings: &Settings,
        id: &str,
    ) -> anyhow::Result<OpenedSession> {
        let sessions = self.registry(make, 1, settings);
        let session = load(&sessions, id).await?;
        Ok((sessions, session))
    }

    /// Returns the id of the stored session that the user asked for; `None` if the user wants a new session.
    async fn find_wanted(
        &self,
        wanted: &WantedSession,
        sessions: &Sessions,
    ) -> anyhow::Result<Option<String>> {
        if *wanted == WantedSession::New {
            return Ok(None);
        }
        let store = sessions.store().context(NOT_STORED)?;
        let found = find(&**store, self.directory(), wanted).await;
        found.map(|listed| Some(listed.head.id)).map_err(|error| anyhow!(error.to_string()))
    }

    /// Makes a session: opens its model, and builds its workspace, tools, policy, host and servers from the settings.
    pub(super) fn session(
        &self,
        settings: &Settings,
        NewSession { workspace, saved, mode, interactive, storage }: NewSession,
    ) -> anyhow::Result<Arc<Session>> {
        let limits = self.limits(settings);
        let terminals = Terminals::new(&self.supervisor, environment(&self.credentials, settings));
        let (model, models) = self.model(settings)?;
        // A stored session continues with the model that answered last, unless a flag names another model or the last
        // model cannot be opened any more.
        let last = storage.model().filter(|_| self.work.model.is_none());
        let model = last.and_then(|last| models.open(&last).ok()).unwrap_or(model);
        let scratch = storage
            .directory()
            .map_or_else(|| Scratch::new(self.credentials.env().state_dir()), Scratch::persistent)
            .with_stored_files(storage.files(limits.store.session_files_bytes));
        let memory = parts::memory(settings, &self.credentials);
        let search = GoogleSearch::new(&self.credentials, &limits.model);
        let sandbox = parts::sandbox(settings, self.env(), &limits.tools);
        let tools = parts::tools(settings, &memory, search, sandbox.is_some());
        let env = self.env().clone();
        let (factory, directory) = (self.clone(), self.directory().to_owned());
        // The settings are read anew for each use, so that changes in them count while the session lives.
        let again = Arc::new(move || read_settings(factory.env(), &factory.work, &directory));
        let (look, named) = (Arc::clone(&again), Arc::clone(&again));
        let policy = config::policy(&env, settings, workspace.root(), interactive);
        let workspace =
            workspace.filtered(parts::filtering(settings)).with_secrets(policy.secrets.clone());
        let custom = Arc::new(parts::custom(env.clone(), workspace.root(), limits.commands));
        let (own, project) = (Arc::clone(&custom), workspace.root().to_owned());
        // All programs that a project's settings and commands can have the agent run: the user must agree to these first.
        let executables = move || [look().executables(&project), own.executables()].concat();
        let consent = config::consent(env, workspace.root(), executables);
        let host = Host::new(workspace, terminals, scratch, limits.tools);
        let host = parts::configure_command_execution(host, settings, self.env().home(), sandbox);
        let servers = self.hub(settings, &host, again);
        let (load, agreed) = (Arc::new(move || agents::configs(&named())), Arc::clone(&consent));
        let configured = agents::configs(settings);
        let agents = Agents::new(configured, load, limits.agents, move || agreed.is_given());
        Ok(Session::new(Parts {
            model,
            models: Arc::new(models),
            memory,
            commands: Arc::new(Registry::with(custom)),
            tools,
            servers,
            agents,
            host,
            mode,
            is_attended: interactive,
            short_tools: settings.tools.short_set,
            policy,
            consent,
            max_rounds: limits.rounds,
            upkeep: Upkeep {
                compress_at: settings.model.compression_threshold,
                detect_loops: !settings.model.disable_loop_detection,
                log_bytes: limits.log_bytes,
                store_patience: limits.store.refusal,
                store_health: self.store_health.clone(),
            },
            max_session_rounds: settings.model.max_session_turns,
            notices: settings.remarks().to_vec(),
            today: Arc::new(today),
            workspace: saved,
            storage,
        }))
    }

    /// Returns the MCP servers of a session on a host. The function `again` reads the session's settings again.
    fn hub(
        &self,
        settings: &Settings,
        host: &Host,
        again: Arc<dyn Fn() -> Settings + Send + Sync>,
    ) -> Arc<Hub> {
        let directory = host.workspace.root().to_owned();
        let limits = self.limits(settings);
        // The settings can give a server a sandbox even if commands have none.
        let own = || host.sandbox_of(parts::sandbox_setup(settings, self.env(), &limits.tools));
        Hub::new(
            servers::configs(settings, &directory),
            mcp::HubSetup {
                terminals: Arc::clone(&host.terminals),
                sandbox: Some(host.sandbox.clone().unwrap_or_else(own)),
                roots: host.workspace.roots().to_owned(),
                limits: limits.mcp,
                load: Arc::new(move || servers::configs(&again(), &directory)),
                logins: config::mcp_logins(&self.credentials),
                lookup: net::system_lookup(),
            },
        )
    }
}

/// A registry of sessions, and the session that the process works with.
pub(super) type OpenedSession = (Arc<Sessions>, Leased<LoadedSession>);

/// Loads a stored session. A checkpoint is copied first, and the copy is loaded.
async fn load(sessions: &Sessions, id: &str) -> anyhow::Result<Leased<LoadedSession>> {
    let mut id = id.to_owned();
    if let (Some(store), Ok(Some(Head { tag: Some(_), .. }))) =
        (sessions.store(), sessions.head(&id).await)
    {
        id = fork(&**store, &id).await?.id;
    }
    let loaded = sessions.load(&id, Vec::new(), |_| ()).await;
    loaded.map_err(|error| anyhow!(error.to_string()))?.context("the session has ended")
}

/// The choices for a session that is about to be made.
pub(super) struct NewSession {
    /// The directories that the session works in.
    pub(super) workspace: Workspace,
    /// The place where the first directory is saved, if the directory is made for the session.
    pub(super) saved: Option<Arc<dyn SavedWorkspace>>,
    /// The approval mode to begin with.
    pub(super) mode: Mode,
    /// `true` if a person can be asked.
    pub(super) interactive: bool,
    /// The place where the session's log is stored.
    pub(super) storage: Storage,
}

/// Returns the current day in UTC.
pub(super) fn today() -> jiff::civil::Date {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// Returns the filter of the environment variables that commands of a session must not see.
pub(super) fn environment(
    credentials: &Arc<Credentials>,
    settings: &Settings,
) -> EnvironmentFilter {
    let credentials = Arc::clone(credentials);
    let redaction = settings.security.environment_variable_redaction.clone();
    EnvironmentFilter::new(move |name, value| {
        credentials.is_secret(name, value) || redaction.hides(name, value)
    })
}

/// Adds the remarks about the settings to an error because of which there is no session. Without a session, no notice
/// shows the remarks, and a faulty setting may be the cause of the error.
fn with_remarks(error: anyhow::Error, remarks: &[String]) -> anyhow::Error {
    if remarks.is_empty() {
        return error;
    }
    anyhow!("{error:#}\n{}", remarks.join("\n"))
}

/// Reads the settings for work in a directory, with the flags on top, and logs the remarks about them.
fn read_settings(env: &Env, work: &WorkArgs, directory: &Path) -> Settings {
    let settings = config::read_settings(env, directory, &work.overrides());
    for remark in settings.remarks() {
        tracing::info!("{remark}");
    }
    settings
}

/// Reads the settings for work in the directory of an environment. Returns the settings with the environment. In
/// this environment the workspace is trusted if the flag demands it, and all folders that the user has not judged if
/// the settings demand it.
pub(super) fn set_up(work: &WorkArgs, mut env: Env) -> (Env, Settings) {
    if work.skip_trust {
        env.trust_workspace();
    }
    let settings = read_settings(&env, work, env.directory());
    if settings.trusts_unjudged() {
        env.trust_unjudged();
    }
    (env, settings)
}

/// Returns the environment and the working directory of this process.
pub(super) fn env() -> anyhow::Result<Env> {
    let directory = std::env::current_dir().context("there is no working directory")?;
    Ok(Env::of_process(&directory))
}
