//! Terminals that attach to a session over a WebSocket (`wire/attach.rs`).

pub(super) mod actor;

mod selection;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::DuplexStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use self::actor::{Actor, NOT_SHARED, mentionable, needed, take_in};
use self::selection::wanted;
use super::context::SessionContext;
use super::orders::{OrderReply, OrderedCall, TerminalCall};
use super::server::{A2aServer, CallOrigin};
use tandem_agent::session::{Origin, Reader, Session, StoreError};
use tandem_agent::sessions::Leased;
use tandem_content::blocking::blocking;
use tandem_serve::audit::{client_address, for_client};
use tandem_serve::principals::Principal;
use tandem_trace::TraceContext;
use tandem_wire::attach::{
    EVENTS_METHOD, EventsParams, EventsResult, FILES_METHOD, FilesParams, LogEntry, OPEN_METHOD,
    OpenParams, OpenResult, OpenedSession, PROMPT_METHOD, PROMPTS_METHOD, PROTOCOL_VERSION,
    VersionParams, refused,
};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, Responder};

/// Maximum number of bytes of events in a response. A single larger event is sent alone.
const MAX_RESPONSE_BYTES: usize = 256 << 10;

/// Maximum number of events in one response.
const MAX_RESPONSE_EVENTS: usize = 1000;

/// Maximum number of pending calls of one terminal.
const MAX_PENDING_CALLS: usize = 8;

/// Maximum length of a terminal's name, in bytes.
const LONGEST_NAME: usize = 64;

/// Serves one terminal.
pub(super) async fn serve(server: Arc<A2aServer>, principal: Principal, stream: DuplexStream) {
    let (input, output) = tokio::io::split(stream);
    let ended = CancellationToken::new();
    let max_line = server.options.body;
    let options = rpc::ConnectionOptions {
        input_ended: ended.clone(),
        cancellation: true,
        ..rpc::ConnectionOptions::new(max_line)
    };
    let waiting = Arc::new(Semaphore::new(MAX_PENDING_CALLS));
    let (joined, ordered) = (Arc::default(), Mutex::default());
    let connection = TerminalConnection { server, principal, joined, waiting, ordered, ended };
    if let Err(err) = rpc::serve(input, output, options, |_| connection).await {
        tracing::debug!("an attached terminal has gone: {err:#}");
    }
}

/// One connection of a terminal.
struct TerminalConnection {
    server: Arc<A2aServer>,
    principal: Principal,
    /// The session, once the terminal has opened one.
    joined: Arc<OnceLock<JoinedSession>>,
    waiting: Arc<Semaphore>,
    /// Receiver that completes when the last order left for another node is done, so that orders are carried
    /// out one after the other.
    ordered: Mutex<Option<oneshot::Receiver<()>>>,
    ended: CancellationToken,
}

struct JoinedSession {
    context: Leased<SessionContext>,
    /// Name of the terminal.
    terminal: String,
    origin: Origin,
}

impl Drop for JoinedSession {
    fn drop(&mut self) {
        self.context.attached.fetch_sub(1, Ordering::Relaxed);
    }
}

impl rpc::Handler for TerminalConnection {
    fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        if method == OPEN_METHOD {
            let open = open_params(params);
            let (server, joined) = (Arc::clone(&self.server), Arc::clone(&self.joined));
            let principal = self.principal.clone();
            // Loading the session may take long, so the connection does not wait for it.
            tokio::spawn(for_client(client_address(), async move {
                let opened = match open {
                    Ok(open) => open_session(&server, &principal, &joined, open).await,
                    Err(error) => Err(error),
                };
                responder.send(opened);
            }));
            return;
        }
        let Some(joined) = self.joined.get() else {
            return responder.send(Err::<(), _>(refused("no session is open")));
        };
        if let Err(error) = self.check(joined, method) {
            return responder.send(Err::<(), _>(error));
        }
        if method == EVENTS_METHOD {
            return self.events(joined, params, responder);
        }
        let Ok(session) = joined.context.session().map(Arc::clone) else {
            return self.order(joined, method, params, responder);
        };
        match method {
            FILES_METHOD => self.files(session, params, responder),
            PROMPTS_METHOD => self.prompts(session, responder),
            _ => {
                let caller = terminal_caller(&self.principal, joined.origin.clone());
                let JoinedSession { context, terminal, .. } = joined;
                let actor = Actor { server: &self.server, caller: &caller, context, terminal };
                let done = actor.act(&session, method, params);
                if method != PROMPT_METHOD {
                    return responder.send(done);
                }
                let context = joined.context.clone();
                // The response is sent only when the prompt is durable.
                tokio::spawn(async move {
                    let promised = context.promised().await.map_err(|error| refused(error.message));
                    responder.send(done.and_then(|done| promised.map(|()| done)));
                });
            }
        }
    }
}

/// Parses the parameters of `open`, and checks the terminal's version.
fn open_params(params: Params<'_>) -> Result<OpenParams, Error> {
    let VersionParams { version } = params.parse()?;
    if version != PROTOCOL_VERSION {
        let own = env!("CARGO_PKG_VERSION");
        return Err(refused(format!(
            "the agent (tandem {own}) lets terminals of version {PROTOCOL_VERSION} attach, and this one \
             is of version {version}: use the same tandem for both"
        )));
    }
    let open: OpenParams = params.parse()?;
    if open.terminal.len() > LONGEST_NAME {
        return Err(refused("the terminal's name is too long"));
    }
    Ok(open)
}

/// Opens a session for a terminal, or returns the sessions to choose from.
async fn open_session(
    server: &A2aServer,
    principal: &Principal,
    slot: &OnceLock<JoinedSession>,
    open: OpenParams,
) -> Result<OpenResult, Error> {
    let context = match wanted(server, principal, &open.session).await? {
        Ok(context) => context,
        Err(all) => return Ok(OpenResult::Choose(all)),
    };
    let (opened, client) = match context.followed() {
        None => take_in(server, principal, &context, &open.terminal)?,
        Some(followed) => {
            let caller = terminal_caller(principal, Origin::Terminal);
            let call = TerminalCall::new(&context, OPEN_METHOD, &open.terminal, Value::Null);
            let taken_in = server.order(followed, OrderedCall::Terminal(call), &caller).await?;
            taken_in.parse()?
        }
    };
    let opened = OpenedSession { frame_bytes: server.options.body, ..opened };
    context.attached.fetch_add(1, Ordering::Relaxed);
    let joined =
        JoinedSession { context, terminal: client.name.clone(), origin: Origin::Attached(client) };
    match slot.set(joined) {
        Ok(()) => Ok(OpenResult::Opened(opened)),
        Err(_) => Err(refused("a session is open already")),
    }
}

fn terminal_caller(principal: &Principal, origin: Origin) -> CallOrigin {
    let (principal, trace) = (principal.clone(), TraceContext::current());
    CallOrigin { origin, principal, last_event: None, trace, order: None }
}

impl TerminalConnection {
    /// Sends the next events, as soon as there are some.
    fn events(&self, joined: &JoinedSession, params: Params<'_>, responder: Responder) {
        let (since, slot) = match self.asked::<EventsParams>(params) {
            Ok(asked) => asked,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        let (context, ended) = (joined.context.clone(), self.ended.clone());
        let reader = self.principal.clone();
        tokio::spawn(async move {
            let mut log = context.events(since.from);
            let limit = || context.here().and_then(Session::input_limit);
            let cancelled = responder.cancellation();
            // Where no branch sends a response, the dropped responder itself sends an error.
            tokio::select! {
                () = log.ready() => {
                    // The session may have ceased to be shared while the call waited.
                    if !context.is_open_to(&reader) {
                        return responder.send(Err::<(), _>(refused(NOT_SHARED)));
                    }
                    responder.send(happened(&mut log, since.bytes, limit()));
                }
                () = context.moved() => {
                    responder.send(Err::<(), _>(refused(StoreError::TakenOver)));
                }
                () = ended.cancelled() => {}
                () = cancelled.cancelled() => {}
            }
            drop(slot);
        });
    }

    fn files(&self, session: Arc<Session>, params: Params<'_>, responder: Responder) {
        let (files, slot) = match self.asked::<FilesParams>(params) {
            Ok(asked) => asked,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        answer_blocking(responder, slot, move || mentionable(&session, &files));
    }

    fn prompts(&self, session: Arc<Session>, responder: Responder) {
        let slot = match self.slot() {
            Ok(slot) => slot,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        answer_blocking(responder, slot, move || session.own_commands());
    }

    /// Takes a place among the pending calls, and parses the parameters.
    fn asked<T: DeserializeOwned>(
        &self,
        params: Params<'_>,
    ) -> Result<(T, OwnedSemaphorePermit), Error> {
        let slot = self.slot()?;
        Ok((params.parse()?, slot))
    }

    /// Takes a place among the pending calls.
    fn slot(&self) -> Result<OwnedSemaphorePermit, Error> {
        let slot = Arc::clone(&self.waiting).try_acquire_owned();
        slot.map_err(|_| refused(format!("{MAX_PENDING_CALLS} calls wait already")))
    }

    /// Checks that the terminal may call a method now, by its rights and its quota.
    fn check(&self, joined: &JoinedSession, method: &str) -> Result<(), Error> {
        let (server, id) = (&self.server, self.principal.id());
        let checked = server.contexts.of(&self.principal).check(&joined.context, needed(method));
        checked.map_err(|error| refused(error.message))?;
        // A terminal calls this whenever there are new events, so these calls do not count against the quota.
        if method == EVENTS_METHOD {
            return Ok(());
        }
        server.meter.request(id).map_err(|used_up| {
            server.audit.denied(id, method, &used_up.message());
            refused(used_up.message())
        })
    }

    /// Has the owner of the session carry out a call, after the earlier calls of this terminal.
    fn order(
        &self,
        joined: &JoinedSession,
        method: &str,
        params: Params<'_>,
        responder: Responder,
    ) {
        let params = match params.parse::<Value>() {
            Ok(params) => params,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        let (done, is_done) = oneshot::channel::<()>();
        let before = self.ordered.lock().replace(is_done);
        let call = TerminalCall::new(&joined.context, method, &joined.terminal, params);
        let caller = terminal_caller(&self.principal, joined.origin.clone());
        let (server, context) = (Arc::clone(&self.server), joined.context.clone());
        tokio::spawn(for_client(client_address(), async move {
            if let Some(before) = before {
                // The sender is only dropped, never used, so an error is the signal.
                let _ = before.await;
            }
            let _done = done;
            let Some(followed) = context.followed() else { return };
            let reply = server.order(followed, OrderedCall::Terminal(call), &caller).await;
            responder.send(reply.and_then(OrderReply::parse::<Value>));
        }));
    }
}

/// Responds with the output of blocking work. The place among the pending calls is taken until the work ends,
/// even if the terminal cancels the call earlier.
fn answer_blocking<T: Serialize + Send + 'static>(
    responder: Responder,
    slot: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) {
    let work = blocking(move || {
        let output = work();
        drop(slot);
        output
    });
    tokio::spawn(responder.send_output(work.map(|output| output.map_err(Error::internal))));
}

/// Returns the unread events, as many as fit into one response. An event of more than `most` bytes is listed
/// without its content.
fn happened(
    log: &mut Reader,
    most: usize,
    input_limit: Option<u64>,
) -> Result<EventsResult<Box<RawValue>>, Error> {
    let (mut entries, mut bytes, mut next) = (Vec::new(), 0, None);
    while entries.len() < MAX_RESPONSE_EVENTS
        && let Some(entry) = log.try_next_entry()
    {
        let json = to_raw_value(&*entry.event).map_err(Error::internal)?;
        let size = json.get().len();
        if !entries.is_empty() && bytes + size > MAX_RESPONSE_BYTES.min(most) {
            next = Some(entry.index);
            break;
        }
        bytes += size;
        let event = Some(json).filter(|_| size <= most);
        entries.push(LogEntry { index: entry.index, at: entry.at, event });
    }
    let next = next.unwrap_or(log.position());
    Ok(EventsResult { entries, next, input_limit })
}
