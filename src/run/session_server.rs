//! The A2A server beside an editor, a terminal or one prompt, whose session other clients join.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::a2a::{announce, listening_address, options};
use super::editor::editor_service;
use super::ending::EndSignals;
use super::session_factory::{OpenedSession, SessionFactory};
use crate::cli::AgentArgs;
use tandem_a2a::{self as a2a, ServeAcp, ServedSessions};
use tandem_acp::{self as acp, OwnSession};
use tandem_agent::sessions::Sessions;
use tandem_settings::Settings;
use tandem_wire::rpc;

/// A2A server on a session that a person or an editor drives; `None` if the user wants no server.
pub(super) struct SessionServer(Option<RunningServer>);

/// A running server.
struct RunningServer {
    serving: JoinHandle<anyhow::Result<()>>,
    ending: a2a::Ending,
    address: String,
    connected: watch::Receiver<usize>,
}

impl SessionServer {
    /// Starts the server if the user wants a server. Its clients can join the sessions of the registry. A client
    /// that names no session joins the first session.
    pub(super) async fn begin(
        agent: &AgentArgs,
        (sessions, first): &OpenedSession,
        factory: &SessionFactory,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let Some(port) = agent.a2a_port else { return Ok(Self(None)) };
        let own = Arc::new(OwnSession::new(first.clone()));
        let service = editor_service(agent, sessions, own, factory, settings)?;
        let limits = factory.limits(settings);
        let mut options = options(&agent.a2a, &limits, factory)?;
        options.acp = Some(over_websocket(service, limits.line_bytes));
        let connected = options.connected.subscribe();
        let listener = a2a::listen((Ipv4Addr::LOCALHOST, port).into()).await?;
        let address = options.network.url(listening_address(&listener)?);
        let ending = a2a::Ending::default();
        let (sessions, first) = (Arc::clone(sessions), first.clone());
        let served = ServedSessions::Shared { sessions, first };
        let serving = tokio::spawn(a2a::serve(listener, served, options, ending.clone()));
        Ok(Self(Some(RunningServer { serving, ending, address, connected })))
    }

    /// Returns no server.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Writes the address at which clients can join to standard error.
    pub(super) fn announce(&self) {
        if let Some(server) = &self.0 {
            announce(&server.address);
        }
    }

    /// Returns the address at which clients can join, and the current number of their connections.
    pub(super) fn join_address(&self) -> Option<(String, watch::Receiver<usize>)> {
        self.0.as_ref().map(|server| (server.address.clone(), server.connected.clone()))
    }

    /// Waits until the running turns have ended, if clients have joined. The wait ends after `time`, or with the
    /// next signal.
    pub(super) async fn drain(
        &self,
        sessions: &Sessions,
        time: Duration,
        signals: &mut EndSignals,
    ) {
        let Some(server) = self.0.as_ref().filter(|server| *server.connected.borrow() > 0) else {
            return;
        };
        server.ending.drain();
        tokio::select! {
            () = idle(sessions) => {}
            () = sleep(time) => {}
            _ = signals.next() => {}
        }
    }

    /// Ends the server and the connections of its clients.
    pub(super) async fn end(self) {
        if let Some(RunningServer { serving, ending, .. }) = self.0 {
            ending.now();
            // The server has logged its error.
            let _ = serving.await;
        }
    }
}

/// Waits until no turn runs in any of the sessions.
async fn idle(sessions: &Sessions) {
    for loaded in sessions.loaded() {
        loaded.session().turns().idle().await;
    }
}

/// Returns the function that serves an ACP client over a WebSocket.
fn over_websocket(service: acp::EditorService, max_line: usize) -> ServeAcp {
    Arc::new(move |stream, origin| {
        let service = acp::EditorService { origin, ..service.clone() };
        let options = rpc::ConnectionOptions::new(max_line);
        async move {
            let (input, output) = tokio::io::split(stream);
            if let Err(err) = acp::serve(service, input, output, options).await {
                tracing::debug!("an ACP client on a WebSocket has gone: {err:#}");
            }
        }
        .boxed()
    })
}
