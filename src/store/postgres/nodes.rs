//! The nodes, which are the processes that share a database, and which of them are alive.
//!
//! Each node raises a counter in its row, a *beat*, and its connection holds an advisory lock. Other nodes count a
//! node as dead when its counter has stood still for `dead_after`, or when its lock is free and its counter stands
//! still, both for [`DEATH_GRACE`]. An observer measures these times with its own clock: clocks of different machines
//! are never compared.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{io, thread};

use parking_lot::Mutex;
use tandem_agent::session::StoreError;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, Row};
use tokio_util::sync::CancellationToken;

use super::connection::{CONNECT_BACKOFF, Database, Failure, get};

/// Time between two beats of a node.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// Time for which a node's lock must be free, and its counter stand still, before the node counts as dead. A restart
/// of the database frees all locks for a moment, and must not make all nodes seem dead.
const DEATH_GRACE: Duration = Duration::from_millis(500);

/// Time without a beat after which it is unclear whether a node is alive.
const LATE_HEARTBEAT_TIME: Duration = Duration::from_secs(1);

/// Number of beats between two checks whether other nodes have taken sessions of this node over.
const HEARTBEATS_PER_CHECK: u32 = 8;

/// Statement that tries to take a node's lock. The connection holds the lock until it closes.
const LOCK_QUERY: &str = "select pg_try_advisory_lock(hashtextextended('tandem ' || $1, 0))";

/// Statement that raises a node's counter. Returns the counter of each other node, and `true` if that node's lock is
/// free.
const COUNT_STATEMENT: &str = "
with own as (
  insert into tandem.node(name, beat) values ($1, 1) on conflict(name) do update set beat = node.beat + 1
)
select name, beat, pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || name, 0))
from tandem.node where name <> $1";

/// Statement for a process that is no node. Returns the counter of each node, and `true` if that node's lock is free.
const STATES_QUERY: &str = "
select name, beat, pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || name, 0)) from tandem.node";

/// Function that is called after each beat of this node that the database has answered quickly.
type OnBeat = Box<dyn Fn() + Send + Sync>;

/// The nodes of a database, as this process sees them.
pub(super) struct Nodes {
    database: Arc<Database>,
    own: String,
    dead_after: Duration,
    /// The other nodes by name, as this process last saw them.
    seen: Mutex<HashMap<String, SeenNode>>,
    /// Names of the nodes that count as dead.
    dead: watch::Sender<BTreeSet<String>>,
    on_beat: OnceLock<OnBeat>,
    /// Time of the last look at the nodes, in a process that is no node. `None` in a node, whose heartbeat looks.
    last_look: Option<Mutex<Instant>>,
}

/// Another node, as this process last saw it. Its times are sums of the times between looks. A gap between two looks
/// counts for at most two beats, because while this process slept, or the database did not answer, it could not see
/// the other node beat.
struct SeenNode {
    /// Counter of the node at the last look.
    beat: i64,
    /// Time since this process last saw the counter rise.
    still: Duration,
    /// Time for which the lock has been free; `None` while it is held.
    free: Option<Duration>,
}

/// State of a node, as far as this process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeState {
    Alive,
    /// The node is late, new, or has lost its lock: the next looks decide.
    Unclear,
    Dead,
}

impl Nodes {
    /// Makes this process a node, whose heartbeat [`start_heartbeat`] starts. Cleans up after dead nodes first.
    pub(super) async fn join(
        database: &Arc<Database>,
        dead_after: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        // A node whose lock is free and that owns no session has died, and its row is no longer needed. If the node
        // is alive after all, its next beat inserts the row again.
        let sql = "delete from tandem.node n where not exists \
                   (select from tandem.session s where s.owner = n.name) \
                   and pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || n.name, 0))";
        database.batch(sql).await?;
        // Nodes that are gone no longer wait for replies to the orders that they put into the inbox.
        let sql = "delete from tandem.inbox i where not exists \
                   (select from tandem.node n where n.name = i.asker)";
        database.batch(sql).await?;
        Ok(Self::new(database, dead_after, None))
    }

    /// Returns the view of a process that is no node. The process looks at the nodes only when it asks for owners of
    /// sessions.
    pub(super) fn observe(database: &Arc<Database>, dead_after: Duration) -> Arc<Self> {
        Self::new(database, dead_after, Some(Mutex::new(Instant::now())))
    }

    fn new(
        database: &Arc<Database>,
        dead_after: Duration,
        last_look: Option<Mutex<Instant>>,
    ) -> Arc<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let own = format!("{host}-{}-{:08x}", std::process::id(), fastrand::u32(..));
        Arc::new(Self {
            database: Arc::clone(database),
            own,
            dead_after,
            seen: Mutex::default(),
            dead: watch::Sender::default(),
            on_beat: OnceLock::new(),
            last_look,
        })
    }

    /// Looks at the nodes if this process is no node. In a node, the heartbeat does so.
    pub(super) async fn look_if_no_node(&self) -> Result<(), StoreError> {
        let Some(last_look) = &self.last_look else { return Ok(()) };
        let rows = self.database.query(STATES_QUERY, &[]).await?;
        let last = std::mem::replace(&mut *last_look.lock(), Instant::now());
        self.update_states(&rows, last.elapsed().min(HEARTBEAT_INTERVAL * 2));
        Ok(())
    }

    /// Returns this node's name.
    pub(super) fn own_name(&self) -> &str {
        &self.own
    }

    /// Returns the time without a beat after which a node counts as dead.
    pub(super) fn dead_after(&self) -> Duration {
        self.dead_after
    }

    /// Returns the state of another node.
    pub(super) fn life(&self, node: &str) -> NodeState {
        match self.seen.lock().get(node) {
            // The node has joined since the last look.
            None => NodeState::Unclear,
            Some(seen) if seen.still >= self.dead_after => NodeState::Dead,
            Some(SeenNode { free: Some(free), still, .. }) if *free.min(still) >= DEATH_GRACE => {
                NodeState::Dead
            }
            Some(seen) if seen.free.is_some() || seen.still >= LATE_HEARTBEAT_TIME => {
                NodeState::Unclear
            }
            Some(_) => NodeState::Alive,
        }
    }

    /// Sets the function that is called after each beat that the database has answered quickly.
    pub(super) fn on_beat(&self, call: OnBeat) {
        // Only the first function counts; a later one is ignored.
        let _ = self.on_beat.set(call);
    }

    /// Returns the names of the nodes that count as dead.
    pub(super) fn dead(&self) -> Vec<String> {
        self.dead.borrow().iter().cloned().collect()
    }

    /// Waits until one more node counts as dead, for at most `most`.
    pub(super) async fn died(&self, most: Duration) {
        let mut dead = self.dead.subscribe();
        let before = dead.borrow_and_update().clone();
        // The caller looks for orphans after a timeout as well.
        let _ = timeout(most, dead.wait_for(|now| !now.is_subset(&before))).await;
    }

    /// Opens a connection that holds this node's lock, unless an older connection still has the lock.
    async fn connect(&self) -> Result<Client, Failure> {
        let client = self.database.connect().await?;
        self.lock(&client).await?;
        Ok(client)
    }

    /// Tries to take this node's lock; returns `true` if the connection now holds it.
    async fn lock(&self, client: &Client) -> Result<bool, Failure> {
        let row = timeout(self.dead_after, client.query_one(LOCK_QUERY, &[&self.own])).await;
        let row = row.map_err(|_| Failure::Silent)?;
        row.and_then(|row| row.try_get(0)).map_err(Failure::Refused)
    }

    /// Raises this node's counter; returns a row for each other node.
    async fn beat(&self, client: &Client) -> Result<Vec<Row>, Failure> {
        let rows = timeout(self.dead_after, client.query(COUNT_STATEMENT, &[&self.own])).await;
        rows.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)
    }

    /// Updates the states of the other nodes from their rows. `passed` is the time since the last look.
    fn update_states(&self, rows: &[Row], passed: Duration) {
        let mut seen = self.seen.lock();
        let before = std::mem::take(&mut *seen);
        for row in rows {
            let (Ok(name), Ok(beat), Ok(is_free)) =
                (get::<String>(row, 0), get::<i64>(row, 1), get::<bool>(row, 2))
            else {
                continue;
            };
            let last = before.get(&name);
            let still = last
                .filter(|last| last.beat == beat)
                .map_or(Duration::ZERO, |it| it.still + passed);
            let free = last.and_then(|last| last.free).map_or(Duration::ZERO, |free| free + passed);
            seen.insert(name, SeenNode { beat, still, free: is_free.then_some(free) });
        }
        // `life` locks `seen` again.
        drop(seen);
        let dead = rows.iter().filter_map(|row| get::<String>(row, 0).ok());
        let dead: BTreeSet<_> = dead.filter(|name| self.life(name) == NodeState::Dead).collect();
        self.dead.send_if_modified(|before| std::mem::replace(before, dead) != *before);
    }
}

/// Place where a node's heartbeat runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeartbeatHost {
    /// A thread of its own, with its own runtime and connection. Work for sessions that keeps other threads busy (a
    /// slow disk, a long answer to parse) then does not stop the heartbeat, so other nodes do not take this node for
    /// dead.
    Thread,
    /// The runtime of the caller. When it stops, the heartbeat stops, and other nodes take the node's sessions over.
    Runtime,
}

/// Starts this node's heartbeat, which goes on until `ending` is cancelled; returns after the first beat. The
/// heartbeat calls `check` every few seconds, and at once after a time in which this node may have seemed dead to
/// others. `check` must return at once, because the next beat waits for it.
pub(super) async fn start_heartbeat(
    nodes: &Arc<Nodes>,
    heart: HeartbeatHost,
    check: impl Fn() + Send + Sync + 'static,
    ending: CancellationToken,
) -> Result<(), StoreError> {
    let (begun, is_alive) = oneshot::channel();
    let living = Arc::clone(nodes);
    let beating = async move {
        let first = async {
            let client = living.connect().await?;
            living.beat(&client).await?;
            Ok(client)
        };
        match first.await {
            Ok(client) => {
                // The caller of `start_heartbeat` may have stopped waiting for the first beat.
                let _ = begun.send(Ok(()));
                beat_on(&living, client, check).await;
            }
            Err(failure) => _ = begun.send(Err(living.database.explain(&failure))),
        }
    };
    let beating = async move { ending.run_until_cancelled(beating).await };
    match heart {
        HeartbeatHost::Thread => {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(StoreError::Io)?;
            let thread = thread::Builder::new().name("heartbeat".to_owned());
            thread.spawn(move || runtime.block_on(beating)).map_err(StoreError::Io)?;
        }
        HeartbeatHost::Runtime => drop(tokio::spawn(beating)),
    }
    is_alive.await.unwrap_or_else(|_| Err(StoreError::Io(io::ErrorKind::Interrupted.into())))
}

/// Beats until the task is cancelled. One round takes these steps:
/// 1. Opens a new connection if the last one is broken, and takes this node's lock with it.
/// 2. Raises the counter, and calls `on_beat` if the database answered quickly.
/// 3. Updates the states of the other nodes.
/// 4. Calls `check` if it is due.
async fn beat_on(nodes: &Nodes, client: Client, check: impl Fn()) {
    let (mut client, mut is_locked) = (Some(client), true);
    let (mut last, mut failures, mut beats) = (Instant::now(), 0, 0_u32);
    loop {
        let beaten = async {
            let open = client.take().filter(|client| !client.is_closed());
            let open = if let Some(open) = open {
                open
            } else {
                is_locked = false;
                nodes.database.connect().await?
            };
            is_locked = is_locked || nodes.lock(&open).await?;
            let begun = Instant::now();
            let rows = nodes.beat(&open).await?;
            // `on_beat` promises that no other node takes sessions over for some time. After a slow beat this is not
            // certain: the database may have raised the counter long before its answer came, and since then the
            // others have seen it stand still.
            if begun.elapsed() < nodes.dead_after / 4
                && let Some(on_beat) = nodes.on_beat.get()
            {
                on_beat();
            }
            Ok::<_, Failure>((open, rows))
        };
        match beaten.await {
            Ok((open, rows)) => {
                let passed = last.elapsed();
                last = Instant::now();
                // While this process slept or had no answer, it did not see the others beat: a gap counts for at most
                // two beats.
                nodes.update_states(&rows, passed.min(HEARTBEAT_INTERVAL * 2));
                client = Some(open);
                beats = beats.wrapping_add(1);
                if failures > 0
                    || passed >= LATE_HEARTBEAT_TIME
                    || beats.is_multiple_of(HEARTBEATS_PER_CHECK)
                {
                    check();
                }
                failures = 0;
                sleep(HEARTBEAT_INTERVAL).await;
            }
            Err(failure) => {
                if failures == 0 {
                    let error = nodes.database.explain(&failure);
                    tracing::warn!("other nodes may take sessions over: {error}");
                }
                failures += 1;
                sleep(CONNECT_BACKOFF.delay(failures)).await;
            }
        }
    }
}
