//! Sessions in a Postgres database, which several processes on several machines share. Each of these processes is a
//! *node*.
//!
//! A log is stored as rows of batches, with the same lines as the log files of [`FileStore`](crate::FileStore). The
//! row of a session names the node that owns the session, and an epoch that each new owner raises by one. Every
//! statement that appends to a log compares the epoch. So a node that others took for dead, and that is still
//! running, is fenced: it can append nothing after another node has taken the session over. No decision depends on
//! the clocks of different machines: a node counts as dead when the lock that its connection holds is free, or when
//! the counter that it raises has stood still for some time by the observer's own clock.

mod address;
mod check;
mod connection;
mod files;
mod follow;
mod inbox;
mod lease;
mod list;
mod news;
mod nodes;
mod schema;
mod shared;
mod usage;
mod writer;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt as _};
use tandem_agent::session::{
    ActiveSession, CurrentUse, Head, Listed, Order, Orphan, PrincipalId, Query, Secrets,
    SessionUsage, SharedStore, Store, StoreError, Stored, StoredFile, StoredLog, WriteLease,
};
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::address::{AddressError, DatabaseAddress};
pub use self::check::DatabaseFinding;
use self::connection::Database;
use self::lease::PostgresLease;
use self::news::Notifications;
use self::nodes::{HeartbeatHost, NodeState, Nodes};
use self::shared::{Owner, Shared};
use self::writer::Writer;
use crate::lines::{self, FORMAT_VERSION};

/// Maximum number of batches that one query reads.
const MAX_PAGE_BATCHES: i64 = 64;

/// Maximum time between two searches for sessions that a node has left in the middle of a turn.
const ORPHAN_SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Limits of a store in a database.
#[derive(Debug, Clone, Copy)]
pub struct PostgresLimits {
    /// Time after which a call to a database that does not answer fails.
    pub patience: Duration,
    /// Time for which the counter of a node may stand still before other nodes take its sessions over.
    pub node_dead: Duration,
}

impl Default for PostgresLimits {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10), node_dead: Duration::from_secs(3) }
    }
}

/// A store in a database. While the store lives, this process is one of the nodes that share the database. The
/// process of a store from [`open`](Self::open) is no node.
pub struct PostgresStore {
    shared: Arc<Shared>,
    /// Guard that ends the node's work when the store is dropped; `None` if this process is no node.
    life: Option<DropGuard>,
}

impl PostgresStore {
    /// Connects to a database, creates missing tables, and makes this process one of its nodes. Must be called in a
    /// Tokio runtime. The error's text tells the operator what to do.
    pub async fn connect(
        address: &DatabaseAddress,
        limits: PostgresLimits,
    ) -> Result<Self, StoreError> {
        Self::join(database(address, limits)?, limits, HeartbeatHost::Thread).await
    }

    /// Connects to a database without becoming a node of it. Such a store lists and reads sessions, and deletes
    /// sessions that no live node owns. It creates no tables: a missing table is an error.
    pub async fn open(
        address: &DatabaseAddress,
        limits: PostgresLimits,
    ) -> Result<Self, StoreError> {
        let database = database(address, limits)?;
        let Some(version) = schema::version(&database).await? else {
            return Err(
                database.error("it has no sessions; `tandem serve --store` makes the tables")
            );
        };
        schema::check(version, &database)?;
        let nodes = Nodes::observe(&database, limits.node_dead);
        let news = Notifications::new();
        let writer = Writer::start(Arc::clone(&database), Arc::clone(&news));
        let shared = Arc::new(Shared::new(database, nodes, writer, news));
        Ok(Self { shared, life: None })
    }

    /// Does the same as [`connect`](Self::connect), but runs the node's heartbeat in the caller's runtime: when that
    /// runtime stops, other nodes take the sessions over. For tests, which freeze and wake a node of their own process
    /// with its runtime, and watch the frozen node from another runtime. A process that is frozen as a whole could not
    /// watch.
    pub async fn connect_in_runtime(
        address: &DatabaseAddress,
        limits: PostgresLimits,
    ) -> Result<Self, StoreError> {
        Self::join(database(address, limits)?, limits, HeartbeatHost::Runtime).await
    }

    async fn join(
        database: Arc<Database>,
        limits: PostgresLimits,
        heart: HeartbeatHost,
    ) -> Result<Self, StoreError> {
        schema::prepare(&database).await?;
        let ending = CancellationToken::new();
        let nodes = Nodes::join(&database, limits.node_dead).await?;
        let news = Notifications::new();
        let writer = Writer::start(Arc::clone(&database), Arc::clone(&news));
        let exchanging = news::exchange(Arc::clone(&news), Arc::clone(&database));
        let shared = Arc::new(Shared::new(database, nodes, writer, news));
        let (watched, runtime) = (Arc::downgrade(&shared), Handle::current());
        let check = move || {
            if let Some(shared) = watched.upgrade() {
                runtime.spawn(async move { shared.check_held().await });
            }
        };
        let ends = ending.clone().drop_guard();
        let ended = ending.clone();
        tokio::spawn(async move { ended.run_until_cancelled(exchanging).await });
        nodes::start_heartbeat(&shared.nodes, heart, check, ending).await?;
        Ok(Self { shared, life: Some(ends) })
    }

    /// Returns an error unless this process is a node. Only a node can own sessions.
    fn check_node(&self) -> Result<(), StoreError> {
        match self.life {
            Some(_) => Ok(()),
            None => Err(self.shared.database.error("its sessions can only be read from here")),
        }
    }

    /// Sets a function that is called whenever it is certain that no other node takes sessions of this node over for
    /// some time. If the function has not been called for [`node_dead`](PostgresLimits::node_dead), other nodes may
    /// take the sessions over. The function must return at once.
    pub fn on_beat(&self, call: impl Fn() + Send + Sync + 'static) {
        self.shared.nodes.on_beat(Box::new(call));
    }

    /// Checks that a database is fit for nodes, without becoming a node of it.
    pub async fn check(address: &DatabaseAddress, patience: Duration) -> Vec<DatabaseFinding> {
        check::check(address, patience).await
    }

    /// Returns the name of this node, which is unique.
    pub fn node(&self) -> &str {
        self.shared.nodes.own_name()
    }
}

fn database(
    address: &DatabaseAddress,
    limits: PostgresLimits,
) -> Result<Arc<Database>, StoreError> {
    Database::new(address, limits.patience).map(Arc::new)
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        self.check_node()?;
        PostgresLease::create(&self.shared, head).await
    }

    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        self.check_node()?;
        // Sessions in the format of a newer version are read, but not appended to.
        let (version, _) = self.shared.read_head(id).await?;
        if version > FORMAT_VERSION {
            return Err(StoreError::Newer(version));
        }
        PostgresLease::acquire(&self.shared, id).await
    }

    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        self.check_node()?;
        let (version, _) = self.shared.read_head(&orphan.id).await?;
        if version > FORMAT_VERSION {
            return Err(StoreError::Newer(version));
        }
        let seen = i64::try_from(orphan.epoch).unwrap_or(i64::MAX - 1);
        PostgresLease::acquire_seen(&self.shared, &orphan.id, seen).await
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        self.shared.orphans().await
    }

    async fn orphaned(&self) {
        self.shared.nodes.died(ORPHAN_SEARCH_INTERVAL).await;
    }

    async fn is_held(&self, id: &str) -> Result<bool, StoreError> {
        let owner = self.shared.owner(id).await?;
        Ok(self.shared.life(id, &owner) != NodeState::Dead)
    }

    async fn id(&self) -> Result<String, StoreError> {
        let rows = self.shared.database.query("select id from tandem.store", &[]).await?;
        let row = rows.first().ok_or_else(|| self.shared.database.error("it has no id"))?;
        connection::get(row, 0)
    }

    async fn head(&self, id: &str) -> Result<Head, StoreError> {
        Ok(self.shared.read_head(id).await?.1)
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        // The end is taken once: a log that another node keeps appending to might otherwise never end here.
        let end = self.shared.owner(id).await?.next;
        let (shared, id) = (Arc::clone(&self.shared), id.to_owned());
        let pages = stream::try_unfold(Some(0), move |from| {
            let (shared, id) = (Arc::clone(&shared), id.clone());
            async move {
                let Some(from) = from else { return Ok(None) };
                shared.read_page(&id, from, end).await.map(Some)
            }
        });
        Ok(pages.boxed())
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        let sql = "select id from tandem.session where owner <> ''";
        let rows = self.shared.database.query(sql, &[]).await?;
        rows.iter().map(|row| connection::get(row, 0)).collect()
    }

    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError> {
        let sql = "select body from tandem.secret where session = $1";
        match self.shared.database.query(sql, &[&id]).await?.first() {
            Some(row) => {
                let body: String = connection::get(row, 0)?;
                serde_json::from_str(&body).map_err(|err| StoreError::Io(err.into()))
            }
            None => Ok(Secrets::new()),
        }
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        list::list(&self.shared.database, query).await
    }

    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        // The pieces of an answer are separate events, and a word may be split between two of them. So the database
        // itself cannot search for the text. This search still saves parsing the events.
        let (mut said, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let rows = self.shared.read_rows(id, first, i64::MAX).await?;
            from = next_page(&rows)?;
            for row in &rows {
                lines::add_said(connection::get::<&str>(row, 1)?.as_bytes(), &mut said);
            }
        }
        Ok(String::from_utf8_lossy(&said).to_lowercase().contains(&lines::escaped(lower)))
    }

    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        let epoch = self.shared.unowned(id).await?.epoch;
        let sql = "delete from tandem.session where id = $1 and epoch = $2 returning id";
        let deleted = self.shared.database.query(sql, &[&id, &epoch]).await?.len();
        match (deleted, self.shared.owner(id).await) {
            // No row may have been deleted because the answer to an earlier attempt was lost: then the session is
            // gone as well.
            (1.., _) | (0, Err(StoreError::NotFound(_))) => Ok(()),
            (0, Err(err)) => Err(err),
            (0, Ok(owner)) => Err(StoreError::Held(id.to_owned(), self.shared.holder(owner))),
        }
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }

    /// Returns `None`: contents for undo and long outputs are stored in the database. The node that owns a session
    /// has local copies of the files that it needs.
    fn directory(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

#[async_trait]
impl SharedStore for PostgresStore {
    fn follow(&self, id: &str, from: usize) -> StoredLog {
        follow::follow(&self.shared, id, from)
    }

    async fn position(&self, id: &str) -> Result<usize, StoreError> {
        let next = self.shared.owner(id).await?.next;
        Ok(usize::try_from(next).unwrap_or(0))
    }

    fn refresh_followers(&self, id: &str) {
        self.shared.news.notify_readers(id);
    }

    async fn unowned_by_others(&self, ids: &[&str]) -> Result<Vec<String>, StoreError> {
        let owners = self.shared.owners(ids).await?.into_iter();
        let own = self.shared.nodes.own_name();
        let is_unowned = |(id, owner): &(String, Owner)| {
            owner.node == own || self.shared.life(id, owner) == NodeState::Dead
        };
        Ok(owners.filter(is_unowned).map(|(id, _)| id).collect())
    }

    async fn active_elsewhere(&self) -> Result<Vec<ActiveSession>, StoreError> {
        list::active_elsewhere(&self.shared).await
    }

    async fn files(&self, id: &str) -> Result<Vec<StoredFile>, StoreError> {
        files::list(&self.shared, id).await
    }

    async fn read_file(&self, id: &str, name: &str, max: u64) -> Result<Vec<u8>, StoreError> {
        files::read(&self.shared, id, name, max).await
    }

    async fn put_file(&self, id: &str, name: &str, content: Vec<u8>) -> Result<(), StoreError> {
        files::put(&self.shared, id, name, &content).await
    }

    async fn remove_file(&self, id: &str, name: &str) -> Result<(), StoreError> {
        files::remove(&self.shared, id, name).await
    }

    async fn copy_files(&self, from: &str, id: &str) -> Result<(), StoreError> {
        files::copy(&self.shared, from, id).await
    }

    async fn ask(&self, id: &str, body: &str) -> Result<String, StoreError> {
        inbox::ask(&self.shared, id, body).await
    }

    async fn orders(&self, under_way: &HashSet<Order>) -> Result<Vec<Order>, StoreError> {
        inbox::orders(&self.shared, under_way).await
    }

    async fn reply(&self, order: &Order, reply: &str) -> Result<(), StoreError> {
        inbox::reply(&self.shared, order, reply).await
    }

    async fn share_usage(
        &self,
        day: i64,
        sessions: &[SessionUsage],
    ) -> Result<Vec<(PrincipalId, u64)>, StoreError> {
        usage::share(&self.shared, day, sessions).await
    }

    async fn share_current_use(&self, here: &[CurrentUse]) -> Result<Vec<CurrentUse>, StoreError> {
        usage::share_current(&self.shared, here).await
    }
}

impl Shared {
    async fn read_head(&self, id: &str) -> Result<(u32, Head), StoreError> {
        let sql = "select head from tandem.session where id = $1";
        let row = self.database.query(sql, &[&id]).await?.pop();
        let row = row.ok_or_else(|| StoreError::NotFound(id.to_owned()))?;
        let head: String = connection::get(&row, 0)?;
        lines::read_head(head.as_bytes())
            .map_err(|err| StoreError::Invalid(format!("its head: {err}")))
    }

    /// Reads at most [`MAX_PAGE_BATCHES`] batches whose first index is in `from..end`. Also returns the first index of
    /// the next page, if there may be one.
    async fn read_page(
        &self,
        id: &str,
        from: i64,
        end: i64,
    ) -> Result<(Vec<Stored>, Option<i64>), StoreError> {
        let rows = self.read_rows(id, from, end).await?;
        let mut page = Vec::with_capacity(rows.len());
        for row in &rows {
            page.push(match lines::read_batch(connection::get::<&str>(row, 1)?.as_bytes()) {
                Ok(batch) => Stored::Batch(batch),
                Err(err) => {
                    let first: i64 = connection::get(row, 0)?;
                    Stored::Damaged(format!("the batch at {first}: {err}"))
                }
            });
        }
        Ok((page, next_page(&rows)?))
    }

    async fn read_rows(&self, id: &str, from: i64, end: i64) -> Result<Vec<Row>, StoreError> {
        let sql = "select first, body from tandem.batch \
                   where session = $1 and first >= $2 and first < $3 order by first limit $4";
        self.database.query(sql, &[&id, &from, &end, &MAX_PAGE_BATCHES]).await
    }
}

/// Returns the first index of the page after these rows, if there may be one.
fn next_page(rows: &[Row]) -> Result<Option<i64>, StoreError> {
    match rows.last() {
        Some(last) if i64::try_from(rows.len()) == Ok(MAX_PAGE_BATCHES) => {
            Ok(Some(connection::get::<i64>(last, 0)? + 1))
        }
        _ => Ok(None),
    }
}
