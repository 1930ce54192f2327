//! Calls for sessions that other nodes have.
//!
//! A node that is asked to act in a session that another one has leaves the call for that one, as it is,
//! with who calls. The owner carries it out as it would for a client of its own: rights, quotas and the
//! audit log are looked at there. What was carried out before is known from the session's log, so an order
//! that is carried out again, by the next owner, has no other effect.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::attach::{self, TerminalCall};
use super::audit::{client_address, for_client};
use super::context::UnknownContext;
use super::dialect::Dialect;
use super::methods::Reply;
use super::monitoring::call_span;
use super::principals::Principal;
use super::read::{MessageForm, ReceivedMessage};
use super::requests::SessionId;
use super::rest::BegunCommand;
use super::server::{A2aServer, CallOrigin};
use super::subscription::{Span, Streaming};
use tandem_agent::session::{FollowedSession, Order, Origin, SharedStore, StoreError};
use tandem_trace::TraceContext;
use tandem_wire::jsonrpc::Error;
use tracing::Instrument as _;

/// Time between two looks for sessions whose owners have gone before they have carried out an order.
const LOOK: Duration = Duration::from_millis(250);

/// Wait after a store has refused.
const PAUSE: Duration = Duration::from_secs(1);

/// A call for the owner of a session.
#[derive(Serialize, Deserialize)]
pub(super) enum OrderedCall {
    /// A method that has one result.
    Method { name: String, params: Value },
    /// A message, which has a stream.
    Message { form: MessageForm, params: Value, dialect: String },
    /// `POST /executeCommand`.
    Command { body: Value },
    /// A call of a terminal that has attached.
    Terminal(TerminalCall),
}

/// A call, and who makes it.
#[derive(Serialize, Deserialize)]
struct CallOrder {
    call: OrderedCall,
    principal: Principal,
    origin: Origin,
    /// The client's address, if it is known.
    address: Option<IpAddr>,
    /// Place in a trace, as the fields that carry it.
    trace: HashMap<String, String>,
}

/// Outcome of a call that its owner has carried out.
#[derive(Serialize, Deserialize)]
pub(super) enum OrderReply {
    Value(Box<RawValue>),
    Stream(BegunStream),
    Command(BegunCommand),
    Failed(Error),
}

/// A stream that has begun at the owner.
#[derive(Serialize, Deserialize)]
pub(super) struct BegunStream {
    span: Span,
    /// The event that it begins with.
    first: Option<String>,
    unknown: Option<UnknownContext>,
}

impl BegunStream {
    fn of(streaming: Streaming) -> Self {
        let Streaming { mut span, unknown, .. } = streaming;
        let first = span.first.take().map(|json| String::from_utf8_lossy(&json).into_owned());
        Self { span, first, unknown }
    }
}

impl OrderReply {
    fn of(result: Result<Self, Error>) -> Self {
        result.unwrap_or_else(Self::Failed)
    }

    fn of_value(value: &impl Serialize) -> Result<Self, Error> {
        serde_json::value::to_raw_value(value).map(Self::Value).map_err(Error::internal)
    }

    /// Returns the result of a method.
    pub(super) fn value(self) -> Result<Reply, Error> {
        match self {
            Self::Value(value) => {
                Ok(Reply::Value(Bytes::from(String::from(Box::<str>::from(value)))))
            }
            other => Err(other.error()),
        }
    }

    /// Returns the result of a call of a terminal.
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, Error> {
        match self {
            Self::Value(value) => serde_json::from_str(value.get()).map_err(Error::internal),
            other => Err(other.error()),
        }
    }

    /// Returns the stream of a message.
    pub(super) fn stream(self) -> Result<(Span, Option<UnknownContext>), Error> {
        match self {
            Self::Stream(BegunStream { span, first, unknown }) => {
                Ok((Span { first: first.map(Bytes::from), ..span }, unknown))
            }
            other => Err(other.error()),
        }
    }

    /// Returns the command that was begun.
    pub(super) fn command(self) -> Result<BegunCommand, Error> {
        match self {
            Self::Command(begun) => Ok(begun),
            other => Err(other.error()),
        }
    }

    fn error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            _ => Error::internal("the owner of the session has replied to another call"),
        }
    }
}

fn unreachable_owner(error: &StoreError) -> Error {
    Error::new(Error::INTERNAL, error.to_string())
}

impl A2aServer {
    /// Has the owner of a session carry out a call. What it has done can be read here when this returns.
    pub(super) async fn order(
        &self,
        session: &FollowedSession,
        call: OrderedCall,
        caller: &CallOrigin,
    ) -> Result<OrderReply, Error> {
        // The owner itself has just lost the session: the next one carries the order out.
        if caller.order.is_some() {
            return Err(unreachable_owner(&StoreError::TakenOver));
        }
        let (principal, origin) = (caller.principal.clone(), caller.origin.clone());
        let trace = TraceContext::current().fields();
        let order = CallOrder { call, principal, origin, address: client_address(), trace };
        let order = serde_json::to_string(&order).map_err(Error::internal)?;
        let reply = session.ask(order).await.map_err(|error| unreachable_owner(&error))?;
        session.caught_up().await.map_err(|error| unreachable_owner(&error))?;
        match serde_json::from_str(&reply).map_err(Error::internal)? {
            OrderReply::Failed(error) => Err(error),
            reply => Ok(reply),
        }
    }

    /// Carries out an order of another node's client.
    async fn obey(&self, order: &Order) -> Result<OrderReply, Error> {
        let CallOrder { call, principal, origin, address, trace } =
            serde_json::from_str(&order.body).map_err(Error::internal)?;
        let order = Some(order.key.clone());
        let trace = TraceContext::read(|name| trace.get(name).map(String::as_str));
        let caller = CallOrigin { origin, principal, last_event: None, trace, order };
        let span = call_span(&caller, "call at another node");
        for_client(address, self.obey_call(call, &caller)).instrument(span).await
    }

    async fn obey_call(&self, call: OrderedCall, caller: &CallOrigin) -> Result<OrderReply, Error> {
        match call {
            OrderedCall::Method { name, params } => match self.call(&name, params, caller).await? {
                Reply::Value(value) => {
                    serde_json::from_slice(&value).map(OrderReply::Value).map_err(Error::internal)
                }
                Reply::Stream(streaming) => Ok(OrderReply::Stream(BegunStream::of(streaming))),
            },
            OrderedCall::Message { form, params, dialect } => {
                let dialect = Dialect::named(&dialect)
                    .ok_or_else(|| Error::internal(format!("there is no dialect `{dialect}`")))?;
                let message = ReceivedMessage::read(form, params)?;
                let streaming = self.stream(message, caller, dialect).await?;
                Ok(OrderReply::Stream(BegunStream::of(streaming)))
            }
            OrderedCall::Command { body } => {
                let (_, begun) = self.begin_command(&body, caller).await?;
                Ok(OrderReply::Command(begun))
            }
            OrderedCall::Terminal(call) => {
                OrderReply::of_value(&attach::obey(self, &call, caller).await?)
            }
        }
    }
}

/// Carries out orders of other nodes, and sees to it that somebody carries out those of this one, for ever;
/// ends at once where no other node has sessions.
pub(super) async fn run(server: Arc<A2aServer>) {
    if let Some(store) = server.contexts.shared_store()
        && let Some(shared) = store.shared()
    {
        tokio::join!(carry_out(&server, shared), find_owners(&server, shared));
    }
}

/// Carries out what clients of other nodes want of the sessions that this one has.
async fn carry_out(server: &Arc<A2aServer>, shared: &dyn SharedStore) {
    let (mut known, mut under_way) = (HashSet::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            orders = shared.orders(&known) => match orders {
                Ok(orders) => for order in orders {
                    known.insert(order.clone());
                    let mut obeying = obey(Arc::clone(server), order);
                    // They begin in the order in which they came.
                    match (&mut obeying).now_or_never() {
                        Some(Some(order)) => _ = known.remove(&order),
                        Some(None) => {}
                        None => under_way.push(tokio::spawn(obeying)),
                    }
                },
                Err(error) => {
                    tracing::debug!("no orders of other nodes are carried out: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(done) = under_way.next() => match done {
                Ok(Some(order)) => _ = known.remove(&order),
                Ok(None) => {}
                Err(error) => tracing::error!("an order of another node has failed: {error}"),
            }
        }
    }
}

/// Carries out an order, and replies; returns the order, unless it is left for the next owner.
fn obey(server: Arc<A2aServer>, order: Order) -> BoxFuture<'static, Option<Order>> {
    async move {
        // Whatever goes wrong, somebody waits for a reply, and other orders come.
        let obeyed = AssertUnwindSafe(server.obey(&order)).catch_unwind().await;
        let reply = OrderReply::of(
            obeyed.unwrap_or_else(|_| Err(Error::internal("the owner of the session panicked"))),
        );
        if matches!(reply, OrderReply::Failed(_)) && server.check_open().is_err() {
            // The session is let go soon: what nothing has come of here may be done there.
            return None;
        }
        let replied = async {
            let reply = serde_json::to_string(&reply).map_err(std::io::Error::from)?;
            match server.contexts.shared_store().and_then(|store| store.shared()) {
                Some(store) => store.reply(&order, &reply).await,
                None => Ok(()),
            }
        };
        if let Err(error) = replied.await {
            tracing::warn!("another node is not told what has come of its order: {error}");
        }
        Some(order)
    }
    .boxed()
}

/// Takes over the sessions whose owners have gone before they have carried out orders of this node.
async fn find_owners(server: &A2aServer, shared: &dyn SharedStore) {
    loop {
        tokio::time::sleep(LOOK).await;
        let asking = server.contexts.asking();
        if asking.is_empty() || server.check_open().is_err() {
            continue;
        }
        let ids: Vec<&str> = asking.iter().map(String::as_str).collect();
        for id in shared.unowned_by_others(&ids).await.unwrap_or_default() {
            let named = SessionId { task: None, context: Some(&id) };
            if let Err(error) = server.load(&Principal::Operator, &named).await {
                tracing::warn!(
                    id,
                    "a session that another node has left is not taken over: {error}"
                );
            }
        }
    }
}
