//! The one place that knows every part: builds them, joins them, ends them.

mod a2a;
mod attach;
mod headless;
mod models;
mod parts;
mod replay;
mod search;
mod servers;
mod terminal;

use std::fs;
use std::io::{Write as _, stderr, stdout};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::a2a::SessionServer;
pub(crate) use self::a2a::serve;
pub(crate) use self::attach::attach;
pub(crate) use self::headless::headless;
use self::models::ModelChoice;
pub(crate) use self::replay::replay;
use self::search::GoogleSearch;
pub(crate) use self::terminal::terminal;
use crate::cli::{AgentArgs, ConfigArgs, WorkArgs};
use tandem_wire::stdio;

use crate::record;
use tandem_a2a::CLOSING;
use tandem_acp as acp;
use tandem_agent::commands::Registry;
use tandem_agent::permission::Mode;
use tandem_agent::session::{Origin, Parts, Session, Upkeep};
use tandem_agent::sessions::{LoadedSession, SessionLimits, SessionRequest, Sessions};
use tandem_mcp::{self as mcp, Hub};
use tandem_model::Model;
use tandem_model::provider::Provider;
use tandem_net as net;
use tandem_settings::limits::Limits;
use tandem_settings::{self as config, Check, Credentials, Env, KeyInput, Settings, show};
use tandem_tools::Host;
use tandem_tools::scratch::Scratch;
use tandem_tools::terminals::{EnvironmentFilter, Supervisor, Terminals};
use tandem_tools::workspace::Workspace;
use tandem_wire::rpc;

/// Maximum time for the last answers when the end has come: a cancelled call may take a second.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Exit code of a run that cannot be done as asked for.
pub(crate) const BAD_INPUT: i32 = 42;

/// Message to people who pipe a prompt to where an editor's messages are expected.
const TEXT_ON_STDIN: &str = "tandem: standard input is text, and not the messages of an editor; to run \
    a prompt, use `tandem -p PROMPT` (what comes on standard input is put before it)";

/// Time between two checks whether anybody reads, where nothing tells.
const LOOK: Duration = Duration::from_millis(100);

/// Way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The editor hung up, and all that it asked for is answered.
    Done,
    /// The editor hung up, and what it asked for took too long.
    TimedOut,
    /// Nobody reads the answers.
    Unread,
    /// A signal; its number.
    Signal(i32),
    /// The prompt of a run without a person came to nothing; the exit code.
    Failed(i32),
}

/// Keeps other programs of the same user from reading this process's environment and memory, which
/// have keys in them. To be called first. Only Linux has this; the programs that are started here
/// can be looked into as ever, and are given no key.
pub(crate) fn keep_others_out() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Only a filter of system calls could forbid it, and whoever set that up knows.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Serves an editor over standard input and output.
pub(crate) async fn editor(agent: &AgentArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (making, settings) = Making::new(&agent.work)?;
    let (sessions, loaded) = making.one_session(agent, &settings)?;
    let session = loaded.session();
    let Making { credentials, supervisor, .. } = &making;
    let limits = making.limits(&settings);
    let joined = SessionServer::begin(agent, &loaded, credentials, &limits).await?;
    joined.announce();
    let input_ended = CancellationToken::new();
    let options = rpc::Options {
        tap: agent.record.as_deref().map(record::to_file).transpose()?,
        input_ended: input_ended.clone(),
        // Whoever asks for the protocol by name is answered in it.
        refuse_text: !agent.acp,
        ..rpc::Options::new(limits.line_bytes)
    };
    let served = acp::serve(
        acp::Service {
            session: Arc::clone(session),
            origin: Origin::Editor,
            authenticate: authenticate(session, credentials),
        },
        stdio::input(),
        stdio::output(),
        options,
    );
    tokio::pin!(served);
    let end = tokio::select! {
        served = &mut served => match served {
            Ok(()) => ExitReason::Done,
            Err(err) if err.is::<rpc::NoMessages>() => {
                // If standard error is closed there is nobody to tell.
                let _ = writeln!(stderr(), "{TEXT_ON_STDIN}");
                ExitReason::Failed(BAD_INPUT)
            }
            Err(err) => {
                tracing::warn!("{err:#}");
                ExitReason::Unread
            }
        },
        () = stdio::reader_gone() => ExitReason::Unread,
        end = drained(&input_ended, agent.drain_timeout) => end,
        signal = signals.next() => ExitReason::Signal(signal),
    };
    let mut answering = matches!(end, ExitReason::Signal(_) | ExitReason::TimedOut);
    if matches!(end, ExitReason::Signal(_)) {
        // The editor is answered all the while.
        tokio::select! {
            () = joined.drain(session, agent.drain_timeout, &mut signals) => {}
            _ = &mut served => answering = false,
        }
    }
    sessions.close(CLOSING);
    if answering {
        // What was asked for is answered as cancelled, if anybody listens.
        input_ended.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, served).await;
    }
    joined.end().await;
    supervisor.end_all().await;
    Ok(end)
}

/// Returns the environment variables that commands of a session must not see.
fn environment(credentials: &Arc<Credentials>, settings: &Settings) -> EnvironmentFilter {
    let credentials = Arc::clone(credentials);
    let redaction = settings.security.environment_variable_redaction.clone();
    EnvironmentFilter::new(move |name, value| {
        credentials.is_secret(name, value) || redaction.hides(name, value)
    })
}

/// Reads what is set up for work in a directory.
fn read_settings(env: &Env, work: &WorkArgs, directory: &Path) -> Settings {
    let settings = config::read_settings(env, directory, &work.given());
    for remark in settings.remarks() {
        tracing::info!("{remark}");
    }
    settings
}

/// Reads what is set up for work in the directory that an environment is for. It also decides
/// whether folders there are trusted of which nobody has said anything.
fn set_up(work: &WorkArgs, mut env: Env) -> (Env, Settings) {
    if work.skip_trust {
        env.trust_workspace();
    }
    let settings = read_settings(&env, work, env.directory());
    if settings.trusts_unjudged() {
        env.trust_unjudged();
    }
    (env, settings)
}

/// Parts that sessions are made with.
#[derive(Clone)]
struct Making {
    work: WorkArgs,
    credentials: Arc<Credentials>,
    supervisor: Arc<Supervisor>,
}

impl Making {
    /// Builds the parts for the working directory; returns them with its settings.
    fn new(work: &WorkArgs) -> anyhow::Result<(Self, Settings)> {
        let (env, settings) = set_up(work, env()?);
        let credentials = Credentials::new(env);
        let supervisor = Supervisor::of_agent();
        Ok((Self { work: work.clone(), credentials, supervisor }, settings))
    }

    fn env(&self) -> &Env {
        self.credentials.env()
    }

    fn directory(&self) -> &Path {
        self.env().directory()
    }

    /// Returns the same for work in another directory, and what is set up there: nothing counts that
    /// is set up where the agent was started, but for its flags.
    fn in_directory(&self, directory: &Path) -> (Self, Settings) {
        let (env, settings) = set_up(&self.work, self.env().in_directory(directory));
        let credentials = self.credentials.in_environment(env);
        (Self { credentials, ..self.clone() }, settings)
    }

    fn limits(&self, settings: &Settings) -> Limits {
        settings.limits(&self.work.limits)
    }

    /// The model to begin with, and those there are beside it.
    fn model(&self, settings: &Settings) -> anyhow::Result<(Arc<dyn Model>, ModelChoice)> {
        let limits = self.limits(settings);
        let models =
            ModelChoice::new(Arc::clone(&self.credentials), limits.model, settings.model.provider);
        Ok((models.first(settings)?, models))
    }

    /// Makes the registry of a program that has one session, and that session, in the working
    /// directory.
    fn one_session(
        &self,
        agent: &AgentArgs,
        settings: &Settings,
    ) -> anyhow::Result<(Arc<Sessions>, Arc<LoadedSession>)> {
        let (making, settings) = (self.clone(), settings.clone());
        let included: Vec<_> =
            agent.include_directories.iter().map(|dir| self.directory().join(dir)).collect();
        let interactive = agent.prompt.is_none() || agent.a2a_port.is_some();
        let maker = move |_: &SessionRequest| {
            let settings_first = settings.context.include_directories.iter().chain(&included);
            let directories: Vec<_> = settings_first.cloned().collect();
            let workspace = Workspace::new(making.directory(), &directories);
            let mode = settings.general.default_approval_mode;
            workspace
                .context("cannot work in that directory")
                .and_then(|workspace| making.session(&settings, workspace, mode, interactive))
                .map_err(|err| format!("{err:#}"))
        };
        let limits = SessionLimits { loaded: 1, idle: None };
        let sessions = Sessions::new(Arc::new(maker), limits);
        let session = sessions.create(&SessionRequest::default(), |_| ());
        let session = session.map_err(|error| anyhow!(error.to_string()))?;
        Ok((sessions, session))
    }

    fn session(
        &self,
        settings: &Settings,
        workspace: Workspace,
        mode: Mode,
        interactive: bool,
    ) -> anyhow::Result<Arc<Session>> {
        let limits = self.limits(settings);
        let terminals = Terminals::new(&self.supervisor, environment(&self.credentials, settings));
        let (model, models) = self.model(settings)?;
        let memory = parts::memory(settings, &self.credentials);
        let search = GoogleSearch::new(&self.credentials, &limits.model);
        let tools = parts::tools(settings, &memory, search);
        let env = self.env().clone();
        // What projects can have the agent run of their own accord is listed here.
        let (making, directory) = (self.clone(), workspace.root().to_owned());
        let again = Arc::new(move || read_settings(making.env(), &making.work, &directory));
        let look = Arc::clone(&again);
        let policy = config::policy(&env, settings, workspace.root(), interactive);
        let workspace =
            workspace.filtered(parts::filtering(settings)).with_secrets(policy.secrets.clone());
        let custom = Arc::new(parts::custom(env.clone(), workspace.root(), limits.commands));
        let own = Arc::clone(&custom);
        let executables = move || [look().executables(), own.executables()].concat();
        let consent = config::consent(env, workspace.root(), executables);
        let directory = workspace.root().to_owned();
        let servers = Hub::new(
            servers::of(settings, &directory),
            mcp::Setup {
                terminals: Arc::clone(&terminals),
                roots: workspace.roots().to_owned(),
                limits: limits.mcp,
                load: Arc::new(move || servers::of(&again(), &directory)),
                logins: config::mcp_logins(&self.credentials),
                lookup: net::system_lookup(),
            },
        );
        Ok(Session::new(Parts {
            model,
            models: Arc::new(models),
            memory,
            commands: Arc::new(Registry::with(custom)),
            tools,
            servers,
            host: Host::new(
                workspace,
                terminals,
                Scratch::new(self.credentials.env().state_dir()),
                limits.tools,
            ),
            mode,
            policy,
            consent,
            max_rounds: limits.rounds,
            upkeep: Upkeep {
                compress_at: settings.model.compression_threshold,
                detect_loops: !settings.model.disable_loop_detection,
                log_bytes: limits.log_bytes,
            },
            max_session_rounds: settings.model.max_session_turns,
            notices: settings.remarks().to_vec(),
            today: Arc::new(today),
        }))
    }
}

/// The day that it is, in UTC.
fn today() -> jiff::civil::Date {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// Waits until the input has ended and the time for what was asked for is up too.
async fn drained(input_ended: &CancellationToken, timeout: Duration) -> ExitReason {
    input_ended.cancelled().await;
    if tokio::time::timeout(timeout, unread()).await.is_ok() {
        return ExitReason::Unread;
    }
    tracing::warn!("standard input ended {timeout:?} ago, and what it asked for has not");
    ExitReason::TimedOut
}

/// Waits until nobody can read standard output any more.
async fn unread() {
    while !stdio::nobody_reads() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the file for logs that are wanted without a place for them; makes its directory.
pub(crate) fn debug_log() -> anyhow::Result<PathBuf> {
    let dir = env()?.state_dir().context("there is no home directory: set HOME, or --log-file")?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.join("debug.log"))
}

/// Shows what is set, and where.
pub(crate) fn config(config: &ConfigArgs) -> anyhow::Result<()> {
    let (env, settings) = set_up(&config.work, env()?);
    let text = if config.json {
        format!("{:#}\n", show::json(&settings))
    } else {
        show::text(&settings, env.var("HOME").map(Path::new))
    };
    stdout().write_all(text.as_bytes()).context("standard output cannot be written")
}

/// Asks for a provider's API key, checks it, and stores it.
pub(crate) async fn login(provider: Provider) -> anyhow::Result<()> {
    let credentials = credentials()?;
    config::login(&credentials, &check(), provider, KeyInput::stdin(provider), &mut stderr())
        .await
        .map_err(|why| anyhow!(why))
}

/// Forgets a provider's stored key.
pub(crate) fn logout(provider: Provider) -> anyhow::Result<()> {
    config::logout(&*credentials()?, provider, &mut stderr()).map_err(|why| anyhow!(why))
}

fn credentials() -> anyhow::Result<Arc<Credentials>> {
    Ok(Credentials::new(env()?))
}

fn env() -> anyhow::Result<Env> {
    let directory = std::env::current_dir().context("there is no working directory")?;
    Ok(Env::of_process(&directory))
}

fn check() -> Check {
    Arc::new(|provider, endpoint| models::check(provider, endpoint).boxed())
}

/// Returns what `authenticate` does: nothing if the model needs no key or has one.
fn authenticate(session: &Arc<Session>, credentials: &Arc<Credentials>) -> acp::Authenticate {
    let (session, credentials) = (Arc::clone(session), Arc::clone(credentials));
    Arc::new(move || {
        let (session, credentials) = (Arc::clone(&session), Arc::clone(&credentials));
        async move {
            let (provider, _) = Provider::of(&session.model(), Provider::Gemini);
            credentials.refresh(provider);
            if session.ready().is_ok() {
                return Ok(());
            }
            config::authenticate(&credentials, &check(), provider).await
        }
        .boxed()
    })
}

/// The signals that end the process.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The number of the first that comes.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }

    /// The number of the first that is no interrupt.
    async fn end(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }
}
