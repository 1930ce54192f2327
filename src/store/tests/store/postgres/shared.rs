//! Nodes that read the logs of other nodes' sessions, and leave orders for the owners.

use std::collections::HashSet;

use futures::StreamExt as _;
use tandem_agent::session::{
    SharedStore as _, Store as _, StoreError, Stored, StoredLog, WriteLease,
};
use tandem_store::PostgresStore;
use test_fakes::postgres::{Cluster, Database};
use test_support::limit::{HANG, wait_until};
use tokio::time::timeout;

use crate::laws::{batch, head, new_id, text};

/// Reads this number of events of a growing log; returns their indexes.
async fn read(log: &mut StoredLog, count: usize) -> Vec<usize> {
    let mut indexes = Vec::new();
    while indexes.len() < count {
        for piece in timeout(HANG, log.next()).await.unwrap().unwrap().unwrap() {
            let Stored::Batch(batch) = piece else { panic!("{piece:?}") };
            for (index, (_, event)) in (batch.first..).zip(&batch.events) {
                assert_eq!(**event, text(index));
                indexes.push(index);
            }
        }
    }
    indexes
}

async fn owned(store: &PostgresStore) -> (String, Box<dyn WriteLease>) {
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    lease.append(vec![batch(0, 4)]).await.unwrap();
    (id, lease)
}

#[tokio::test]
async fn sessions_are_active_that_other_nodes_have_or_in_which_a_turn_waits_for_one() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (owner, other) = (database.connect().await, database.connect().await);
    let (id, mut lease) = owned(&owner).await;
    let active = async |store: &PostgresStore| {
        let active = store.active_elsewhere().await.unwrap().into_iter();
        active.map(|it| (it.listed.head.id, it.busy)).collect::<Vec<_>>()
    };
    assert_eq!(active(&other).await, [(id.clone(), false)]);
    assert_eq!(active(&owner).await, []);
    database.sql("update tandem.session set busy = true");
    assert_eq!(active(&other).await, [(id.clone(), true)]);
    lease.release().await;
    for store in [&owner, &other] {
        assert_eq!(active(store).await, [(id.clone(), true)], "somebody will go on with it");
    }
    database.sql("update tandem.session set busy = false");
    assert_eq!(active(&other).await, []);
    // The owner is a node that does not exist.
    database.sql("update tandem.session set owner = 'gone'");
    assert_eq!(active(&other).await, []);
}

fn indexes(from: usize, to: usize) -> Vec<usize> {
    (from..to).collect()
}

#[tokio::test]
async fn a_log_is_read_at_another_node_as_it_grows_from_any_place_on() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (owner, other) = (database.connect().await, database.connect().await);
    let (id, mut lease) = owned(&owner).await;
    let mut logs: Vec<_> = (0..6).map(|from| other.follow(&id, from)).collect();
    for (from, log) in logs.iter_mut().enumerate().take(4) {
        assert_eq!(read(log, 4 - from).await, indexes(from, 4));
    }
    // The log has far more batches than one read returns, and a gap.
    let many: Vec<_> = (0..300).map(|n| batch(6 + n, 1)).collect();
    lease.append([vec![batch(4, 1)], many].concat()).await.unwrap();
    let expected = [vec![4], indexes(6, 306)].concat();
    for log in logs.iter_mut().take(5) {
        assert_eq!(read(log, 301).await, expected);
    }
    assert_eq!(read(&mut logs[5], 300).await, indexes(6, 306));
    assert_eq!(other.position(&id).await.unwrap(), 306);
    lease.release().await;
    drop(lease);
    owner.delete(&id).await.unwrap();
    let end = timeout(HANG, logs[0].next()).await.unwrap().unwrap();
    assert!(matches!(end, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn events_still_come_when_the_connection_is_cut_on_which_nodes_are_told_of_them() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (owner, other) = (database.connect().await, database.connect().await);
    let (id, mut lease) = owned(&owner).await;
    let mut log = other.follow(&id, 0);
    assert_eq!(read(&mut log, 4).await, indexes(0, 4));
    for n in 4..8 {
        database.sql(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid() and query ~ 'listen|pg_notify|select 1'",
        );
        lease.append(vec![batch(n, 1)]).await.unwrap();
        assert_eq!(read(&mut log, 1).await, [n]);
    }
}

/// Waits for the next order of a node, and replies.
async fn carry_out(store: &PostgresStore, reply: &str) -> String {
    let orders = timeout(HANG, store.orders(&HashSet::new())).await.unwrap().unwrap();
    store.reply(&orders[0], reply).await.unwrap();
    orders[0].body.clone()
}

#[tokio::test]
async fn an_order_is_carried_out_by_the_owner_and_replied_to_whoever_has_put_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (owner, first, second) =
        (database.connect().await, database.connect().await, database.connect().await);
    let (id, lease) = owned(&owner).await;
    for n in 0..3 {
        let order = format!("order {n}");
        let asked = async { tokio::join!(first.ask(&id, &order), carry_out(&owner, "first")) };
        let (reply, body) = timeout(HANG, asked).await.unwrap();
        assert_eq!((reply.unwrap().as_str(), body), ("first", order));
    }
    // An order that is being carried out is not returned a second time.
    let asked = async {
        let both = async { tokio::join!(first.ask(&id, "a"), second.ask(&id, "b")) };
        let carried_out = async {
            let mut under_way = HashSet::new();
            let mut bodies = Vec::new();
            while bodies.len() < 2 {
                let taken = owner.orders(&under_way).await.unwrap();
                bodies.extend(taken.iter().map(|order| order.body.clone()));
                under_way.extend(taken);
            }
            for order in under_way {
                owner.reply(&order, &order.body.to_uppercase()).await.unwrap();
            }
            bodies.sort();
            bodies
        };
        tokio::join!(both, carried_out)
    };
    let ((a, b), bodies) = timeout(HANG, asked).await.unwrap();
    assert_eq!((a.unwrap().as_str(), b.unwrap().as_str()), ("A", "B"));
    assert_eq!(bodies, ["a", "b"]);
    emptied(&database).await;
    drop(lease);
}

/// Waits until nothing is in the inbox.
async fn emptied(database: &Database<'_>) {
    let is_empty = || database.sql("select count(*) from tandem.inbox") == "0";
    wait_until("an empty inbox", is_empty).await;
}

#[tokio::test]
async fn an_order_that_its_owner_has_not_replied_to_is_for_the_next_owner() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (first, second) = (database.connect().await, database.connect().await);
    let (id, mut lease) = owned(&first).await;
    let going_on = async {
        let order = first.orders(&HashSet::new()).await.unwrap().remove(0);
        lease.release().await;
        assert_eq!(second.unowned_by_others(&[&id]).await.unwrap(), std::slice::from_ref(&id));
        let _lease = second.acquire(&id).await.unwrap();
        assert_eq!(first.unowned_by_others(&[&id]).await.unwrap(), [] as [String; 0]);
        // This node has lost the session, so its reply does not count.
        first.reply(&order, "too late").await.unwrap();
        assert_eq!(carry_out(&second, "in time").await, "go");
    };
    let asked = async { tokio::join!(second.ask(&id, "go"), going_on) };
    let (reply, ()) = timeout(HANG, asked).await.unwrap();
    assert_eq!(reply.unwrap(), "in time");
}

#[tokio::test]
async fn orders_that_nobody_waits_for_are_removed() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (owner, other) = (database.connect().await, database.connect().await);
    let (id, _lease) = owned(&owner).await;
    {
        let asking = other.ask(&id, "go");
        let none = HashSet::new();
        let taken = owner.orders(&none);
        tokio::pin!(asking);
        let taken = tokio::select! {
            _ = &mut asking => panic!("nobody has replied"),
            taken = timeout(HANG, taken) => taken,
        };
        assert_eq!(taken.unwrap().unwrap().len(), 1);
    }
    emptied(&database).await;
    let orphan = format!(
        "insert into tandem.inbox(session, key, asker, body) values ('{id}', 'k', 'gone', 'x')"
    );
    database.sql(&orphan);
    let _third = database.connect().await;
    emptied(&database).await;
    assert!(matches!(other.ask(&new_id(), "go").await, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn an_order_that_is_gone_is_told_apart_from_a_session_that_is_gone() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (owner, other) = (database.connect().await, database.connect().await);
    let (id, _lease) = owned(&owner).await;
    let losing = async {
        let order = owner.orders(&HashSet::new()).await.unwrap().remove(0);
        database.sql("delete from tandem.inbox");
        owner.reply(&order, "too late").await.unwrap();
    };
    let asked = async { tokio::join!(other.ask(&id, "go"), losing) };
    let (reply, ()) = timeout(HANG, asked).await.unwrap();
    assert!(matches!(reply, Err(StoreError::Io(_))));
}

#[tokio::test]
async fn a_database_of_an_earlier_version_gets_the_inbox() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    drop(database.connect().await);
    database.sql("drop table tandem.inbox");
    let stores = futures::future::join_all((0..3).map(|_| database.connect())).await;
    assert_eq!(stores.len(), 3);
    assert_eq!(database.sql("select count(*) from tandem.inbox"), "0");
}
