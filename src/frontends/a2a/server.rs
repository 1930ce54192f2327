//! State of the server: its sessions, limits and what it remembers of callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::audit::{Audit, AuditOptions, client_address};
use super::card_signature::CardKey;
use super::context::SessionContext;
use super::contexts::Contexts;
use super::messages::{MessageSender, Messages};
use super::monitoring::ServerHealth;
use super::read::{MessageForm, ReceivedMessage};
use super::requests::SessionId;
use super::webhook::Webhooks;
use tandem_agent::commands::Registry;
use tandem_agent::session::{ClientName, Origin, StoreHealth};
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
    /// The network in which the server is.
    pub network: NetworkOptions,
    /// Ways in which callers show who they are.
    pub access: AccessOptions,
    /// `true` if notifications may be sent to this machine.
    pub webhook_loopback: bool,
    /// `true` if clients' MCP servers may be on this machine and in private networks, as they
    /// always may for a session that is shared.
    pub private_servers: bool,
    /// Bytes of a request's body, and of a frame.
    pub body: usize,
    /// Maximum number of characters of a text that a client attaches to a message.
    pub attachment_chars: usize,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of requests under way.
    pub requests: usize,
    /// Maximum number of requests of an address within a minute that are refused for want of a valid token, and
    /// told why.
    pub refused_requests: usize,
    /// Maximum number of requests under way on one connection of HTTP/2.
    pub streams: usize,
    /// Time after a turn's end for which its message, sent again without naming a session, is a retry.
    pub retry: Duration,
    /// Maximum time for a client to send the head of a request.
    pub head_time: Duration,
    /// Maximum time for which a client takes nothing of what it is sent.
    pub patience: Duration,
    /// Time that a WebSocket may be silent before its client is asked for a sign of life.
    pub ping: Duration,
    /// Time that the client has for that sign of life.
    pub pong: Duration,
    /// Serves an ACP client on a WebSocket, if there is a session for it.
    pub acp: Option<ServeAcp>,
    /// `true` if MCP servers that are programs may be started for clients.
    pub programs: bool,
    /// The audit log, if one is wanted.
    pub audit: Option<AuditOptions>,
    /// Key that signs the agent card, if it is to be signed.
    pub card_key: Option<CardKey>,
    /// Amounts that each principal may use.
    pub quotas: Quotas,
    /// Number of connections there are.
    pub connected: watch::Sender<usize>,
    /// Figures of the server, if somebody reads them.
    pub metrics: Option<Arc<Metrics>>,
    /// Health of the store of the sessions.
    pub store_health: StoreHealth,
}

/// Serves an ACP client at the other end of a stream, one message a line.
pub type ServeAcp = Arc<dyn Fn(DuplexStream, Origin) -> BoxFuture<'static, ()> + Send + Sync>;

/// Signals for a server to end: one to begin nothing new, and one to end what runs.
#[derive(Clone, Default)]
pub struct Ending {
    pub(super) drain: CancellationToken,
    pub(super) now: CancellationToken,
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

    pub(super) fn draining(&self) -> bool {
        self.drain.is_cancelled() || self.now.is_cancelled()
    }
}

/// A server.
pub(super) struct A2aServer {
    pub(super) principals: Arc<Principals>,
    pub(super) audit: Arc<Audit>,
    pub(super) meter: Arc<Meter>,
    pub(super) contexts: Contexts,
    pub(super) options: ServerOptions,
    pub(super) webhooks: Webhooks,
    pub(super) commands: Registry,
    pub(super) network: ServerNetwork,
    /// Time at which the server began, as HTTP writes it.
    pub(super) begun: String,
    /// Number of callers that there have been.
    pub(super) clients: AtomicU64,
    /// Number of connections that are a WebSocket.
    pub(super) sockets: watch::Sender<usize>,
    /// The requests without a valid token.
    pub(super) refusals: Refusals,
    pub(super) in_flight: Semaphore,
    pub(super) messages: Messages,
    pub(super) ending: Ending,
    /// Fires when nothing more happens: streams tell what there is, and end.
    pub(super) over: CancellationToken,
}

/// Origin of a call.
#[derive(Clone)]
pub(super) struct CallOrigin {
    pub(super) origin: Origin,
    pub(super) principal: Principal,
    /// Event that the caller has seen last, if it said so outside of the call.
    pub(super) last_event: Option<String>,
    /// Place of the caller in a trace, if it said so.
    pub(super) trace: TraceContext,
    /// Key of the order that the call is, if it was made at another node.
    pub(super) order: Option<String>,
}

impl CallOrigin {
    /// Returns the sender of the caller's messages.
    pub(super) fn sender(&self) -> MessageSender {
        MessageSender::of(&self.principal, client_address())
    }
}

impl A2aServer {
    /// Returns the state on which it depends whether the server takes requests.
    pub(super) fn health(&self) -> ServerHealth {
        ServerHealth { ending: self.ending.clone(), store: self.options.store_health.clone() }
    }

    /// Reads a message.
    pub(super) fn received(
        &self,
        form: MessageForm,
        params: Value,
    ) -> Result<ReceivedMessage, Error> {
        ReceivedMessage::read(form, params, self.options.attachment_chars)
    }

    /// Loads the session that a call is about, if it is stored and not loaded, and goes on with its
    /// notifications: the one place for it. One that another node has is followed. The session stays loaded
    /// as long as the caller holds it.
    pub(super) async fn load(
        &self,
        principal: &Principal,
        named: &SessionId<'_>,
    ) -> Result<Option<Arc<SessionContext>>, Error> {
        let Some(id) = named.id() else { return Ok(None) };
        let visible = self.contexts.of(principal);
        if self.ending.draining() {
            // What is let go is for others.
            let open = visible.get(id);
            if let Some(context) = &open {
                visible.caught_up(context).await?;
            }
            return Ok(open);
        }
        let open = visible.load_caught_up(id).await?;
        if let Some(context) = &open {
            if self.ending.draining()
                && let Ok(session) = context.session()
            {
                session.close_if_idle();
            }
            self.restore_push(context);
        }
        Ok(open)
    }

    /// Loads the sessions in which turns were interrupted, so that their clients are notified of that
    /// although nobody asks.
    pub(super) async fn notify_interrupted(&self) {
        for id in self.contexts.of(&Principal::Operator).interrupted().await {
            let named = SessionId { task: None, context: Some(&id) };
            if let Err(error) = self.load(&Principal::Operator, &named).await {
                tracing::warn!(id, "nobody is notified of an interrupted turn: {error}");
            }
        }
    }

    /// Returns the origin of a request.
    pub(super) fn caller(&self, headers: &HeaderMap, principal: Principal) -> CallOrigin {
        let number = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
        let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let client = ClientName::new(number, agent.unwrap_or_default());
        let origin = Origin::A2a(client.of(principal.id().cloned()));
        let trace = trace(headers);
        let last_event = last.map(ToOwned::to_owned);
        CallOrigin { origin, principal, last_event, trace, order: None }
    }

    /// Refuses what would begin a turn when the agent ends.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.ending.draining() {
            let why = "nothing new begins, because the agent ends";
            return Err(error::unavailable(why));
        }
        Ok(())
    }
}

/// Returns the place in a trace that the headers of a request name.
pub(super) fn trace(headers: &HeaderMap) -> TraceContext {
    TraceContext::read(|name| headers.get(name)?.to_str().ok())
}
