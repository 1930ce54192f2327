//! Other agents and tools drive and watch sessions over A2A: HTTP, Server-Sent Events, WebSocket.
//!
//! A session is a *context*. The modules are layers, and each imports only from those above it in
//! this list:
//!
//! - forms: `dialect` and `flat` write tasks and events, `fields`, `read`, `attachments` and `requests` read calls;
//!   `tool_call`, `results` and `updates` translate what the projection of a session says;
//! - callers: `tokens` is the file of what they show, `proxy` names those of a proxy, `oidc` those whom an
//!   issuer knows, `principals` says who they are and what they may do, `quotas` how much, `refusals` counts
//!   those who show nothing that counts;
//! - sessions: `story` folds a log, `context` is a session with its tasks, `contexts` finds or opens
//!   one, `follow` and `subscription` read its events, `audit` records who did what;
//! - state: `turns` begins turns and answers questions, `messages` remembers what was sent, `server`
//!   holds it all, `takeover` goes on with what other processes have left;
//! - methods: `methods` is what can be called, with `list`, `push`, `commands`, `card` and
//!   `card_signature`; `orders` has the node that has a session carry out what is called here;
//! - network: `network` is where the server is and what it is called, with `tls` and `certificate`;
//!   `forwarded` who comes by a proxy;
//! - transports: `http`, `http_json`, `rest`, `sse`, `ws` and `attach`, behind `guard`; `connection`
//!   carries them, with `http2` and `connection_room`; `webhook` on the way out; `monitoring`, beside it;
//!   `order_executor` for what clients of other nodes call.

pub mod webhook;

mod attach;
mod attachments;
mod audit;
mod body;
mod card;
mod card_signature;
mod commands;
mod connection;
mod context;
mod contexts;
mod dialect;
mod envelope;
mod fields;
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
mod server;
mod servers;
mod sse;
mod story;
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

use self::audit::Audit;
pub use self::audit::{AuditOptions, check as check_audit};
pub use self::card_signature::CardKey;
use self::contexts::Contexts;
pub use self::contexts::{IsShown, ServedSessions};
use self::messages::Messages;
pub use self::monitoring::{ServerHealth, monitor};
use self::server::A2aServer;
pub use self::server::{Ending, ServeAcp, ServerOptions};
use self::servers::Allowed;
use self::webhook::Webhooks;
use tandem_agent::commands::Registry;
use tandem_net::Reach;
use tandem_serve::busy;
use tandem_serve::connection_room::ConnectionRoom;
use tandem_serve::network::ServerNetwork;
use tandem_serve::principals::Principals;
use tandem_serve::proxy::PeerAddress;
use tandem_serve::quotas::Meter;
use tandem_serve::refusals::Refusals;

/// Maximum time for turns to end that are ended with the server: a call may take a second.
const LAST_TURNS: Duration = Duration::from_secs(2);

/// Maximum time for the last responses when the server ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Maximum time for the last notifications when the server ends.
const LAST_PUSHES: Duration = Duration::from_secs(2);

/// Reason given for turns that are ended with the agent.
pub const CLOSING: &str = "Ended before it was done, because the agent ends.";

/// Wait after a failed accept, such as one for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum time between two searches for sessions that nobody uses.
const SWEEP: Duration = Duration::from_mins(1);

/// Time between two exchanges with other nodes of what principals use.
const USAGE: Duration = Duration::from_secs(5);

/// Takes an address of this machine; port 0 takes any.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: try another port, or 0 for any that is free")
    })
}

/// Serves until it is to end.
pub async fn serve(
    listener: TcpListener,
    sessions: ServedSessions,
    mut options: ServerOptions,
    ending: Ending,
) -> anyhow::Result<()> {
    // A session that is shared is this machine's own, like the servers that its user knows.
    let near = options.private_servers || matches!(sessions, ServedSessions::Shared { .. });
    let reach = if near { Reach::Private } else { Reach::Public };
    let servers = Allowed { programs: options.programs, reach };
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
    let mut door = Door::new(&server, listener);
    let _takes_over = AbortOnDropHandle::new(tokio::spawn(takeover::run(Arc::clone(&server))));
    let _orders = AbortOnDropHandle::new(tokio::spawn(order_executor::run(Arc::clone(&server))));
    let _usage = AbortOnDropHandle::new(tokio::spawn(share_usage(Arc::clone(&server))));
    tokio::select! {
        () = door.accept() => {}
        () = sweeping(&server) => {}
        () = server.principals.keep_looking() => {}
        () = server.network.keep_looking() => {}
        () = ending.drain.cancelled() => {}
        () = ending.now.cancelled() => {}
    }
    // A proxy that cannot connect asks another server, which it would not do when it is told no.
    let serving = door.close();
    tokio::select! {
        () = server.contexts.let_go(&server.sockets) => {}
        () = server.principals.keep_looking() => {}
        () = server.network.keep_looking() => {}
        () = ending.now.cancelled() => {}
    }
    server.contexts.close(CLOSING);
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

/// Accepting end of the server, where connections come in.
struct Door {
    server: Arc<A2aServer>,
    router: Router,
    listener: TcpListener,
    room: Arc<ConnectionRoom>,
    /// Room for those that are told that there is none.
    refusals: Arc<Semaphore>,
    serving: TaskTracker,
}

impl Door {
    fn new(server: &Arc<A2aServer>, listener: TcpListener) -> Self {
        let options = &server.options;
        Self {
            server: Arc::clone(server),
            router: http::router(server),
            listener,
            room: ConnectionRoom::new(options.connections, options.connected.clone()),
            refusals: Arc::new(Semaphore::new(busy::REFUSALS)),
            serving: TaskTracker::new(),
        }
    }

    /// Lets in who comes, as long as there is room.
    async fn accept(&mut self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer.ip()),
                Err(err) => {
                    tracing::warn!("a connection could not be accepted: {err}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Refuses further connections. Returns those that there are.
    fn close(mut self) -> TaskTracker {
        // Who has connected already is told why.
        let _ = self.accept().now_or_never();
        self.serving.close();
        self.serving
    }

    fn admit(&self, stream: TcpStream, peer: IpAddr) {
        let options = &self.server.options;
        if let Some(slot) = self.room.admit(self.serving.token()) {
            let server = Arc::clone(&self.server);
            let client = (stream, PeerAddress(peer));
            self.serving.spawn(connection::serve(server, self.router.clone(), client, slot));
        } else if let Ok(slot) = Arc::clone(&self.refusals).try_acquire_owned() {
            let limits = (options.connections, options.body);
            let tls = self.server.network.tls.clone();
            self.serving.spawn(busy::refuse(stream, tls, limits, slot));
        }
    }
}

/// Counts with the other nodes what principals use, from time to time; ends at once where there are none.
async fn share_usage(server: Arc<A2aServer>) {
    while server.contexts.shared_store().is_some() {
        server.contexts.share_usage().await;
        tokio::time::sleep(USAGE).await;
    }
}

/// Ends what nobody answers, and sessions that nobody uses any more, from time to time.
async fn sweeping(server: &A2aServer) {
    let Some(patience) = server.contexts.patience() else { return std::future::pending().await };
    loop {
        tokio::time::sleep(patience.clamp(SWEEP / 60, SWEEP)).await;
        server.contexts.sweep();
    }
}
