//! The processes that share a database, and which of them are alive.

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

use super::connection::{BACKOFF, Database, Failure, get};

/// Time between two beats of a node.
const BEAT: Duration = Duration::from_millis(250);

/// Time for which a node's lock must be free, and its counter stand still, before the node counts as
/// dead: when the database starts again, all locks are free for a moment.
const GRACE: Duration = Duration::from_millis(500);

/// Time without a beat after which it is unclear whether a node is alive.
const LATE: Duration = Duration::from_secs(1);

/// Number of beats after which a node looks whether its sessions are still its own.
const CHECK: u32 = 8;

/// Takes a node's lock, which its connection holds.
const LOCK: &str = "select pg_try_advisory_lock(hashtextextended('tandem ' || $1, 0))";

/// Raises a node's counter, and looks at those of the others, and whether their locks are free.
const COUNT: &str = "
with own as (
  insert into tandem.node(name, beat) values ($1, 1) on conflict(name) do update set beat = node.beat + 1
)
select name, beat, pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || name, 0))
from tandem.node where name <> $1";

/// Looks at the counters of all nodes, and whether their locks are free.
const LOOK: &str = "
select name, beat, pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || name, 0)) from tandem.node";

/// Something to do whenever the database has counted a beat of this node at once.
type OnBeat = Box<dyn Fn() + Send + Sync>;

/// The nodes of a database, as this one sees them.
pub(super) struct Nodes {
    database: Arc<Database>,
    own: String,
    dead_after: Duration,
    seen: Mutex<HashMap<String, SeenNode>>,
    /// The nodes that count as dead.
    dead: watch::Sender<BTreeSet<String>>,
    on_beat: OnceLock<OnBeat>,
    /// Time of the last look of a process that is no node, and so has no heart that looks.
    last_look: Option<Mutex<Instant>>,
}

/// Another node, as it was seen. Times are sums of what this node was awake for, and had an answer.
struct SeenNode {
    beat: i64,
    /// Time since the counter was seen to rise.
    still: Duration,
    /// Time for which the lock has been free; `None` while it is held.
    free: Option<Duration>,
}

/// Life of a node, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// It will be clear in a moment.
    Unclear,
    Dead,
}

impl Nodes {
    /// Makes this process a node, which [lives](live) from then on.
    pub(super) async fn join(
        database: &Arc<Database>,
        dead_after: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        // Nobody needs a row of the dead of whom there is no session any more.
        let sql = "delete from tandem.node n where not exists \
                   (select from tandem.session s where s.owner = n.name) \
                   and pg_try_advisory_xact_lock_shared(hashtextextended('tandem ' || n.name, 0))";
        database.batch(sql).await?;
        // And nobody waits for what they wanted of others.
        let sql = "delete from tandem.inbox i where not exists \
                   (select from tandem.node n where n.name = i.asker)";
        database.batch(sql).await?;
        Ok(Self::new(database, dead_after, None))
    }

    /// Makes what a process knows of the nodes that is none of them.
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

    /// Looks at the nodes, if this process is none.
    pub(super) async fn look_if_no_node(&self) -> Result<(), StoreError> {
        let Some(last_look) = &self.last_look else { return Ok(()) };
        let rows = self.database.query(LOOK, &[]).await?;
        let last = std::mem::replace(&mut *last_look.lock(), Instant::now());
        self.look(&rows, last.elapsed().min(BEAT * 2));
        Ok(())
    }

    /// Returns this node's name.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// Returns the time without a beat after which a node counts as dead.
    pub(super) fn dead_after(&self) -> Duration {
        self.dead_after
    }

    /// Returns what is known of another node.
    pub(super) fn life(&self, node: &str) -> Life {
        match self.seen.lock().get(node) {
            // It has come since the last look.
            None => Life::Unclear,
            Some(seen) if seen.still >= self.dead_after => Life::Dead,
            Some(SeenNode { free: Some(free), still, .. }) if *free.min(still) >= GRACE => {
                Life::Dead
            }
            Some(seen) if seen.free.is_some() || seen.still >= LATE => Life::Unclear,
            Some(_) => Life::Alive,
        }
    }

    /// Has this called with each beat that the database has counted at once.
    pub(super) fn on_beat(&self, call: OnBeat) {
        // One is enough.
        let _ = self.on_beat.set(call);
    }

    /// Returns the names of the nodes that count as dead.
    pub(super) fn dead(&self) -> Vec<String> {
        self.dead.borrow().iter().cloned().collect()
    }

    /// Waits until another node counts as dead that did not, at most for some time.
    pub(super) async fn died(&self, most: Duration) {
        let mut dead = self.dead.subscribe();
        let before = dead.borrow_and_update().clone();
        // Whose wait ends looks all the same.
        let _ = timeout(most, dead.wait_for(|now| !now.is_subset(&before))).await;
    }

    /// Opens a connection that holds this node's lock, unless an older one still has it.
    async fn connect(&self) -> Result<Client, Failure> {
        let client = self.database.connect().await?;
        self.lock(&client).await?;
        Ok(client)
    }

    async fn lock(&self, client: &Client) -> Result<bool, Failure> {
        let row = timeout(self.dead_after, client.query_one(LOCK, &[&self.own])).await;
        let row = row.map_err(|_| Failure::Silent)?;
        row.and_then(|row| row.try_get(0)).map_err(Failure::Refused)
    }

    /// Raises this node's counter, and looks at those of the others.
    async fn beat(&self, client: &Client) -> Result<Vec<Row>, Failure> {
        let rows = timeout(self.dead_after, client.query(COUNT, &[&self.own])).await;
        rows.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)
    }

    /// Notes how the others stand, this long after the last look.
    fn look(&self, rows: &[Row], passed: Duration) {
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
        drop(seen);
        let dead = rows.iter().filter_map(|row| get::<String>(row, 0).ok());
        let dead: BTreeSet<_> = dead.filter(|name| self.life(name) == Life::Dead).collect();
        self.dead.send_if_modified(|before| std::mem::replace(before, dead) != *before);
    }
}

/// Place where a node's heart beats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heart {
    /// A thread of its own, with its own runtime and connection: whatever keeps those busy that work for the
    /// sessions (a slow disk, a long answer to parse), others do not take a node for dead because of it.
    Thread,
    /// The runtime of the caller, which may stop.
    Runtime,
}

/// Shows that this node is alive, and looks at the others, until it is to end; returns when it is alive for the
/// first time. `check` is called from time to time, and at once when this node may have seemed dead; it must
/// return at once.
pub(super) async fn live(
    nodes: &Arc<Nodes>,
    heart: Heart,
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
                // Whoever wanted to know may have given up.
                let _ = begun.send(Ok(()));
                beat_on(&living, client, check).await;
            }
            Err(failure) => _ = begun.send(Err(living.database.explain(&failure))),
        }
    };
    let beating = async move { ending.run_until_cancelled(beating).await };
    match heart {
        Heart::Thread => {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(StoreError::Io)?;
            let thread = thread::Builder::new().name("heartbeat".to_owned());
            thread.spawn(move || runtime.block_on(beating)).map_err(StoreError::Io)?;
        }
        Heart::Runtime => drop(tokio::spawn(beating)),
    }
    is_alive.await.unwrap_or_else(|_| Err(StoreError::Io(io::ErrorKind::Interrupted.into())))
}

/// Raises the counter, and looks at the others, for ever.
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
            // Of one that took long, others may have counted most of the time in which they hear nothing.
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
                // Who was asleep has not seen the others beat.
                nodes.look(&rows, passed.min(BEAT * 2));
                client = Some(open);
                beats = beats.wrapping_add(1);
                if failures > 0 || passed >= LATE || beats.is_multiple_of(CHECK) {
                    check();
                }
                failures = 0;
                sleep(BEAT).await;
            }
            Err(failure) => {
                if failures == 0 {
                    let error = nodes.database.explain(&failure);
                    tracing::warn!("other nodes may take sessions over: {error}");
                }
                failures += 1;
                sleep(BACKOFF.delay(failures)).await;
            }
        }
    }
}
