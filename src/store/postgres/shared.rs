//! Owners of sessions: which node owns a session, and which sessions this node owns.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tandem_agent::session::{Holder, Orphan, StoreError};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::connection::{Database, get};
use super::news::Notifications;
use super::nodes::{NodeState, Nodes};
use super::writer::Writer;

/// Time between two queries about a node that may be dead.
const DEATH_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of orphans that one query returns. A small number wastes few leases on orphans that other nodes
/// have leased meanwhile.
const MAX_QUERIED_ORPHANS: i64 = 16;

/// Parts of a store that the store and its leases share.
pub(super) struct Shared {
    pub(super) database: Arc<Database>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) writer: Writer,
    pub(super) news: Arc<Notifications>,
    /// The sessions that this node owns, or is about to own, by id.
    pub(super) held: Mutex<HashMap<String, HeldSession>>,
}

/// A session that this node owns.
#[derive(Clone)]
pub(super) struct HeldSession {
    pub(super) epoch: i64,
    /// Token that is cancelled when another node has taken the session over.
    taken_over: CancellationToken,
}

/// The columns of a session's row that say which node owns the session.
pub(super) struct Owner {
    pub(super) epoch: i64,
    /// Index after the last event of the log.
    pub(super) next: i64,
    port: Option<i32>,
    /// Name of the owning node; empty if no node owns the session.
    pub(super) node: String,
    /// `true` if the table of nodes has the owning node.
    is_known: bool,
    /// `true` if the lock of another node is free: that node may have been killed this very moment.
    is_free: bool,
}

impl Shared {
    pub(super) fn new(
        database: Arc<Database>,
        nodes: Arc<Nodes>,
        writer: Writer,
        news: Arc<Notifications>,
    ) -> Self {
        Self { database, nodes, writer, news, held: Mutex::default() }
    }

    /// Returns the owner of a session.
    pub(super) async fn owner(&self, id: &str) -> Result<Owner, StoreError> {
        let owner = self.owners(&[id]).await?.pop();
        owner.map(|(_, owner)| owner).ok_or_else(|| StoreError::NotFound(id.to_owned()))
    }

    /// Returns the owner of each of these sessions that exists.
    pub(super) async fn owners(&self, ids: &[&str]) -> Result<Vec<(String, Owner)>, StoreError> {
        let sql = "select s.id, s.epoch, s.next, s.port, s.owner, n.name is not null, \
                   n.name is not null and s.owner <> $2 and \
                   pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || s.owner, 0)) \
                   from tandem.session s left join tandem.node n on n.name = s.owner \
                   where s.id = any($1)";
        self.nodes.look_if_no_node().await?;
        let rows = self.database.query(sql, &[&ids, &self.nodes.own_name()]).await?;
        let owner = |row| {
            let owner = Owner {
                epoch: get(row, 1)?,
                next: get(row, 2)?,
                port: get(row, 3)?,
                node: get(row, 4)?,
                is_known: get(row, 5)?,
                is_free: get(row, 6)?,
            };
            Ok((get(row, 0)?, owner))
        };
        rows.iter().map(owner).collect()
    }

    /// Returns the state of the node that owns a session. For this node, `Alive` means that it still owns the session
    /// in this epoch.
    pub(super) fn life(&self, id: &str, owner: &Owner) -> NodeState {
        if owner.node == self.nodes.own_name() {
            // This node may have given the session up a moment ago, while the row still names it.
            let held = self.held.lock();
            let has_it = held.get(id).is_some_and(|held| held.epoch == owner.epoch);
            return if has_it { NodeState::Alive } else { NodeState::Dead };
        }
        if owner.node.is_empty() || !owner.is_known {
            return NodeState::Dead;
        }
        match self.nodes.life(&owner.node) {
            NodeState::Alive if owner.is_free => NodeState::Unclear,
            life => life,
        }
    }

    /// Waits until it is certain that no live node owns a session; returns its row. Returns an error if a live node
    /// owns the session.
    pub(super) async fn unowned(&self, id: &str) -> Result<Owner, StoreError> {
        let begun = Instant::now();
        loop {
            let owner = self.owner(id).await?;
            match self.life(id, &owner) {
                NodeState::Dead => return Ok(owner),
                NodeState::Unclear if begun.elapsed() < self.nodes.dead_after() * 2 => {
                    sleep(DEATH_CHECK_INTERVAL).await;
                }
                NodeState::Alive | NodeState::Unclear => {
                    return Err(StoreError::Held(id.to_owned(), self.holder(owner)));
                }
            }
        }
    }

    /// Returns some of the sessions in which a turn runs or waits although their nodes are dead, or have given them
    /// up. The order is random, so that nodes that search at the same time lease different sessions.
    pub(super) async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        let sql = "select s.id, s.epoch from tandem.session s \
                   where s.busy and (s.owner = '' or s.owner = any($1) or \
                   not exists (select from tandem.node n where n.name = s.owner)) \
                   order by random() limit $2";
        let rows = self.database.query(sql, &[&self.nodes.dead(), &MAX_QUERIED_ORPHANS]).await?;
        let orphan = |row| {
            let epoch: i64 = get(row, 1)?;
            Ok(Orphan { id: get(row, 0)?, epoch: u64::try_from(epoch).unwrap_or(0) })
        };
        rows.iter().map(orphan).collect()
    }

    /// Describes an owner for error messages.
    pub(super) fn holder(&self, owner: Owner) -> Holder {
        let port = owner.port.and_then(|port| u16::try_from(port).ok());
        if owner.node == self.nodes.own_name() {
            return Holder { pid: std::process::id(), port, node: None };
        }
        Holder { pid: 0, port, node: Some(owner.node) }
    }

    /// Notes that this node owns a session, or is about to lease it; returns a token that is cancelled when another
    /// node has taken the session over. Returns `None` if this node has noted the session in this epoch or a later
    /// epoch: of two leases of a session, only one is valid.
    pub(super) fn hold(&self, id: &str, epoch: i64) -> Option<CancellationToken> {
        let mut held = self.held.lock();
        if held.get(id).is_some_and(|held| held.epoch >= epoch) {
            return None;
        }
        let taken_over = CancellationToken::new();
        held.insert(id.to_owned(), HeldSession { epoch, taken_over: taken_over.clone() });
        Some(taken_over)
    }

    /// Forgets a session that this node owned in this epoch.
    pub(super) fn let_go(&self, id: &str, epoch: i64) {
        let mut held = self.held.lock();
        if held.get(id).is_some_and(|held| held.epoch == epoch) {
            held.remove(id);
        }
    }

    /// Finds out which sessions of this node other nodes have taken over, and cancels their tokens.
    pub(super) async fn check_held(&self) {
        let held = self.held.lock().clone();
        let ids: Vec<&str> = held.keys().map(String::as_str).collect();
        if ids.is_empty() {
            return;
        }
        let sql = "select id, epoch from tandem.session where id = any($1)";
        // If the database does not answer, nothing is known to be taken over. The heartbeat calls this again.
        let Ok(rows) = self.database.query(sql, &[&ids]).await else { return };
        for row in rows {
            if let (Ok(id), Ok(epoch)) = (get::<String>(&row, 0), get::<i64>(&row, 1))
                && let Some(held) = held.get(&id).filter(|held| held.epoch < epoch)
            {
                held.taken_over.cancel();
            }
        }
    }
}
