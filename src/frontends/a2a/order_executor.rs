//! Executor of the orders that other nodes have left for the sessions of this node.
//!
//! The owner of a session carries out an order like a call of one of its own clients: it checks rights and
//! quotas, and writes the audit log. The session's log tells which orders were carried out, so an order that
//! the next owner carries out again has no second effect.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};

use super::attach::actor;
use super::dialect::Dialect;
use super::methods::Reply;
use super::monitoring::call_span;
use super::orders::{BegunStream, CallOrder, OrderReply, OrderedCall, other_version};
use super::requests::SessionId;
use super::server::{A2aServer, CallOrigin};
use super::takeover;
use tandem_agent::session::{Order, SharedStore};
use tandem_serve::audit::for_client;
use tandem_serve::principals::Principal;
use tandem_trace::TraceContext;
use tandem_wire::jsonrpc::Error;
use tracing::Instrument as _;

/// Interval between two checks for sessions whose owners ended before they carried out an order of this node.
const ORPHAN_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Pause after an error of the store.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Carries out the orders of other nodes, and takes over sessions so that orders of this node are carried
/// out. Never returns, except at once if no nodes share the store.
pub(super) async fn run(server: Arc<A2aServer>) {
    if let Some(store) = server.contexts.shared_store()
        && let Some(shared) = store.shared()
    {
        tokio::join!(carry_out(&server, shared), find_owners(&server, shared));
    }
}

/// Carries out the orders for the sessions that this node owns.
async fn carry_out(server: &Arc<A2aServer>, shared: &dyn SharedStore) {
    let (mut known, mut under_way) = (HashSet::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            orders = shared.orders(&known) => match orders {
                Ok(orders) => for order in orders {
                    known.insert(order.clone());
                    let mut obeying = obey(Arc::clone(server), order);
                    // The future is polled once before the next order is taken, so that orders begin in the
                    // sequence in which they came.
                    match (&mut obeying).now_or_never() {
                        Some(Some(order)) => _ = known.remove(&order),
                        Some(None) => {}
                        None => under_way.push(tokio::spawn(obeying)),
                    }
                },
                Err(error) => {
                    tracing::debug!("no orders of other nodes are carried out: {error}");
                    tokio::time::sleep(STORE_RETRY_DELAY).await;
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

/// Carries out an order, and replies. Returns the order; `None` if it is left for the next owner.
fn obey(server: Arc<A2aServer>, order: Order) -> BoxFuture<'static, Option<Order>> {
    async move {
        // A panic must not keep the other node waiting for its reply, nor stop the loop that carries out
        // other orders.
        let obeyed = AssertUnwindSafe(server.obey(&order)).catch_unwind().await;
        let reply = OrderReply::of(obeyed.unwrap_or_else(|_| {
            Err(Error::internal(
                "the owner of the session failed because of a bug in \
                tandem",
            ))
        }));
        if matches!(reply, OrderReply::Failed(_)) && server.check_open().is_err() {
            // This server is ending, so the session gets a new owner soon. A failed order had no effect, and
            // the next owner may be able to carry it out.
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

/// Takes over the sessions whose owners ended before they carried out orders of this node.
async fn find_owners(server: &A2aServer, shared: &dyn SharedStore) {
    loop {
        tokio::time::sleep(ORPHAN_CHECK_INTERVAL).await;
        let asking = server.contexts.asking();
        if asking.is_empty() || server.check_open().is_err() {
            continue;
        }
        let ids: Vec<&str> = asking.iter().map(String::as_str).collect();
        let unowned = shared.unowned_by_others(&ids).await.unwrap_or_default();
        let loading = stream::iter(unowned).for_each_concurrent(takeover::AT_ONCE, async |id| {
            let named = Some(SessionId::Session(&id));
            if let Err(error) = server.open(&Principal::Operator, named).await {
                tracing::warn!(
                    id,
                    "a session that another node has left is not taken over: {error}"
                );
            }
        });
        loading.await;
    }
}

impl A2aServer {
    /// Carries out an order that a client of another node caused.
    async fn obey(self: &Arc<Self>, order: &Order) -> Result<OrderReply, Error> {
        let CallOrder { call, principal, origin, address, trace } =
            serde_json::from_str(&order.body)
                .map_err(|error| other_version("it cannot read this request", &error))?;
        let order = Some(order.key.clone());
        let trace = TraceContext::read(|name| trace.get(name).map(String::as_str));
        let caller = CallOrigin { origin, principal, last_event: None, trace, order };
        let span = call_span(&caller, "call at another node");
        for_client(address, self.obey_call(call, &caller)).instrument(span).await
    }

    async fn obey_call(
        self: &Arc<Self>,
        call: OrderedCall,
        caller: &CallOrigin,
    ) -> Result<OrderReply, Error> {
        match call {
            OrderedCall::Method { name, params } => {
                match self.call(&name, params.0.into(), caller).await? {
                    Reply::Value(value) => serde_json::from_slice(&value)
                        .map(OrderReply::Value)
                        .map_err(Error::internal),
                    Reply::Stream(streaming) => Ok(OrderReply::Stream(BegunStream::of(streaming))),
                }
            }
            OrderedCall::Message { form, params, dialect } => {
                let dialect = Dialect::by_name(&dialect)
                    .ok_or_else(|| Error::internal(format!("there is no dialect `{dialect}`")))?;
                let message = self.received(form, params)?;
                let streaming = self.stream(message, caller, dialect).await?;
                Ok(OrderReply::Stream(BegunStream::of(streaming)))
            }
            OrderedCall::Command { body } => {
                let (_, begun) = self.begin_command(&body, caller).await?;
                Ok(OrderReply::Command(begun))
            }
            OrderedCall::Terminal(call) => {
                OrderReply::of_value(&actor::obey(self, &call, caller).await?)
            }
        }
    }
}
