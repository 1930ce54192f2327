//! The program as the agent of an editor, which speaks ACP over standard input and output.

use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::attach::token;
use super::ending::{BAD_INPUT, EndSignals, ExitReason, LAST_WORDS, drained, wait_all_stored};
use super::keys::EditorLogin;
use super::models::first_provider;
use super::retention::Cleanup;
use super::session_factory::SessionFactory;
use super::session_server::SessionServer;
use crate::cli::AgentArgs;
use crate::record;
use tandem_acp::{self as acp, ConnectAcp, OwnSession};
use tandem_agent::session::{AGENT_ENDS, Origin, Store};
use tandem_agent::sessions::{MakeSession, Sessions, WantedSession};
use tandem_settings::{Credentials, Settings};
use tandem_tui::{self as tui, AgentAddress, AttachableAgent};
use tandem_wire::{rpc, stdio};

/// Message to a user who pipes a prompt to standard input, where an editor's messages are expected.
const TEXT_ON_STDIN: &str = "tandem: standard input is text, and not the messages of an editor; to run \
    a prompt, use `tandem -p PROMPT` (what comes on standard input is put before it)";

/// Serves an editor over standard input and output.
///
/// 1. Makes the registry of sessions, and the first session if it is needed at once.
/// 2. Opens the session to A2A clients if the user wants that.
/// 3. Serves the editor until the editor hangs up, standard output has no reader any more, or a signal comes.
/// 4. After a signal, waits for the running turns if A2A clients have joined.
/// 5. Closes the sessions, answers the open requests, ends the commands, and waits until the sessions are stored.
pub(crate) async fn editor(agent: &AgentArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (factory, settings) = SessionFactory::new(&agent.work)?;
    let limits = factory.limits(&settings);
    let (make, cleanup) =
        cleaning(factory.maker(agent, &settings), settings.clone(), factory.store());
    let sessions = factory.registry(make, limits.a2a.sessions, &settings);
    // Only an editor that speaks ACP 0.0.9 needs the process's own session, and the first message tells the version.
    // So a new session is made after that message. A session is made at once if other clients can join it, or if the
    // user asks for a stored one.
    let wanted = agent.wanted_session();
    let first = if wanted == WantedSession::New && !agent.is_shared() {
        None
    } else {
        Some(factory.first_session(&wanted, &sessions).await?)
    };
    let joined = match &first {
        Some(first) => {
            let opened = (Arc::clone(&sessions), first.clone());
            SessionServer::begin(agent, &opened, &factory, &settings).await?
        }
        None => SessionServer::none(),
    };
    joined.announce();
    let input_ended = CancellationToken::new();
    let options = rpc::ConnectionOptions {
        tap: agent.record.as_deref().map(record::to_file).transpose()?,
        input_ended: input_ended.clone(),
        // With `--acp` the caller asks for the protocol explicitly, so text that is no message gets an error of the
        // protocol.
        refuse_text: !agent.acp,
        ..rpc::ConnectionOptions::new(limits.line_bytes)
    };
    let own = Arc::new(first.map_or_else(OwnSession::default, OwnSession::new));
    let service = editor_service(agent, &sessions, own, &factory, &settings)?;
    let closing = service.closing.clone();
    let mut served = pin!(acp::serve(service, stdio::input(), stdio::output(), options));
    let end = tokio::select! {
        served = &mut served => hung_up(served, &sessions),
        () = stdio::reader_gone() => unread(&sessions),
        end = drained(&input_ended, agent.drain_timeout) => end,
        signal = signals.next() => ExitReason::Signal(signal),
    };
    let mut answering = matches!(end, ExitReason::Signal(_) | ExitReason::TimedOut);
    if matches!(end, ExitReason::Signal(_)) {
        // `served` is polled during the drain, so that the editor still gets answers.
        tokio::select! {
            () = joined.drain(&sessions, agent.drain_timeout, &mut signals) => {}
            _ = &mut served => answering = false,
        }
    }
    sessions.close(AGENT_ENDS);
    closing.cancel();
    if answering {
        // Lets `served` answer the open requests as cancelled, for an editor that still reads.
        input_ended.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, served).await;
    }
    joined.end().await;
    factory.supervisor.end_all().await;
    let cleanup = cleanup.lock().take();
    if let Some(cleanup) = cleanup {
        cleanup.end().await;
    }
    wait_all_stored(&sessions).await;
    Ok(end)
}

/// Wraps the function that makes sessions: when it makes the first session, the removal of old sessions begins. Also
/// returns the place that holds the removal from then on.
fn cleaning(
    make: MakeSession,
    settings: Settings,
    store: Option<Arc<dyn Store>>,
) -> (MakeSession, Arc<Mutex<Option<Cleanup>>>) {
    let cleanup = Arc::<Mutex<Option<Cleanup>>>::default();
    let begun = Arc::clone(&cleanup);
    let make: MakeSession = Arc::new(move |request, storage| {
        let session = make(request, storage)?;
        let clean = || Cleanup::begin(&settings, store.as_ref(), &session);
        begun.lock().get_or_insert_with(clean);
        Ok(session)
    });
    (make, cleanup)
}

/// Returns the end of a run after the editor has stopped reading. If no turn runs at this time, the editor has missed
/// no answer, and the run is done.
fn unread(sessions: &Sessions) -> ExitReason {
    let is_busy = sessions.list().iter().any(|session| session.busy);
    if is_busy { ExitReason::Unread } else { ExitReason::Done }
}

/// Returns the end of a run after the connection to the editor has ended.
fn hung_up(served: anyhow::Result<()>, sessions: &Sessions) -> ExitReason {
    match served {
        Ok(()) => ExitReason::Done,
        Err(err) if err.is::<rpc::NoMessages>() => {
            // If standard error is closed there is nobody to tell.
            let _ = writeln!(stderr(), "{TEXT_ON_STDIN}");
            ExitReason::Failed(BAD_INPUT)
        }
        Err(err) => {
            tracing::warn!("{err:#}");
            unread(sessions)
        }
    }
}

/// Returns the service for ACP clients: the editor that started this process, and clients over a WebSocket.
pub(super) fn editor_service(
    agent: &AgentArgs,
    sessions: &Arc<Sessions>,
    own: Arc<OwnSession>,
    factory: &SessionFactory,
    settings: &Settings,
) -> anyhow::Result<acp::EditorService> {
    let (model, _) = factory.model(settings)?;
    let provider = first_provider(&factory.credentials, settings);
    let login =
        EditorLogin::new(&factory.credentials, factory.login_keys(settings), model, provider);
    let sessions = Arc::clone(sessions);
    let line_bytes = factory.limits(settings).line_bytes;
    let token_file = agent.token_file().map(ToOwned::to_owned);
    let connect_acp = acp_connector(token_file, &factory.credentials, line_bytes);
    Ok(acp::EditorService {
        sessions,
        own,
        origin: Origin::Editor,
        login,
        connect_acp,
        closing: CancellationToken::new(),
    })
}

/// Returns the function that connects to another tandem process on this machine, to join its sessions.
fn acp_connector(
    token_file: Option<PathBuf>,
    credentials: &Arc<Credentials>,
    line_bytes: usize,
) -> ConnectAcp {
    let credentials = Arc::clone(credentials);
    Arc::new(move |port| {
        let agent = token(token_file.as_deref(), &credentials).map(|token| AttachableAgent {
            address: AgentAddress::Port(port),
            token,
            line_bytes,
        });
        async move { tui::connect_acp(agent.map_err(|err| err.to_string())?).await }.boxed()
    })
}
