//! The A2A server: other agents and tools drive and watch sessions over HTTP, Server-Sent Events and
//! WebSocket.
//!
//! In A2A, a session is a *context*. The modules are layers, and each imports only from those above it in
//! this list:
//!
//! - forms: `dialect` and `flat` write tasks and events; `fields`, `read`, `attachments` and `requests` parse
//!   calls; `tool_call`, `results` and `updates` translate the projection of a session;
//! - sessions: `session_records` reads a log, `context` is a session with its tasks, `contexts` locates or begins a
//!   session, `follow` and `subscription` read a session's events;
//! - state: `turns` begins turns and answers questions, `messages` remembers sent messages, `server` holds
//!   the whole state, `takeover` resumes sessions that other processes left;
//! - methods: `methods` has the methods of the protocol, with `list`, `push`, `commands`, `card` and
//!   `card_signature`; `calls` and `sending` have the stages that calls and messages pass; `orders` passes calls on to
//!   the node that owns the session;
//! - transports: `http`, `http_json`, `rest`, `sse`, `ws` and `attach`, behind `guard`; `connection` carries
//!   them; `webhook` sends notifications; `monitoring` reports health; `order_executor` carries out calls of
//!   other nodes' clients.
//!
//! Callers, quotas, the audit log, TLS, proxies and the room for connections are below all of these, in the crate
//! `tandem_serve`.

pub mod webhook;

mod attach;
mod attachments;
mod body;
mod calls;
mod card;
mod card_signature;
mod commands;
mod connection;
mod context;
mod contexts;
mod dialect;
mod envelope;
mod flat;
mod follow;
mod frames;
mod guard;
mod http;
mod http_json;
mod list;
mod messages;
mod methods;
mod monitoring;
mod notifiers;
mod order_executor;
mod orders;
mod push;
mod read;
mod requests;
mod rest;
mod results;
mod sending;
mod server;
mod servers;
mod session_records;
mod sse;
mod subscription;
mod takeover;
mod terminals;
mod tool_call;
mod turns;
mod updates;
mod ws;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use axum::Router;
use futures::FutureExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub use self::card_signature::CardKey;
use self::contexts::Contexts;
pub use self::contexts::{IsShown, ServedSessions};
use self::messages::Messages;
pub use self::monitoring::{ServerHealth, monitor};
use self::server::A2aServer;
pub use self::server::{Ending, ServeAcp, ServerOptions};
use self::servers::ServerPermissions;
use self::webhook::Webhooks;
use tandem_agent::commands::Registry;
use tandem_agent::session::AGENT_ENDS;
use tandem_net::Reach;
use tandem_serve::audit::Audit;
use tandem_serve::busy;
use tandem_serve::connection_room::ConnectionRoom;
use tandem_serve::network::ServerNetwork;
use tandem_serve::principals::Principals;
use tandem_serve::proxy::PeerAddress;
use tandem_serve::quotas::Meter;
use tandem_serve::refusals::Refusals;

/// Maximum time for the last turns to end when the server ends: stopping a tool call may take a second.
const LAST_TURNS: Duration = Duration::from_secs(2);

/// Maximum time for each of the last steps, such as sending the last responses, when the server ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Maximum time for sending the last notifications when the server ends.
const LAST_PUSHES: Duration = Duration::from_secs(2);

/// Pause after a failed accept, for example after a failure for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum interval between two sweeps of unused sessions and unanswered questions.
const MAX_SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Interval between two exchanges of usage with other nodes.
const USAGE_EXCHANGE_INTERVAL: Duration = Duration::from_secs(5);

/// Binds an address of this machine; port 0 binds any free port.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: try another port, or 0 for any that is free")
    })
}

/// Serves clients until `ending` tells the server to end.
///
/// At the end:
///
/// 1. Refuse new connections, and wait until the turns have ended, or `ending` demands the end at once.
/// 2. Stop the remaining turns, and publish their usage.
/// 3. End the streams, and wait for the last responses.
/// 4. Send the last notifications, and finish the audit log.
pub async fn serve(
    listener: TcpListener,
    sessions: ServedSessions,
    mut options: ServerOptions,
    ending: Ending,
) -> anyhow::Result<()> {
    // The user of this machine drives a shared session, and may use MCP servers on this machine and in its
    // network.
    let near = options.private_servers || matches!(sessions, ServedSessions::Shared { .. });
    let reach = if near { Reach::Private } else { Reach::Public };
    let servers = ServerPermissions { programs: options.programs, reach };
    let address = listener.local_addr().context("the port is not known")?;
    let network = ServerNetwork::new(std::mem::take(&mut options.network), address);
    let principals = Principals::new(std::mem::take(&mut options.access));
    principals.begin().await;
    let audit = Arc::new(Audit::begin(options.audit.take()));
    let meter = Arc::new(Meter::new(options.quotas));
    let server = Arc::new(A2aServer {
        principals: Arc::new(principals),
        audit: Arc::clone(&audit),
        contexts: Contexts::new(sessions, servers, network.port, Arc::clone(&meter), audit),
        meter,
        webhooks: Webhooks::new(options.webhook_loopback, webhook::WebhookLimits::default()),
        commands: Registry::default(),
        network,
        begun: httpdate::fmt_http_date(SystemTime::now()),
        clients: AtomicU64::new(0),
        sockets: watch::Sender::new(0),
        refusals: Refusals::new(options.refused_requests),
        in_flight: Semaphore::new(options.requests),
        messages: Messages::default(),
        ending: ending.clone(),
        over: CancellationToken::new(),
        options,
    });
    let mut acceptor = ConnectionAcceptor::new(&server, listener);
    let _takes_over = AbortOnDropHandle::new(tokio::spawn(takeover::run(Arc::clone(&server))));
    let _orders = AbortOnDropHandle::new(tokio::spawn(order_executor::run(Arc::clone(&server))));
    let _usage = AbortOnDropHandle::new(tokio::spawn(share_usage(Arc::clone(&server))));
    tokio::select! {
        () = acceptor.accept() => {}
        () = sweeping(&server) => {}
        () = server.principals.keep_logins_fresh() => {}
        () = server.network.keep_certificate_fresh() => {}
        () = ending.drain.cancelled() => {}
        () = ending.now.cancelled() => {}
    }
    // The listener closes first: a proxy that cannot connect tries another server, but passes a refusal on to its
    // client.
    let serving = acceptor.close();
    tokio::select! {
        () = server.contexts.let_go(&server.sockets) => {}
        () = server.principals.keep_logins_fresh() => {}
        () = server.network.keep_certificate_fresh() => {}
        () = ending.now.cancelled() => {}
    }
    server.contexts.close(AGENT_ENDS);
    let _ = tokio::time::timeout(LAST_TURNS, server.contexts.idle_all()).await;
    let _ = tokio::time::timeout(LAST_WORDS, server.contexts.share_usage()).await;
    server.over.cancel();
    let _ = tokio::time::timeout(LAST_WORDS, serving.wait()).await;
    let notified = async {
        server.contexts.notified().await;
        server.webhooks.delivered().await;
    };
    let _ = tokio::time::timeout(LAST_PUSHES, notified).await;
    let _ = tokio::time::timeout(LAST_WORDS, server.audit.finish()).await;
    Ok(())
}

/// Listening end of the server, which accepts connections.
struct ConnectionAcceptor {
    server: Arc<A2aServer>,
    router: Router,
    listener: TcpListener,
    room: Arc<ConnectionRoom>,
    /// Places for connections that are being refused with an answer.
    refusals: Arc<Semaphore>,
    serving: TaskTracker,
}

impl ConnectionAcceptor {
    fn new(server: &Arc<A2aServer>, listener: TcpListener) -> Self {
        let options = &server.options;
        Self {
            server: Arc::clone(server),
            router: http::router(server),
            listener,
            room: ConnectionRoom::new(options.connections, options.connected.clone()),
            refusals: Arc::new(Semaphore::new(busy::MAX_REFUSALS)),
            serving: TaskTracker::new(),
        }
    }

    /// Accepts connections, as long as there is room. Never returns.
    async fn accept(&mut self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer.ip()),
                Err(err) => {
                    tracing::warn!("a connection could not be accepted: {err}");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Closes the listener. Returns the tracker of the open connections.
    fn close(mut self) -> TaskTracker {
        // Connections that are waiting to be accepted get a response from the ending server rather than a
        // reset.
        let _ = self.accept().now_or_never();
        self.serving.close();
        self.serving
    }

    fn admit(&self, stream: TcpStream, peer: IpAddr) {
        let options = &self.server.options;
        if let Some(slot) = self.room.admit(self.serving.token()) {
            let server = Arc::clone(&self.server);
            let (router, peer) = (self.router.clone(), PeerAddress(peer));
            self.serving.spawn(connection::serve(server, router, stream, peer, slot));
        } else if let Ok(slot) = Arc::clone(&self.refusals).try_acquire_owned() {
            let (connections, most_bytes) = (options.connections, options.body);
            let tls = self.server.network.tls.clone();
            self.serving.spawn(busy::refuse(stream, tls, connections, most_bytes, slot));
        }
    }
}

/// Exchanges usage with other nodes at intervals; ends at once if no nodes share the store.
async fn share_usage(server: Arc<A2aServer>) {
    while server.contexts.shared_store().is_some() {
        server.contexts.share_usage().await;
        tokio::time::sleep(USAGE_EXCHANGE_INTERVAL).await;
    }
}

/// Ends unanswered questions and unloads unused sessions at intervals.
async fn sweeping(server: &A2aServer) {
    let Some(patience) = server.contexts.patience() else { return std::future::pending().await };
    loop {
        tokio::time::sleep(patience.clamp(MAX_SWEEP_INTERVAL / 60, MAX_SWEEP_INTERVAL)).await;
        server.contexts.sweep();
    }
}
