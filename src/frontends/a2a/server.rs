//! State of the A2A server: its sessions, its limits, and its memory of callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use futures::future::BoxFuture;
use tokio::io::DuplexStream;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::card_signature::CardKey;
use super::context::SessionContext;
use super::contexts::Contexts;
use super::contexts::locate::Located;
use super::messages::{MessageSender, Messages};
use super::monitoring::ServerHealth;
use super::requests::SessionId;
use super::webhook::Webhooks;
use tandem_agent::commands::Registry;
use tandem_agent::session::{ClientName, Origin, StoreHealth};
use tandem_agent::sessions::Leased;
use tandem_serve::audit::{Audit, AuditOptions, SessionCaller, client_address};
use tandem_serve::network::{NetworkOptions, ServerNetwork};
use tandem_serve::principals::{AccessOptions, Principal, Principals};
use tandem_serve::quotas::{Meter, Quotas};
use tandem_serve::refusals::Refusals;
use tandem_telemetry::Metrics;
use tandem_trace::TraceContext;
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Limits and permissions of the server.
pub struct ServerOptions {
    /// Options for the network around the server.
    pub network: NetworkOptions,
    /// Ways in which callers can show their identity.
    pub access: AccessOptions,
    /// `true` if notifications may be sent to addresses of this machine.
    pub webhook_loopback: bool,
    /// `true` if MCP servers of clients may be on this machine and in private networks. For a shared session
    /// they always may.
    pub private_servers: bool,
    /// Maximum size in bytes of a request's body, and of a WebSocket frame.
    pub body: usize,
    /// Maximum number of characters of a text file that a client attaches to a message.
    pub attachment_chars: usize,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of requests at the same time.
    pub requests: usize,
    /// Maximum number of requests without a valid token that an address may make in a minute and that are
    /// refused with the reason.
    pub refused_requests: usize,
    /// Maximum number of requests at the same time on one HTTP/2 connection.
    pub streams: usize,
    /// Time after a turn's end during which its message, sent again without naming a session, counts as a
    /// retry.
    pub retry: Duration,
    /// Maximum time for a client to send the headers of a request.
    pub head_time: Duration,
    /// Maximum time that a write waits for a client that does not read.
    pub patience: Duration,
    /// Time without traffic after which a WebSocket's client is pinged.
    pub ping: Duration,
    /// Maximum time for the client to answer a ping.
    pub pong: Duration,
    /// Function that serves an ACP client over a WebSocket; `None` if the server has no session for such
    /// clients.
    pub acp: Option<ServeAcp>,
    /// `true` if clients may have the server start MCP servers that are programs.
    pub programs: bool,
    /// Options of the audit log; `None` for no log.
    pub audit: Option<AuditOptions>,
    /// Key for the signature of the agent card; `None` if the card is not signed.
    pub card_key: Option<CardKey>,
    /// Limits on the use by each principal.
    pub quotas: Quotas,
    /// Number of open connections, published here by the server.
    pub connected: watch::Sender<usize>,
    /// Metrics of the server; `None` if they are not collected.
    pub metrics: Option<Arc<Metrics>>,
    /// Health of the sessions' store.
    pub store_health: StoreHealth,
}

/// Function that serves an ACP client at the other end of a stream, with one message per line.
pub type ServeAcp = Arc<dyn Fn(DuplexStream, Origin) -> BoxFuture<'static, ()> + Send + Sync>;

/// Signals for a server to end: one to begin nothing new, and one to stop running turns.
#[derive(Clone, Default)]
pub struct Ending {
    pub(super) drain: CancellationToken,
    pub(super) now: CancellationToken,
}

impl Ending {
    /// Makes the server begin nothing new. The server ends when the running turns have ended.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Makes the server stop the running turns and end.
    pub fn now(&self) {
        self.now.cancel();
    }

    pub(super) fn draining(&self) -> bool {
        self.drain.is_cancelled() || self.now.is_cancelled()
    }
}

/// The state that all parts of the server share.
pub(super) struct A2aServer {
    pub(super) principals: Arc<Principals>,
    pub(super) audit: Arc<Audit>,
    pub(super) meter: Arc<Meter>,
    pub(super) contexts: Contexts,
    pub(super) options: ServerOptions,
    pub(super) webhooks: Webhooks,
    pub(super) commands: Registry,
    pub(super) network: ServerNetwork,
    /// Start time of the server, in the format of HTTP dates.
    pub(super) begun: String,
    /// Number of callers so far, from which each caller gets a number.
    pub(super) clients: AtomicU64,
    /// Number of connections that are an open WebSocket.
    pub(super) sockets: watch::Sender<usize>,
    /// Counts of the requests without a valid token.
    pub(super) refusals: Refusals,
    pub(super) in_flight: Semaphore,
    pub(super) messages: Messages,
    pub(super) ending: Ending,
    /// Token that is cancelled when no more events come: streams then deliver the rest and end.
    pub(super) over: CancellationToken,
}

/// A caller and the circumstances of its call.
#[derive(Clone)]
pub(super) struct CallOrigin {
    pub(super) origin: Origin,
    pub(super) principal: Principal,
    /// The last event that the caller has seen, if the caller has told it in a header.
    pub(super) last_event: Option<String>,
    /// Trace context of the caller, if it sent one.
    pub(super) trace: TraceContext,
    /// Key of the order, if the call came from another node.
    pub(super) order: Option<String>,
}

impl CallOrigin {
    /// Returns the sender of the caller's messages.
    pub(super) fn sender(&self) -> MessageSender {
        MessageSender::of(&self.principal, client_address())
    }

    /// Returns the caller in a session, as the audit log names it.
    pub(super) fn acting_in<'a>(&'a self, context: &'a SessionContext) -> SessionCaller<'a> {
        let (principal, origin) = (&self.principal, &self.origin);
        SessionCaller { principal, origin, session: context.audited() }
    }
}

impl A2aServer {
    /// Returns the state that decides whether the server takes requests.
    pub(super) fn health(&self) -> ServerHealth {
        ServerHealth { ending: self.ending.clone(), store: self.options.store_health.clone() }
    }

    /// Locates the session that a call names, and loads the session if it is stored; a session that another node owns
    /// is followed. Resumes the push notifications of a session that was loaded. Returns `None` if the principal knows
    /// no such session. This is the only place where calls load sessions.
    pub(super) async fn open(
        &self,
        principal: &Principal,
        named: Option<SessionId<'_>>,
    ) -> Result<Option<Leased<SessionContext>>, Error> {
        let Some(named) = named else { return Ok(None) };
        let visible = self.contexts.of(principal);
        let was_draining = self.ending.draining();
        let mut may_move = true;
        loop {
            let mut located = visible.locate(named).await?;
            if let Located::Stored(id) = &located {
                // While the server ends, it must not load sessions that other processes may take.
                self.check_open()?;
                located = visible.load(id).await?;
            }
            let context = match located {
                Located::Here(loaded) => {
                    loaded.wait_resumed().await;
                    SessionContext::leased(&loaded)
                }
                Located::Elsewhere(context) => context,
                Located::Unusable(error) => return Err(error),
                Located::Stored(_) | Located::None => return Ok(None),
            };
            let caught_up = visible.caught_up(&context).await;
            if context.has_moved() && std::mem::take(&mut may_move) {
                continue;
            }
            caught_up?;
            // The server may have begun to end during the load.
            if self.ending.draining()
                && !was_draining
                && let Ok(session) = context.session()
            {
                session.close_if_idle();
            }
            if self.contexts.shared().is_none() {
                self.restore_push(&context);
            }
            context.used();
            return Ok(Some(context));
        }
    }

    /// Loads the sessions in which turns were interrupted, so that their clients are notified of the
    /// interruption without asking.
    pub(super) async fn notify_interrupted(&self) {
        for id in self.contexts.of(&Principal::Operator).interrupted().await {
            let named = Some(SessionId::Session(&id));
            if let Err(error) = self.open(&Principal::Operator, named).await {
                tracing::warn!(id, "nobody is notified of an interrupted turn: {error}");
            }
        }
    }

    /// Returns the caller of a request.
    pub(super) fn caller(&self, headers: &HeaderMap, principal: Principal) -> CallOrigin {
        let number = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
        let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let client = ClientName::new(number, agent.unwrap_or_default());
        let origin = Origin::A2a(client.with_principal(principal.id().cloned()));
        let trace = trace(headers);
        let last_event = last.map(ToOwned::to_owned);
        CallOrigin { origin, principal, last_event, trace, order: None }
    }

    /// Fails if the server is ending, so that no new turn begins.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.ending.draining() {
            let why = "the agent is ending, and takes no new requests";
            return Err(error::unavailable(why));
        }
        Ok(())
    }
}

/// Returns the trace context in the headers of a request.
pub(super) fn trace(headers: &HeaderMap) -> TraceContext {
    TraceContext::read(|name| headers.get(name)?.to_str().ok())
}
