//! The one place that knows every part: builds them, joins them, ends them.

mod a2a;
mod headless;
mod models;
mod terminal;

use std::io::stderr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::a2a::Joined;
pub use self::a2a::serve;
pub use self::headless::headless;
use self::models::Choice;
pub use self::terminal::terminal;
use crate::cli::{Agent, Work};
use crate::commands::Registry;
use crate::config::{self, Check, Credentials, Env, Input, Trust};
use crate::frontends::acp;
use crate::model::Model;
use crate::model::provider::Provider;
use crate::permission::Mode;
use crate::session::{Memory, Origin, Parts, Places, Session};
use crate::tools::process::Processes;
use crate::tools::workspace::Workspace;
use crate::{record, rpc, stdio, tools};

/// How long the last answers may take when the end has come: a cancelled call may take a second.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often it is asked whether anybody reads, where nothing tells.
const LOOK: Duration = Duration::from_millis(100);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
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

/// Serves an editor over standard input and output.
pub async fn editor(agent: &Agent) -> anyhow::Result<End> {
    let mut signals = Signals::listen()?;
    let credentials = credentials()?;
    let processes = processes(&credentials);
    let workspace = Workspace::new(credentials.env().directory(), &agent.include_directories)
        .context("cannot work in that directory")?;
    let making = Making {
        work: agent.work.clone(),
        credentials: Arc::clone(&credentials),
        processes: Arc::clone(&processes),
    };
    let session = making.session(workspace, agent.work.mode())?;
    let joined = Joined::begin(agent, &session, &credentials).await?;
    joined.announce();
    let input_ended = CancellationToken::new();
    let options = rpc::Options {
        max_line: agent.work.limits().line_bytes,
        tap: agent.record.as_deref().map(record::to_file).transpose()?,
        input_ended: input_ended.clone(),
    };
    let served = acp::serve(
        acp::Service {
            session: Arc::clone(&session),
            origin: Origin::Editor,
            authenticate: authenticate(&session, &credentials),
        },
        stdio::input(),
        stdio::output(),
        options,
    );
    tokio::pin!(served);
    let end = tokio::select! {
        served = &mut served => match served {
            Ok(()) => End::Done,
            Err(err) => {
                tracing::warn!("{err:#}");
                End::Unread
            }
        },
        () = stdio::reader_gone() => End::Unread,
        end = drained(&input_ended, agent.drain_timeout) => end,
        signal = signals.next() => End::Signal(signal),
    };
    session.close();
    if matches!(end, End::Signal(_) | End::TimedOut) {
        // What was asked for is answered as cancelled, if anybody listens.
        input_ended.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, served).await;
    }
    joined.end().await;
    processes.end_all().await;
    Ok(end)
}

/// The programs that are run; none is told a secret.
fn processes(credentials: &Arc<Credentials>) -> Arc<Processes> {
    let credentials = Arc::clone(credentials);
    Processes::of_agent(move |name, value| credentials.is_secret(name, value))
}

/// What sessions are made with.
struct Making {
    work: Work,
    credentials: Arc<Credentials>,
    processes: Arc<Processes>,
}

impl Making {
    fn models(&self) -> Choice {
        Choice::new(Arc::clone(&self.credentials), self.work.limits().model)
    }

    /// The model to begin with.
    fn model(&self, models: &Choice) -> anyhow::Result<Arc<dyn Model>> {
        models.first(self.work.model.as_deref())
    }

    fn session(&self, workspace: Workspace, mode: Mode) -> anyhow::Result<Arc<Session>> {
        let (limits, models) = (self.work.limits(), self.models());
        let memory = memory(&self.credentials);
        let mut tools = tools::all();
        tools.extend(memory.user_file().map(tools::save_memory));
        let env = self.credentials.env().clone();
        // What projects can have the agent run of their own accord is listed here.
        let consent = config::consent(env, workspace.root(), Vec::new);
        Ok(Session::new(Parts {
            model: self.model(&models)?,
            models: Arc::new(models),
            memory,
            commands: Arc::new(Registry::default()),
            tools,
            workspace: Arc::new(workspace),
            processes: Arc::clone(&self.processes),
            mode,
            consent,
            limits: limits.tools,
            max_rounds: limits.rounds,
        }))
    }
}

/// Waits until the input has ended and the time for what was asked for is up too.
async fn drained(input_ended: &CancellationToken, timeout: Duration) -> End {
    input_ended.cancelled().await;
    if tokio::time::timeout(timeout, unread()).await.is_ok() {
        return End::Unread;
    }
    tracing::warn!("standard input ended {timeout:?} ago, and what it asked for has not");
    End::TimedOut
}

/// Waits until nobody can read standard output any more.
async fn unread() {
    while !stdio::nobody_reads() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Asks for a provider's API key, checks it, and stores it.
pub async fn login(provider: Provider) -> anyhow::Result<()> {
    let credentials = credentials()?;
    config::login(&credentials, &check(), provider, Input::stdin(provider), &mut stderr())
        .await
        .map_err(|why| anyhow!(why))
}

/// Forgets a provider's stored key.
pub fn logout(provider: Provider) -> anyhow::Result<()> {
    config::logout(&*credentials()?, provider, &mut stderr()).map_err(|why| anyhow!(why))
}

fn credentials() -> anyhow::Result<Arc<Credentials>> {
    let directory = std::env::current_dir().context("there is no working directory")?;
    Ok(Credentials::new(Env::of_process(&directory)))
}

fn check() -> Check {
    Arc::new(|provider, endpoint| models::check(provider, endpoint).boxed())
}

/// What `authenticate` does: nothing if the model needs no key or has one.
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

/// What people have written down for the model, but for folders that they have said not to trust.
fn memory(credentials: &Arc<Credentials>) -> Memory {
    let env = credentials.env();
    let user = [env.gemini_dir(), env.config_dir()].into_iter().flatten().collect();
    let places = Places { user, home: env.home(), ..Places::default() };
    let credentials = Arc::clone(credentials);
    Memory::new(places, move |dir| config::trust(credentials.env(), dir) > Trust::Never)
}

/// The signals that end the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
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
}
