//! Other agents and tools drive and watch sessions over A2A: HTTP, Server-Sent Events, WebSocket.
//!
//! A session is a *context*; `contexts` finds or opens it. What happens in it becomes news in
//! `updates` and bytes in `frames`, once a `dialect`; a stream (`subscription`) and a WebSocket
//! (`ws`) are readers of those. `methods` is what can be called, `http` and `rest` where, `guard`
//! by whom. `tandem_wire::a2a` says how each version writes tasks and events.

pub mod webhook;

mod attach;
mod busy;
mod card;
mod commands;
mod context;
mod contexts;
mod dialect;
mod flat;
mod frames;
mod guard;
mod http;
mod list;
mod messages;
mod methods;
mod patience;
mod push;
mod read;
mod rest;
mod servers;
mod sse;
mod story;
mod subscription;
mod tool_call;
mod turns;
mod updates;
mod ws;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use axum::body::Body;
use axum::http::Request;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use self::contexts::Contexts;
pub use self::contexts::ServedSessions;
use self::messages::Messages;
use self::patience::Patience;
use self::servers::Allowed;
use self::webhook::Webhooks;
use tandem_agent::commands::Registry;
use tandem_agent::session::Origin;
use tandem_net::Reach;

/// Maximum time for turns to end that are ended with the server: a call may take a second.
const LAST_TURNS: Duration = Duration::from_secs(2);

/// How long the last responses may take when the server ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Reason given for turns that are ended with the agent.
const LAST_PUSHES: Duration = Duration::from_secs(2);

/// Why turns end that are ended with the agent.
pub const CLOSING: &str = "Ended before it was done, because the agent ends.";

/// How long to wait when no connection can be accepted, for want of files, say.
const PAUSE: Duration = Duration::from_millis(100);

/// How often, at the least, it is looked for sessions that nobody uses.
const SWEEP: Duration = Duration::from_mins(1);

/// How the server works.
pub struct Options {
    /// What callers must know, if anything.
    pub token: Option<String>,
    /// Whether notifications may be sent to this machine.
    pub webhook_loopback: bool,
    /// `true` if clients' MCP servers may be on this machine and in private networks, as they
    /// always may for a session that is shared.
    pub private_servers: bool,
    /// Bytes of a request's body, and of a frame.
    pub body: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How many requests may be under way.
    pub requests: usize,
    /// How long the head of a request may take.
    pub head_time: Duration,
    /// How long a client may take nothing of what it is sent.
    pub patience: Duration,
    /// Time that a WebSocket may be silent before its client is asked for a sign of life.
    pub ping: Duration,
    /// Time that the client has for that sign of life.
    pub pong: Duration,
    /// Serves an ACP client on a WebSocket, if there is a session for it.
    pub acp: Option<ServeAcp>,
    /// Whether clients may have MCP servers started that are programs.
    pub programs: bool,
    /// Told how many connections there are.
    pub connected: watch::Sender<usize>,
}

/// Serves an ACP client at the other end of a stream, one message a line.
pub type ServeAcp = Arc<dyn Fn(DuplexStream, Origin) -> BoxFuture<'static, ()> + Send + Sync>;

/// Signals for a server to end: one to begin nothing new, and one to end what runs.
#[derive(Clone, Default)]
pub struct Ending {
    drain: CancellationToken,
    now: CancellationToken,
}

impl Ending {
    /// From now on nothing new begins. The server ends when what runs has ended.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Ends what runs.
    pub fn now(&self) {
        self.now.cancel();
    }

    fn draining(&self) -> bool {
        self.drain.is_cancelled() || self.now.is_cancelled()
    }
}

/// A server.
pub struct Server {
    contexts: Contexts,
    options: Options,
    webhooks: Webhooks,
    commands: Registry,
    port: u16,
    /// When it began, as HTTP writes it.
    begun: String,
    /// How many callers there have been.
    clients: AtomicU64,
    in_flight: Semaphore,
    messages: Messages,
    ending: Ending,
    /// Nothing more happens: streams tell what there is, and end.
    over: CancellationToken,
}

/// Takes a port of this machine, for this machine alone; 0 takes any.
pub async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(|| {
        format!("cannot listen on 127.0.0.1:{port}: try another port, or 0 for any that is free")
    })
}

/// Serves until it is to end.
pub async fn serve(
    listener: TcpListener,
    sessions: ServedSessions,
    options: Options,
    ending: Ending,
) -> anyhow::Result<()> {
    // A session that is shared is this machine's own, like the servers that its user knows.
    let near = options.private_servers || matches!(sessions, ServedSessions::Shared(_));
    let reach = if near { Reach::Private } else { Reach::Public };
    let servers = Allowed { programs: options.programs, reach };
    let server = Arc::new(Server {
        contexts: Contexts::new(sessions, servers),
        webhooks: Webhooks::new(options.webhook_loopback, webhook::Limits::default()),
        commands: Registry::default(),
        port: listener.local_addr().context("the port is not known")?.port(),
        begun: httpdate::fmt_http_date(SystemTime::now()),
        clients: AtomicU64::new(0),
        in_flight: Semaphore::new(options.requests),
        messages: Messages::default(),
        ending: ending.clone(),
        over: CancellationToken::new(),
        options,
    });
    let mut door = Door::new(&server, listener);
    tokio::select! {
        () = door.accept() => {}
        () = sweeping(&server) => {}
        () = ending.drain.cancelled() => {}
        () = ending.now.cancelled() => {}
    }
    // Whoever comes now is told that it is too late.
    tokio::select! {
        () = door.accept() => {}
        () = server.contexts.idle_all() => {}
        () = ending.now.cancelled() => {}
    }
    server.contexts.close(CLOSING);
    let _ = tokio::time::timeout(LAST_TURNS, server.contexts.idle_all()).await;
    server.over.cancel();
    door.serving.close();
    let _ = tokio::time::timeout(LAST_WORDS, door.serving.wait()).await;
    let notified = async {
        server.contexts.notified().await;
        server.webhooks.delivered().await;
    };
    let _ = tokio::time::timeout(LAST_PUSHES, notified).await;
    Ok(())
}

/// Accepting end of the server, where connections come in.
struct Door {
    server: Arc<Server>,
    listener: TcpListener,
    /// Room for connections.
    room: Arc<Semaphore>,
    /// Room for those that are told that there is none.
    refusals: Arc<Semaphore>,
    serving: TaskTracker,
}

impl Door {
    fn new(server: &Arc<Server>, listener: TcpListener) -> Self {
        Self {
            server: Arc::clone(server),
            listener,
            room: Arc::new(Semaphore::new(server.options.connections)),
            refusals: Arc::new(Semaphore::new(busy::REFUSALS)),
            serving: TaskTracker::new(),
        }
    }

    /// Lets in who comes, as long as there is room.
    async fn accept(&mut self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => self.admit(stream),
                Err(err) => {
                    tracing::warn!("a connection could not be accepted: {err}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream) {
        let options = &self.server.options;
        if let Ok(slot) = Arc::clone(&self.room).try_acquire_owned() {
            let place = Place::new(slot, &options.connected);
            self.serving.spawn(connection(Arc::clone(&self.server), stream, place));
        } else if let Ok(slot) = Arc::clone(&self.refusals).try_acquire_owned() {
            let limits = (options.connections, options.body);
            self.serving.spawn(busy::refuse(stream, limits, slot));
        }
    }
}

/// Ends what nobody answers, and sessions that nobody uses any more, from time to time.
async fn sweeping(server: &Server) {
    let Some(patience) = server.contexts.patience() else { return std::future::pending().await };
    loop {
        tokio::time::sleep(patience.clamp(SWEEP / 60, SWEEP)).await;
        server.contexts.sweep();
    }
}

/// A connection's place among those that there may be; it counts as long as it lives.
struct Place {
    connected: watch::Sender<usize>,
    _slot: OwnedSemaphorePermit,
}

impl Place {
    fn new(slot: OwnedSemaphorePermit, connected: &watch::Sender<usize>) -> Self {
        connected.send_modify(|count| *count += 1);
        Self { connected: connected.clone(), _slot: slot }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connected.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Serves one connection.
async fn connection(server: Arc<Server>, stream: TcpStream, place: Place) {
    // Small events are to leave at once.
    let _ = stream.set_nodelay(true);
    let place = Arc::new(place);
    let (head_time, patience) = (server.options.head_time, server.options.patience);
    let over = server.over.clone();
    let router = http::router(server);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        // A WebSocket outlives this connection, and keeps its place.
        request.extensions_mut().insert(Arc::clone(&place));
        router.clone().oneshot(request.map(Body::new))
    });
    let mut talk = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head_time)
            .serve_connection(TokioIo::new(Patience::new(stream, patience)), service)
            .with_upgrades()
    );
    let ended = tokio::select! {
        ended = &mut talk => ended,
        () = over.cancelled() => {
            talk.as_mut().graceful_shutdown();
            talk.await
        }
    };
    if let Err(err) = ended {
        tracing::debug!("a connection ended: {err}");
    }
}
