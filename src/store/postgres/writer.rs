//! The one writer of a node: a single statement appends the batches of many sessions.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tandem_agent::session::{Millis, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::connection::{CONNECT_BACKOFF, Database, Failure, get};
use super::news::Notifications;

/// Maximum number of sessions in one statement.
const MOST_SESSIONS: usize = 256;

/// Number of bytes at which a statement takes no further session.
const MANY_BYTES: usize = 8 << 20;

/// Number of writes in the queue; when it is full, callers wait.
const QUEUE_WRITES: usize = 1024;

/// Statement that appends batches of many sessions, of each session all or none. A session's batches are appended
/// only if the session is still in the writer's epoch, and its log ends where the batches begin. Returns the ids of
/// the sessions that were appended to.
const APPEND_STATEMENT: &str = "
with w as (
  select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[],
      $8::text[], $9::bool[])
    as w(id, epoch, start, finish, turns, title, changed, shares, busy)
), moved as (
  update tandem.session s set next = w.finish, turns = coalesce(w.turns, s.turns),
    title = coalesce(w.title, s.title), changed = coalesce(w.changed, s.changed),
    shares = coalesce(w.shares, s.shares), busy = coalesce(w.busy, s.busy)
  from w where s.id = w.id and s.epoch = w.epoch and s.next = w.start returning s.id
), put as (
  insert into tandem.batch(session, first, body)
  select b.id, b.first, b.body from unnest($10::text[], $11::bigint[], $12::text[]) as b(id, first, body)
  join moved on moved.id = b.id
)
select id from moved";

/// Batches to append to the log of a session.
pub(super) struct Write {
    pub(super) id: String,
    pub(super) epoch: i64,
    /// Index at which the log ends before this write.
    pub(super) start: i64,
    /// Index at which the log ends after this write.
    pub(super) finish: i64,
    /// Batches: index of the first event, and the line.
    pub(super) rows: Vec<(i64, String)>,
    pub(super) summary: RowSummary,
}

/// Values that a list of sessions shows; `None` for each that has not changed.
#[derive(Debug, Clone, Default)]
pub(super) struct RowSummary {
    pub(super) turns: Option<i64>,
    pub(super) title: Option<String>,
    pub(super) changed: Option<Millis>,
    /// Principals with whom the session is shared, as JSON.
    pub(super) shares: Option<String>,
    /// `true` if a turn runs or waits.
    pub(super) busy: Option<bool>,
}

impl Write {
    fn bytes(&self) -> usize {
        self.rows.iter().map(|(_, body)| body.len()).sum()
    }
}

/// A write in the queue, and the channel to the caller that waits for it.
struct Pending {
    write: Write,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl Pending {
    fn end(self, result: Result<(), StoreError>) {
        // The caller may have stopped waiting.
        let _ = self.done.send(result);
    }
}

/// Queue of the writer. The writer's task ends when the queue is dropped.
pub(super) struct Writer(mpsc::Sender<Pending>);

impl Writer {
    /// Starts the writer of a node.
    pub(super) fn start(database: Arc<Database>, news: Arc<Notifications>) -> Self {
        let (queue, writes) = mpsc::channel(QUEUE_WRITES);
        tokio::spawn(Task { database, news, connection: None }.run(writes));
        Self(queue)
    }

    /// Appends to a log. The result is certain: while the database cannot be reached, this waits. If the future is
    /// dropped earlier, the write is not sent again.
    pub(super) async fn write(&self, write: Write) -> Result<(), StoreError> {
        let (done, result) = oneshot::channel();
        let ending = || StoreError::Io(std::io::Error::other("the agent is ending"));
        self.0.send(Pending { write, done }).await.map_err(|_| ending())?;
        result.await.map_err(|_| ending())?
    }
}

/// The task that writes, one statement at a time.
struct Task {
    database: Arc<Database>,
    news: Arc<Notifications>,
    /// Connection of the writer, with the prepared statement [`APPEND_STATEMENT`].
    connection: Option<(Client, Statement)>,
}

impl Task {
    async fn run(mut self, mut writes: mpsc::Receiver<Pending>) {
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                let Some(next) = writes.recv().await else { return };
                waiting.push_back(next);
            }
            // Also takes the writes that have arrived while the last statement was running.
            while waiting.len() < QUEUE_WRITES
                && let Ok(next) = writes.try_recv()
            {
                waiting.push_back(next);
            }
            let mut group = take_group(&mut waiting);
            // Nodes lock the rows of sessions in the order of their ids, so two nodes cannot deadlock.
            group.sort_by(|a, b| a.write.id.cmp(&b.write.id));
            self.write(group).await;
        }
    }

    /// Writes a group; retries until each write has a certain result:
    /// 1. Drops the writes whose callers no longer wait.
    /// 2. Sends the statement, and ends the writes of the sessions that it has appended to.
    /// 3. If writes are left, or the answer was lost, asks the database where the logs of their sessions end, and
    ///    sends again only the writes that are not stored.
    async fn write(&mut self, mut group: Vec<Pending>) {
        let (mut failures, mut is_unclear) = (0, false);
        loop {
            // A session that no longer waits for its write has ended, and its clients know: the write must not be
            // stored later.
            group.retain(|pending| !pending.done.is_closed());
            if group.is_empty() {
                break;
            }
            let failure = if is_unclear {
                // The database may have stored the batches: it is asked before anything is sent again.
                match self.settle(group).await {
                    Ok(again) => {
                        (group, is_unclear) = (again, false);
                        continue;
                    }
                    Err((left, failure)) => {
                        group = left;
                        failure
                    }
                }
            } else {
                match self.attempt(&group).await {
                    Ok(moved) => {
                        let is_done = |it: &mut Pending| moved.contains(&it.write.id);
                        group.extract_if(.., is_done).for_each(|it| self.done(it));
                        // The statement has skipped the other sessions. Their rows say why, and `settle` reads them.
                        is_unclear = true;
                        continue;
                    }
                    Err(failure) => {
                        is_unclear = failure.is_unclear();
                        failure
                    }
                }
            };
            if failure.is_final() && !is_unclear {
                return self.one_by_one(group, &failure).await;
            }
            if failures == 0 {
                let error = self.database.explain(&failure);
                tracing::warn!("sessions wait until they can be saved: {error}");
            }
            failures += 1;
            self.connection = None;
            sleep(CONNECT_BACKOFF.delay(failures)).await;
        }
        if failures > 0 {
            tracing::info!("sessions are saved again");
        }
    }

    /// Ends a write that is stored, and tells readers of the log that it has grown.
    fn done(&self, pending: Pending) {
        self.news.tell(&pending.write.id);
        pending.end(Ok(()));
    }

    /// Handles a group that the database refuses. One bad write must not fail the others, so each write of a larger
    /// group is sent alone; a single write is ended with the error.
    async fn one_by_one(&mut self, group: Vec<Pending>, failure: &Failure) {
        if let [_] = &group[..] {
            let error = self.database.explain(failure);
            tracing::warn!("a session cannot be saved: {error}");
            return group.into_iter().for_each(|it| it.end(Err(self.database.explain(failure))));
        }
        for pending in group {
            Box::pin(self.write(vec![pending])).await;
        }
    }

    /// Sends the statement once; returns the ids of the sessions that it has appended to.
    async fn attempt(&mut self, group: &[Pending]) -> Result<HashSet<String>, Failure> {
        let patience = self.database.patience;
        let (client, statement) = self.connected().await?;
        let writes = || group.iter().map(|pending| &pending.write);
        let ids: Vec<&str> = writes().map(|it| it.id.as_str()).collect();
        let numbers = |of: fn(&Write) -> i64| writes().map(of).collect::<Vec<_>>();
        let epochs = numbers(|it| it.epoch);
        let (starts, finishes) = (numbers(|it| it.start), numbers(|it| it.finish));
        let turns: Vec<_> = writes().map(|it| it.summary.turns).collect();
        let titles: Vec<_> = writes().map(|it| it.summary.title.as_deref()).collect();
        let changed: Vec<_> = writes().map(|it| it.summary.changed).collect();
        let shares: Vec<_> = writes().map(|it| it.summary.shares.as_deref()).collect();
        let busy: Vec<_> = writes().map(|it| it.summary.busy).collect();
        let rows = || writes().flat_map(|it| it.rows.iter().map(|row| (it.id.as_str(), row)));
        let sessions: Vec<&str> = rows().map(|(id, _)| id).collect();
        let firsts: Vec<i64> = rows().map(|(_, row)| row.0).collect();
        let bodies: Vec<&str> = rows().map(|(_, row)| row.1.as_str()).collect();
        let params: [&(dyn ToSql + Sync); 12] = [
            &ids, &epochs, &starts, &finishes, &turns, &titles, &changed, &shares, &busy,
            &sessions, &firsts, &bodies,
        ];
        let moved = timeout(patience, client.query(statement, &params)).await;
        let moved = moved.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
        moved.iter().map(|row| row.try_get(0).map_err(Failure::Refused)).collect()
    }

    /// Returns the connection and the prepared statement; opens a new connection if the last is broken.
    async fn connected(&mut self) -> Result<(&Client, &Statement), Failure> {
        if self.connection.as_ref().is_none_or(|(client, _)| client.is_closed()) {
            let client = self.database.connect().await?;
            let statement = timeout(self.database.patience, client.prepare(APPEND_STATEMENT)).await;
            let statement = statement.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
            self.connection = Some((client, statement));
        }
        match &self.connection {
            Some((client, statement)) => Ok((client, statement)),
            None => Err(Failure::Silent),
        }
    }

    /// Finds out which writes are stored, and ends each write whose result is certain; returns the writes to send
    /// again. Within one epoch only this node moves the end of a log, so the epoch and the end in the session's row
    /// tell the result. On failure, returns the whole group with the error.
    async fn settle(
        &mut self,
        group: Vec<Pending>,
    ) -> Result<Vec<Pending>, (Vec<Pending>, Failure)> {
        if group.is_empty() {
            return Ok(group);
        }
        let places = match self.read_log_ends(&group).await {
            Ok(places) => places,
            Err(failure) => return Err((group, failure)),
        };
        let mut again = Vec::new();
        for pending in group {
            let Write { epoch, start, finish, .. } = pending.write;
            match places.get(&pending.write.id) {
                Some((now, next)) if *now == epoch && *next == start && start != finish => {
                    again.push(pending);
                }
                Some((now, next)) if *now == epoch && *next == finish => self.done(pending),
                Some((now, next)) if *now == epoch && *next < start => pending
                    .end(Err(StoreError::Lost("the database has gone back to an earlier state"))),
                _ => pending.end(Err(StoreError::TakenOver)),
            }
        }
        Ok(again)
    }

    /// Returns the epoch of each session, and the index at which its log ends.
    async fn read_log_ends(
        &mut self,
        group: &[Pending],
    ) -> Result<HashMap<String, (i64, i64)>, Failure> {
        let patience = self.database.patience;
        let (client, _) = self.connected().await?;
        let ids: Vec<&str> = group.iter().map(|pending| pending.write.id.as_str()).collect();
        let sql = "select id, epoch, next from tandem.session where id = any($1)";
        let rows = timeout(patience, client.query(sql, &[&ids])).await;
        let rows = rows.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
        let place = |row| Ok((get(row, 0)?, (get(row, 1)?, get(row, 2)?)));
        let places: Result<_, StoreError> = rows.iter().map(place).collect();
        places.map_err(|_| Failure::Silent)
    }
}

/// Takes the writes for one statement from the queue, at most one of each session. Later writes of a session stay in
/// order.
fn take_group(waiting: &mut VecDeque<Pending>) -> Vec<Pending> {
    let (mut group, mut ids, mut bytes) = (Vec::new(), HashSet::new(), 0);
    let mut later = VecDeque::new();
    while let Some(next) = waiting.pop_front() {
        let is_full = group.len() >= MOST_SESSIONS || bytes >= MANY_BYTES;
        if is_full || !ids.insert(next.write.id.clone()) {
            later.push_back(next);
            continue;
        }
        bytes += next.write.bytes();
        group.push(next);
    }
    *waiting = later;
    group
}
