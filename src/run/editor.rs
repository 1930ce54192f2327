//! An editor over standard input and output.

use std::io::{Write as _, stderr};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::a2a::SessionServer;
use super::ending::{BAD_INPUT, EndSignals, ExitReason, LAST_WORDS, drained, saved};
use super::keys::authenticate;
use super::making::Making;
use super::retention::Cleanup;
use crate::cli::AgentArgs;
use crate::record;
use tandem_a2a::CLOSING;
use tandem_acp as acp;
use tandem_agent::session::Origin;
use tandem_wire::{rpc, stdio};

/// Message to people who pipe a prompt to where an editor's messages are expected.
const TEXT_ON_STDIN: &str = "tandem: standard input is text, and not the messages of an editor; to run \
    a prompt, use `tandem -p PROMPT` (what comes on standard input is put before it)";

/// Serves an editor over standard input and output.
pub(crate) async fn editor(agent: &AgentArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (making, settings) = Making::new(&agent.work)?;
    let (sessions, loaded) = making.one_session(agent, &settings, &agent.wanted_session()).await?;
    let session = loaded.session();
    let Making { credentials, supervisor, .. } = &making;
    let limits = making.limits(&settings);
    let joined = SessionServer::begin(agent, &loaded, credentials, &limits).await?;
    joined.announce();
    let input_ended = CancellationToken::new();
    let options = rpc::ConnectionOptions {
        tap: agent.record.as_deref().map(record::to_file).transpose()?,
        input_ended: input_ended.clone(),
        // Whoever asks for the protocol by name is answered in it.
        refuse_text: !agent.acp,
        ..rpc::ConnectionOptions::new(limits.line_bytes)
    };
    let served = acp::serve(
        acp::EditorService {
            session: Arc::clone(session),
            origin: Origin::Editor,
            authenticate: authenticate(session, credentials),
        },
        stdio::input(),
        stdio::output(),
        options,
    );
    tokio::pin!(served);
    let cleanup = Cleanup::begin(&settings, &sessions, session);
    let end = tokio::select! {
        served = &mut served => hung_up(served),
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
    cleanup.end().await;
    saved(&sessions).await;
    Ok(end)
}

/// Returns how a connection ended that was served to its end.
fn hung_up(served: anyhow::Result<()>) -> ExitReason {
    match served {
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
    }
}
