//! A2A over a WebSocket: calls and their responses, and all other events of the session (section 4 of
//! the port document, which `docs/protocols.md` names; `docs/a2a.md` describes the frames).

mod acp;
mod heartbeat;
mod lines;
mod out;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::response::Response;
use futures::future::{BoxFuture, select_all};
use futures::stream::{FuturesUnordered, SplitStream};
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::task::coop::consume_budget;
use tracing::Instrument as _;

use self::heartbeat::{Heartbeat, HeartbeatAction};
use self::lines::Socket;
use self::out::{
    CLIENT_SILENT, ConnectionEnded, GOING_AWAY, POLICY_CODE, SESSION_MOVED, TOO_BIG,
    UNSUPPORTED_CODE, WebSocketSender,
};
use super::attach;
use super::context::SessionContext;
use super::dialect::Dialect;
use super::envelope::{InvalidCall, ReceivedCall, envelope};
use super::follow::Follow;
use super::frames::Frame;
use super::methods::Reply;
use super::monitoring::call_span;
use super::read::MessageForm;
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Streaming, TOKEN_REVOKED, not_shared};
use tandem_agent::sessions::Leased;
use tandem_serve::audit::{client_address, for_client};
use tandem_serve::connection_room::ConnectionSlot;
use tandem_serve::principals::Principal;
use tandem_wire::a2a::{Fields, Method};
use tandem_wire::jsonrpc::Error;

/// Time that a connection stays open after an invalid frame, so that the client can read the reason.
const LINGER_TIME: Duration = Duration::from_millis(500);

/// Maximum number of pending calls of one connection.
const MAX_PENDING_CALLS: usize = 64;

/// Maximum number of streams of one connection. A client can subscribe to a task any number of times, and
/// each event is matched against each stream.
const MAX_STREAMS: usize = 64;

/// Handles `GET /ws` and `GET /acp`: a client of A2A or of ACP.
pub(super) async fn upgrade(
    State(server): State<Arc<A2aServer>>,
    slot: Extension<Arc<ConnectionSlot>>,
    Extension(principal): Extension<Principal>,
    Parts { uri, headers, .. }: Parts,
    upgrade: WebSocketUpgrade,
) -> Response {
    let caller = server.caller(&headers, principal);
    let query = uri.query().unwrap_or_default().as_bytes();
    let flat =
        form_urlencoded::parse(query).any(|(name, value)| name == "format" && value == "flat");
    accept(server, "websocket", slot, upgrade, move |server, socket| {
        serve(server, caller, socket, flat)
    })
}

/// Handles `GET /attach`: a terminal that attaches to a session.
pub(super) async fn attach(
    State(server): State<Arc<A2aServer>>,
    slot: Extension<Arc<ConnectionSlot>>,
    Extension(principal): Extension<Principal>,
    upgrade: WebSocketUpgrade,
) -> Response {
    accept(
        server,
        "attach",
        slot,
        upgrade,
        async move |server: Arc<A2aServer>, socket: WebSocket| {
            let (out, mut input) = socket.split();
            let mut out = WebSocketSender(out);
            let over = server.over.clone();
            let heartbeat = heartbeat(&server);
            let (principals, terminal) = (Arc::clone(&server.principals), principal.clone());
            let serve = |stream| attach::serve(server, principal, stream);
            let socket = Socket { input: &mut input, out: &mut out, heartbeat: &heartbeat };
            let is_refused = tokio::select! {
                biased;
                () = principals.wait_revoked(&terminal) => true,
                () = lines::carry(serve, None, socket, &over) => false,
            };
            if is_refused {
                let _ = out.close(POLICY_CODE, TOKEN_REVOKED).await;
            }
        },
    )
}

fn heartbeat(server: &A2aServer) -> Heartbeat {
    Heartbeat::new(server.options.ping, server.options.pong)
}

/// Upgrades a connection to a WebSocket, which keeps the connection's slot.
fn accept<F: Future<Output = ()> + Send + 'static>(
    server: Arc<A2aServer>,
    transport: &'static str,
    Extension(slot): Extension<Arc<ConnectionSlot>>,
    upgrade: WebSocketUpgrade,
    serve: impl FnOnce(Arc<A2aServer>, WebSocket) -> F + Send + 'static,
) -> Response {
    // Frames up to twice the limit are read, so that the client can be told what was wrong.
    let most = server.options.body.saturating_mul(2);
    let address = client_address();
    upgrade.max_message_size(most).max_frame_size(most).on_upgrade(move |socket| {
        let serve = async move {
            let _slot = slot;
            let _open = OpenSocket::of(&server);
            let _counted = server.options.metrics.as_ref().map(|metrics| metrics.client(transport));
            serve(server, socket).await;
        };
        for_client(address, serve)
    })
}

/// An open WebSocket, counted as long as this value lives.
struct OpenSocket(Arc<A2aServer>);

impl OpenSocket {
    fn of(server: &Arc<A2aServer>) -> Self {
        server.sockets.send_modify(|open| *open += 1);
        Self(Arc::clone(server))
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.sockets.send_modify(|open| *open -= 1);
    }
}

/// A stream that the client has requested.
struct Active {
    /// Id of the call, as raw JSON.
    id: String,
    context: Leased<SessionContext>,
    span: Span,
}

type Call = BoxFuture<'static, Called>;

/// A call that was carried out.
struct Called {
    /// Id of the call, as raw JSON; `None` for a notification.
    id: Option<String>,
    /// `true` if the reply must be sent before any event of the turn that the call begins.
    begins: bool,
    reply: Result<Reply, Error>,
}

/// A client on a WebSocket.
struct SocketClient {
    server: Arc<A2aServer>,
    caller: CallOrigin,
    out: WebSocketSender,
    heartbeat: Heartbeat,
    /// Version of the events that the client is sent: that of its first call whose name tells the version.
    dialect: Option<Dialect>,
    flat: bool,
    /// The sessions whose events the client is sent.
    follows: Vec<Follow>,
    streams: Vec<Active>,
    calls: FuturesUnordered<Call>,
    /// Number of pending calls whose reply must come before any event of the turns that they begin. Events
    /// wait until the number is 0.
    beginning: usize,
}

async fn serve(server: Arc<A2aServer>, caller: CallOrigin, socket: WebSocket, flat: bool) {
    let (out, mut input) = socket.split();
    let mut connection = SocketClient {
        heartbeat: heartbeat(&server),
        server,
        caller,
        out: WebSocketSender(out),
        dialect: None,
        flat,
        follows: Vec::new(),
        streams: Vec::new(),
        calls: FuturesUnordered::new(),
        beginning: 0,
    };
    // The part that ended the connection has told the client why.
    let _ = connection.run(&mut input).await;
}

impl SocketClient {
    async fn run(&mut self, input: &mut SplitStream<WebSocket>) -> Result<(), ConnectionEnded> {
        let mut first = true;
        self.join().await?;
        let over = self.server.over.clone();
        let principals = Arc::clone(&self.server.principals);
        let principal = self.caller.principal.clone();
        loop {
            if self.beginning == 0 {
                self.tell().await?;
            }
            tokio::select! {
                // `biased` makes `select!` try its branches in this order. So a frame that has arrived is read before
                // the heartbeat's deadline is checked, and the heartbeat does not take the client for gone.
                biased;
                () = principals.wait_revoked(&principal) => {
                    return Err(self.out.close(POLICY_CODE, TOKEN_REVOKED).await);
                }
                () = over.cancelled() => {
                    // Calls that are done by now still get their replies.
                    while let Some(Some(called)) = self.calls.next().now_or_never() {
                        self.called(called).await?;
                    }
                    self.tell().await?;
                    return Err(self.out.close(GOING_AWAY, "the agent ends").await);
                }
                message = input.next() => {
                    self.heartbeat.heard();
                    let text = self.text(message).await?;
                    if text.is_empty() {
                        continue;
                    }
                    if first && let Some(serve) = acp::wanted(&self.server, &text) {
                        let origin = self.caller.origin.clone();
                        let serve = move |stream| serve(stream, origin);
                        let socket = Socket { input, out: &mut self.out, heartbeat: &self.heartbeat };
                        lines::carry(serve, Some(text), socket, &over).await;
                        return Ok(());
                    }
                    first = false;
                    self.handle_text(&text).await?;
                }
                Some(called) = self.calls.next() => self.called(called).await?,
                () = news(&mut self.follows), if self.beginning == 0 => {}
                due = self.heartbeat.due() => match due {
                    HeartbeatAction::Ping => self.out.ping().await?,
                    HeartbeatAction::Gone => return Err(self.out.close(GOING_AWAY, CLIENT_SILENT).await),
                },
            }
        }
    }

    /// Starts to follow the shared session, and sends its open questions.
    async fn join(&mut self) -> Result<(), ConnectionEnded> {
        let Some(context) = self.server.contexts.shared().cloned() else { return Ok(()) };
        if !context.is_open_to(&self.caller.principal) {
            return Ok(());
        }
        let now = context.position();
        let mut asked: Vec<usize> = context.records(|records| {
            let open =
                context.session().map(|session| session.questions().open_now()).unwrap_or_default();
            open.iter().filter_map(|asked| records.call(&asked.call.id)?.index).collect()
        });
        asked.sort_unstable();
        for index in asked.into_iter().filter(|index| *index < now) {
            self.ask(&context, index).await?;
        }
        self.follows.push(Follow::leased(&context, now, self.dialect()));
        Ok(())
    }

    /// Sends the question whose log entry has this index.
    async fn ask(
        &mut self,
        context: &Arc<SessionContext>,
        index: usize,
    ) -> Result<(), ConnectionEnded> {
        let mut question = Follow::new(context, index, self.dialect());
        while let Some(frame) = question.next_past().await
            && frame.index == index
        {
            self.deliver(context, &frame).await?;
        }
        Ok(())
    }

    fn dialect(&self) -> Dialect {
        if self.flat { Dialect::Flat } else { self.dialect.unwrap_or(Dialect::V03) }
    }

    /// Sends all events of the followed sessions up to now.
    async fn tell(&mut self) -> Result<(), ConnectionEnded> {
        for n in 0..self.follows.len() {
            while let Some(frame) = self.next_frame(n).await {
                // The session may have ceased to be shared since the last frame.
                if !self.follows[n].context.is_open_to(&self.caller.principal) {
                    break;
                }
                // There may be many frames, so other tasks of the runtime get their turn in between.
                consume_budget().await;
                let context = Arc::clone(&self.follows[n].context);
                self.deliver(&context, &frame).await?;
            }
        }
        if self.follows.iter().any(|follow| follow.context.has_moved()) {
            return Err(self.out.close(GOING_AWAY, SESSION_MOVED).await);
        }
        self.leave().await?;
        self.out.flush().await
    }

    /// Returns the next frame of a session. Waits for a frame that is still being made only if the server
    /// ends or the session has moved to another process. Otherwise the client's calls go first.
    async fn next_frame(&mut self, n: usize) -> Option<Frame> {
        let follow = &mut self.follows[n];
        if self.server.over.is_cancelled() || follow.context.has_moved() {
            return follow.next_past().await;
        }
        follow.try_next()
    }

    /// Stops following sessions that are not shared with the client any more, and ends their streams.
    async fn leave(&mut self) -> Result<(), ConnectionEnded> {
        let principal = &self.caller.principal;
        self.follows.retain(|follow| follow.context.is_open_to(principal));
        let is_left = |stream: &mut Active| !stream.context.is_open_to(principal);
        let ended: Vec<Active> = self.streams.extract_if(.., is_left).collect();
        for stream in ended {
            self.out.fail(&stream.id, &not_shared()).await?;
            self.out.end(&stream.id).await?;
        }
        Ok(())
    }

    /// Sends an event: as part of a stream that the client requested, or else on its own.
    async fn deliver(
        &mut self,
        context: &Arc<SessionContext>,
        frame: &Frame,
    ) -> Result<(), ConnectionEnded> {
        if self.flat {
            return self.out.send(frame.json.to_vec()).await;
        }
        let of_turn =
            |stream: &Active| stream.context.is_of(context) && stream.span.turn == frame.turn;
        if !self.streams.iter().any(of_turn) {
            return self.out.event(&frame.json).await;
        }
        // Of several streams that have the event, only one sends the event: if possible, a stream that the event
        // ends.
        let takes = |stream: &&Active| of_turn(stream) && stream.span.has(frame);
        let telling = self.streams.iter().filter(takes);
        if let Some(stream) = telling.min_by_key(|stream| !stream.span.ends(frame)) {
            let (id, json) = (stream.id.clone(), stream.span.frame_bytes(frame));
            self.out.result(&id, &json).await?;
        }
        // The event may be the end of several streams. All of them end, although only one has sent the event.
        let ends = |stream: &mut Active| of_turn(stream) && stream.span.ends(frame);
        let ended: Vec<Active> = self.streams.extract_if(.., ends).collect();
        for stream in ended {
            self.out.end(&stream.id).await?;
        }
        Ok(())
    }

    /// Returns the text of a frame; empty for a ping or a pong. Any other frame ends the connection.
    async fn text(
        &mut self,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<String, ConnectionEnded> {
        match message {
            Some(Ok(Message::Text(text))) if text.len() > self.server.options.body => {
                Err(self.out.close(TOO_BIG, "the frame is too large").await)
            }
            Some(Ok(Message::Text(text))) => Ok(text.as_str().to_owned()),
            Some(Ok(Message::Binary(_))) => {
                Err(self.out.close(UNSUPPORTED_CODE, "frames must be text").await)
            }
            // The WebSocket library answers pings.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(String::new()),
            Some(Err(err)) => {
                tracing::debug!("a WebSocket ended: {err}");
                let over = self.out.close(TOO_BIG, "the frame is too large, or not a frame").await;
                // If the connection closed while the client still sends, it would be reset, and the client
                // might lose the reason.
                tokio::time::sleep(LINGER_TIME).await;
                Err(over)
            }
            Some(Ok(Message::Close(_))) => {
                // The library has queued the answer to the close frame.
                let _ = self.out.flush().await;
                Err(ConnectionEnded)
            }
            None => Err(ConnectionEnded),
        }
    }

    /// Handles a text frame from the client.
    async fn handle_text(&mut self, text: &str) -> Result<(), ConnectionEnded> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let call = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(call)) => Fields(call),
            Ok(_) => {
                let error = Error::new(Error::INVALID_REQUEST, "a message must be a JSON object");
                return self.out.fail("null", &error).await;
            }
            Err(err) => {
                let error = Error::new(Error::PARSE_ERROR, format!("Parse error: {err}"));
                return self.out.fail("null", &error).await;
            }
        };
        if !call.0.contains_key("id") {
            return self.notified(call).await;
        }
        let ReceivedCall { id, method, params } = match envelope(text.as_bytes()) {
            Ok(call) => call,
            Err(InvalidCall { id, error }) => return self.out.fail(&id, &error).await,
        };
        if method == "cancelStream" {
            self.stop(&params.into());
            return self.out.result(&id, b"null").await;
        }
        if let Err(used_up) = self.server.meter.request(self.caller.principal.id()) {
            self.server.audit.denied(self.caller.principal.id(), &method, &used_up.message());
            return self.out.fail(&id, &used_up.into()).await;
        }
        if self.calls.len() >= MAX_PENDING_CALLS {
            let why = format!("{MAX_PENDING_CALLS} calls are under way");
            let error = Error::new(Error::INTERNAL_ERROR, why);
            return self.out.fail(&id, &error).await;
        }
        let known = Method::named(&method);
        let streams = known.is_some_and(|(method, _)| method.streams());
        if streams && self.streams.len() + self.beginning >= MAX_STREAMS {
            let why = format!("{MAX_STREAMS} streams are open");
            let error = Error::new(Error::INTERNAL_ERROR, why);
            return self.out.fail(&id, &error).await;
        }
        if self.dialect.is_none() {
            // Commands have the same names in both versions, so they tell no version.
            let tells = |method| !matches!(method, Method::Commands | Method::Execute);
            self.dialect = known.filter(|(it, _)| tells(*it)).map(|(_, version)| version.into());
            let dialect = self.dialect();
            self.follows.iter_mut().for_each(|follow| follow.speak(dialect));
        }
        let (server, caller) = (Arc::clone(&self.server), self.caller.clone());
        let begins = streams || known.is_some_and(|(method, _)| method == Method::Execute);
        self.carry_out(
            begins,
            Box::pin(async move {
                let span = call_span(&caller, "WebSocket call");
                let reply = server.call(&method, params, &caller).instrument(span).await;
                Called { id: Some(id), begins, reply }
            }),
        )
        .await
    }

    /// Starts a call. If it completes at once, its reply is sent before any further event.
    async fn carry_out(&mut self, begins: bool, mut call: Call) -> Result<(), ConnectionEnded> {
        self.beginning += usize::from(begins);
        if let Some(called) = (&mut call).now_or_never() {
            return self.called(called).await;
        }
        self.calls.push(call);
        Ok(())
    }

    /// Sends the reply to a call that was carried out.
    async fn called(&mut self, called: Called) -> Result<(), ConnectionEnded> {
        self.beginning -= usize::from(called.begins);
        match (called.id, called.reply) {
            (Some(id), reply) => return self.reply(id, reply).await,
            (None, Ok(Reply::Stream(streaming))) => return self.unanswered(&streaming).await,
            (None, Ok(Reply::Value(_))) => {}
            (None, Err(error)) => {
                tracing::debug!("a notification could not be carried out: {error}");
            }
        }
        Ok(())
    }

    /// Carries out a call without an id, which gets no reply.
    async fn notified(&mut self, mut call: Fields) -> Result<(), ConnectionEnded> {
        let params: Fields = call.take_or_default("params");
        match call.text("method") {
            Some("cancelStream") => {
                self.stop(&params);
                return Ok(());
            }
            // Clients of an early implementation may omit the method.
            None if !params.0.contains_key("message") => {
                let error = Error::new(Error::INVALID_REQUEST, "Invalid request: no `method`");
                return self.out.fail("null", &error).await;
            }
            _ => {}
        }
        let is_too_many = self.server.meter.request(self.caller.principal.id()).is_err();
        if is_too_many || self.calls.len() >= MAX_PENDING_CALLS {
            tracing::debug!("a notification could not be carried out: too many calls");
            return Ok(());
        }
        let message = self.server.received(MessageForm::Early, params);
        let (server, caller) = (Arc::clone(&self.server), self.caller.clone());
        self.carry_out(
            true,
            Box::pin(async move {
                let reply = match message {
                    Ok(message) => server.stream(message, &caller, Dialect::V03).await,
                    Err(error) => Err(error),
                };
                Called { id: None, begins: true, reply: reply.map(Reply::Stream) }
            }),
        )
        .await
    }

    /// Ends the sending of a stream. The turn itself continues.
    fn stop(&mut self, params: &Fields) {
        let meant = params.0.get("id");
        self.streams.retain(|it| serde_json::from_str::<Value>(&it.id).ok().as_ref() != meant);
    }

    async fn reply(
        &mut self,
        id: String,
        reply: Result<Reply, Error>,
    ) -> Result<(), ConnectionEnded> {
        match reply {
            Ok(Reply::Value(value)) => self.out.result(&id, &value).await,
            // In this format, the stream's events are sent like those of any session.
            Ok(Reply::Stream(streaming)) if self.flat => self.unanswered(&streaming).await,
            Ok(Reply::Stream(streaming)) => self.begin(id, streaming).await,
            Err(error) => self.out.fail(&id, &error).await,
        }
    }

    /// Follows the session of a call that gets no reply of its own. Sends the open question again if the
    /// call's message did not answer the question.
    async fn unanswered(&mut self, streaming: &Streaming) -> Result<(), ConnectionEnded> {
        let context = &streaming.context;
        let was_told = self.follows.iter().any(|follow| follow.context.is_of(context));
        self.follow(streaming);
        if was_told && streaming.span.asked_back {
            self.ask(context, streaming.span.from).await?;
        }
        Ok(())
    }

    /// Follows the session of a stream from the stream's beginning, unless it is followed already.
    fn follow(&mut self, streaming: &Streaming) {
        let context = &streaming.context;
        if !self.follows.iter().any(|follow| follow.context.is_of(context)) {
            self.follows.push(Follow::leased(context, streaming.span.from, self.dialect()));
        }
    }

    /// Starts a stream: sends its first event, and the events that the client wants to be sent again.
    async fn begin(&mut self, id: String, streaming: Streaming) -> Result<(), ConnectionEnded> {
        self.follow(&streaming);
        let Streaming { context, mut span, .. } = streaming;
        if let Some(first) = span.first.take() {
            self.out.result(&id, &first).await?;
        }
        let told = self.follows.iter().find(|follow| follow.context.is_of(&context));
        let told = told.map_or(0, Follow::position);
        if span.again {
            let mut again = Follow::new(&context, span.from, self.dialect());
            while let Some(frame) = again.next_past().await
                && frame.index < told
            {
                consume_budget().await;
                if span.has(&frame) {
                    self.out.result(&id, &span.frame_bytes(&frame)).await?;
                }
                span.over |= span.ends(&frame);
            }
        }
        if span.over {
            return self.out.end(&id).await;
        }
        self.streams.push(Active { id, context, span });
        Ok(())
    }
}

/// Waits until one of the sessions has a new event.
async fn news(follows: &mut [Follow]) {
    if follows.is_empty() {
        return std::future::pending().await;
    }
    select_all(follows.iter_mut().map(|follow| Box::pin(follow.ready()))).await;
}
