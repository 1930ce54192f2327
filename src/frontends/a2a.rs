//! Other agents and tools drive and watch sessions over A2A: HTTP, Server-Sent Events, WebSocket.
//!
//! A session is a *context*; `contexts` finds or opens it. What happens in it becomes news in
//! `updates` and bytes in `frames`, once a dialect; a stream (`subscription`) and a WebSocket
//! (`ws`) are readers of those. `methods` is what can be called, `http` and `rest` where, `guard`
//! by whom. Version 1.0 is made from 0.3 in `v1`.

pub mod webhook;

mod attach;
mod card;
mod commands;
mod context;
mod contexts;
mod flat;
mod frames;
mod guard;
mod http;
mod list;
mod methods;
mod messages;
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
mod v1;
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
pub use self::contexts::{Open, Sessions, Settings};
use self::patience::Patience;
use self::messages::Messages;
use self::webhook::Webhooks;
use crate::commands::Registry;
use crate::session::Origin;

/// How long the last responses may take when the server ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

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
    /// Serves an ACP client on a WebSocket, if there is a session for it.
    pub acp: Option<ServeAcp>,
    /// Whether clients may have MCP servers started that are programs.
    pub programs: bool,
    /// Told how many connections there are.
    pub connected: watch::Sender<usize>,
}

/// Serves an ACP client at the other end of a stream, one message a line.
pub type ServeAcp = Arc<dyn Fn(DuplexStream, Origin) -> BoxFuture<'static, ()> + Send + Sync>;

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
    ending: CancellationToken,
}

/// Takes a port of this machine, for this machine alone; 0 takes any.
pub async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.with_context(|| {
        format!("cannot listen on 127.0.0.1:{port}: try another port, or 0 for any that is free")
    })
}

/// Serves until it is cancelled.
pub async fn serve(
    listener: TcpListener,
    sessions: Sessions,
    options: Options,
    messages: Messages,
    ending: Ending,
    /// Nothing more happens: streams tell what there is, and end.
    over: CancellationToken,
) -> anyhow::Result<()> {
    let connections = Arc::new(Semaphore::new(options.connections));
    let server = Arc::new(Server {
        contexts: Contexts::new(sessions, options.programs),
        webhooks: Webhooks::new(options.webhook_loopback, webhook::Limits::default()),
        commands: Registry::default(),
        port: listener.local_addr().context("the port is not known")?.port(),
        begun: httpdate::fmt_http_date(SystemTime::now()),
        clients: AtomicU64::new(0),
        in_flight: Semaphore::new(options.requests),
        ending: ending.clone(),
        options,
    });
    let serving = TaskTracker::new();
    let accepting = async {
        loop {
            // Cannot fail: nobody closes it.
            let Ok(slot) = Arc::clone(&connections).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let place = Place::new(slot, &server.options.connected);
                    serving.spawn(connection(Arc::clone(&server), stream, place));
                }
                Err(err) => {
                    tracing::warn!("a connection could not be accepted: {err}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = sweeping(&server) => {}
        () = ending.cancelled() => {}
    }
    server.contexts.close();
    serving.close();
    let _ = tokio::time::timeout(LAST_WORDS, serving.wait()).await;
    Ok(())
}

/// Ends sessions that nobody uses any more, from time to time.
async fn sweeping(server: &Server) {
    let Some(idle) = server.contexts.idle() else { return std::future::pending().await };
    loop {
        tokio::time::sleep(idle.clamp(SWEEP / 60, SWEEP)).await;
        messages: Messages::default(),
        server.contexts.drop_idle();
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
    let ending = server.ending.clone();
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
        () = ending.cancelled() => {
            talk.as_mut().graceful_shutdown();
            talk.await
        }
    };
    if let Err(err) = ended {
        tracing::debug!("a connection ended: {err}");
    }
}
