//! The one place that knows every part: builds them, joins them, ends them.

use std::fs;
use std::io::{self, stderr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::Agent;
use crate::config::{self, Check, Credentials, Env, Input};
use crate::frontends::acp;
use crate::model::catalog::Catalog;
use crate::model::gemini::{self, Gemini};
use crate::model::lazy::Lazy;
use crate::model::replay::Replay;
use crate::model::{self, Model};
use crate::session::{Parts, Session};
use crate::tools::process::Processes;
use crate::tools::workspace::Workspace;
use crate::{record, rpc, stdio, tools};

/// How long the last answers may take when the end has come: a cancelled call may take a second.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How often it is asked whether anybody reads when the input has ended: only a pipe tells.
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
}

/// Serves an editor over standard input and output.
pub async fn editor(agent: &Agent) -> anyhow::Result<End> {
    let mut signals = Signals::listen()?;
    let limits = agent.limits();
    let directory = std::env::current_dir().context("there is no working directory")?;
    let workspace = Workspace::new(&directory, &agent.include_directories)
        .context("cannot work in that directory")?;
    let credentials = Credentials::new(Env::of_process(&directory));
    let processes = {
        let credentials = Arc::clone(&credentials);
        Processes::of_agent(move |name, value| credentials.is_secret(name, value))
    };
    let session = Session::new(Parts {
        model: open(agent, &credentials, limits.model)?,
        tools: tools::all(),
        workspace: Arc::new(workspace),
        processes: Arc::clone(&processes),
        mode: agent.mode(),
        limits: limits.tools,
        max_rounds: limits.rounds,
    });
    let input_ended = CancellationToken::new();
    let options = rpc::Options {
        max_line: limits.line_bytes,
        tap: agent.record.as_deref().map(record::to_file).transpose()?,
        input_ended: input_ended.clone(),
    };
    let served = acp::serve(
        Arc::clone(&session),
        authenticate(&session, &credentials),
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
    processes.end_all().await;
    Ok(end)
}

/// Waits until the input has ended and the time for what was asked for is up too.
async fn drained(input_ended: &CancellationToken, timeout: Duration) -> End {
    input_ended.cancelled().await;
    let unread = async {
        while !stdio::nobody_reads() {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(timeout, unread).await.is_ok() {
        return End::Unread;
    }
    tracing::warn!("standard input ended {timeout:?} ago, and what it asked for has not");
    End::TimedOut
}

/// Asks for a Gemini API key, checks it, and stores it.
pub async fn login() -> anyhow::Result<()> {
    let credentials = credentials()?;
    config::login(&credentials, &check(), Input::stdin(), &mut stderr())
        .await
        .map_err(|why| anyhow!(why))
}

/// Forgets the stored key.
pub fn logout() -> anyhow::Result<()> {
    config::logout(&*credentials()?, &mut stderr()).map_err(|why| anyhow!(why))
}

fn credentials() -> anyhow::Result<Arc<Credentials>> {
    let directory = std::env::current_dir().context("there is no working directory")?;
    Ok(Credentials::new(Env::of_process(&directory)))
}

fn check() -> Check {
    Arc::new(|endpoint| async move { gemini::check(&endpoint).await }.boxed())
}

/// What `authenticate` does: nothing if the model needs no key or has one.
fn authenticate(session: &Arc<Session>, credentials: &Arc<Credentials>) -> acp::Authenticate {
    let (session, credentials) = (Arc::clone(session), Arc::clone(credentials));
    Arc::new(move || {
        let (session, credentials) = (Arc::clone(&session), Arc::clone(&credentials));
        async move {
            credentials.refresh();
            if session.ready().is_ok() {
                return Ok(());
            }
            config::authenticate(&credentials, &check()).await
        }
        .boxed()
    })
}

/// The model that is meant. Errors in what the user wrote about it show at once for a script and
/// for `--thinking`, else with the first prompt: nothing of it is needed before.
fn open(
    agent: &Agent,
    credentials: &Arc<Credentials>,
    options: gemini::Options,
) -> anyhow::Result<Arc<dyn Model>> {
    let env = credentials.env();
    let id = agent.model.as_deref().or_else(|| env.var("GEMINI_MODEL"));
    if id == Some("replay") {
        return Ok(Arc::new(Replay::demo()));
    }
    if let Some(script) = id.and_then(|id| id.strip_prefix("replay:")) {
        return Ok(Arc::new(Replay::open(Path::new(script))?));
    }
    let (id, config_dir) = (id.map(str::to_owned), env.config_dir());
    let (connect, asked) = (credentials.connect(), credentials.connect());
    let settled = options.thinking.is_some();
    let model = Lazy::new(
        move || asked().map(drop).map_err(model::Error::NotAuthenticated),
        move || {
            let catalog = catalog(config_dir.as_deref()).map_err(model::Error::Rejected)?;
            let model = catalog.lookup(id.as_deref().unwrap_or(catalog.default_model()));
            Ok(Arc::new(Gemini::new(model, Arc::clone(&connect), options.clone())?))
        },
    );
    if settled {
        model.get().map_err(Clone::clone)?;
    }
    Ok(Arc::new(model))
}

/// The models that are known, with what the user has written in `models.json`.
fn catalog(config_dir: Option<&Path>) -> Result<Catalog, String> {
    let catalog = Catalog::embedded();
    let Some(path) = config_dir.map(|dir| dir.join("models.json")) else { return Ok(catalog) };
    let wrong = |why| format!("{} is wrong: {why}", path.display());
    match fs::read_to_string(&path) {
        Ok(json) => catalog.with_overrides(&json).map_err(wrong),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(catalog),
        Err(err) => Err(format!("{} cannot be read: {err}", path.display())),
    }
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
