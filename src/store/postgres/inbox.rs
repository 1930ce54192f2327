//! The inbox: orders for the owners of sessions, on behalf of clients of other nodes.
//!
//! A row is an order. The asking node inserts the row, waits for the reply in it, and removes it. The owner also
//! carries out orders of a node that seems dead, because that node may only have been frozen and still be waiting.
//! The next node that starts removes the rows of nodes that have died.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use tandem_agent::session::{Order, StoreError};
use tokio::runtime::Handle;

use super::connection::get;
use super::news::inbox_of;
use super::shared::Shared;

/// Maximum number of orders that one query returns.
const MAX_QUERIED_ORDERS: i64 = 64;

/// Puts an order into the inbox of a session, and waits until the session's owner has carried it out; returns the
/// reply.
pub(super) async fn ask(
    shared: &Arc<Shared>,
    session: &str,
    body: &str,
) -> Result<String, StoreError> {
    let key = uuid::Uuid::new_v4().to_string();
    // Subscribed before the order is in the inbox, so that the news of its reply cannot be missed.
    let mut news = shared.news.subscribe(&key);
    // This exists before the row does, so that the row is removed even if this future is dropped while it is inserted.
    let asked =
        AskedOrder { shared: Arc::clone(shared), session: session.to_owned(), key: key.clone() };
    let owner = shared.owner(session).await?.node;
    let sql = "insert into tandem.inbox(session, key, asker, body) values ($1, $2, $3, $4) \
               on conflict do nothing";
    shared.database.query(sql, &[&session, &key, &shared.nodes.own_name(), &body]).await?;
    // If the session gets another owner meanwhile, that node reads its inbox when it has leased the session.
    shared.news.tell(&inbox_of(&owner));
    loop {
        news.forget();
        let sql = "select reply from tandem.inbox where session = $1 and key = $2";
        let row = shared.database.query(sql, &[&session, &key]).await?.pop();
        match row.map(|row| get::<Option<String>>(&row, 0)).transpose()? {
            Some(Some(reply)) => {
                drop(asked);
                return Ok(reply);
            }
            Some(None) => _ = news.wait().await,
            None => return Err(lost_order(shared, session).await),
        }
    }
}

/// Returns the reason why the row of an order is gone: the session was deleted, or the row alone was removed.
async fn lost_order(shared: &Shared, session: &str) -> StoreError {
    match shared.owner(session).await {
        Ok(_) => StoreError::Io(io::Error::other(
            "the call for the owner of the session was lost before it was answered; try again",
        )),
        Err(error) => error,
    }
}

/// An order of this node. When this value is dropped, no caller waits for the reply any more, and the row is removed.
struct AskedOrder {
    shared: Arc<Shared>,
    session: String,
    key: String,
}

impl Drop for AskedOrder {
    fn drop(&mut self) {
        let (shared, session, key) =
            (Arc::clone(&self.shared), self.session.clone(), self.key.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let sql = "delete from tandem.inbox where session = $1 and key = $2";
                // If this fails, a node that starts after this one has died removes the row.
                let _ = shared.database.query(sql, &[&session, &key]).await;
            });
        }
    }
}

/// Waits for orders for the sessions that this node owns. Leaves out the orders in `under_way`.
pub(super) async fn orders(
    shared: &Arc<Shared>,
    under_way: &HashSet<Order>,
) -> Result<Vec<Order>, StoreError> {
    let own = shared.nodes.own_name();
    let mut news = shared.news.subscribe(&inbox_of(own));
    loop {
        news.forget();
        let sql = "select i.session, i.key, i.body, s.epoch from tandem.inbox i \
                   join tandem.session s on s.id = i.session \
                   where s.owner = $1 and i.reply is null and i.key <> all($2) order by i.id limit $3";
        let known: Vec<&str> = under_way.iter().map(|order| order.key.as_str()).collect();
        let rows = shared.database.query(sql, &[&own, &known, &MAX_QUERIED_ORDERS]).await?;
        let mut orders = Vec::new();
        for row in &rows {
            let (session, epoch): (String, i64) = (get(row, 0)?, get(row, 3)?);
            if shared.held.lock().get(&session).is_some_and(|held| held.epoch == epoch) {
                orders.push(Order { session, key: get(row, 1)?, body: get(row, 2)?, epoch });
            }
        }
        if !orders.is_empty() {
            return Ok(orders);
        }
        news.wait().await;
    }
}

/// Replies to an order, if this node still owns the session in the order's epoch.
pub(super) async fn reply(shared: &Shared, order: &Order, reply: &str) -> Result<(), StoreError> {
    let sql = "update tandem.inbox set reply = $3 where session = $1 and key = $2 and exists \
               (select from tandem.session s where s.id = $1 and s.owner = $4 and s.epoch = $5)";
    let own = shared.nodes.own_name();
    let Order { session, key, epoch, .. } = order;
    shared.database.query(sql, &[session, key, &reply, &own, epoch]).await?;
    shared.news.tell(key);
    Ok(())
}
