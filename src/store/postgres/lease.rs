//! The write lease of a session in a database: the right of this node to append to its log.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tandem_agent::session::{Batch, Head, Secrets, StoreError, WriteLease};
use tandem_content::blocking::blocking;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::connection::{Failure, Params};
use super::news::inbox_of;
use super::shared::Shared;
use super::writer::{RowSummary, Write};
use crate::lines;

/// Statement that gives up a session which this node owns in this epoch. It compares the node's name too: of two
/// nodes that create or lease a session at once, both count the same epoch.
const RELEASE_STATEMENT: &str =
    "update tandem.session set owner = '', port = null where id = $1 and epoch = $2 and owner = $3";

/// The lease of a session in one of its epochs.
pub(super) struct PostgresLease {
    shared: Arc<Shared>,
    id: String,
    epoch: i64,
    /// Index after the last event of the log.
    next: usize,
    /// Token that is cancelled when another node has taken the session over.
    taken_over: CancellationToken,
    /// Batches of a log that is being rewritten; `sync` replaces the stored log with them. `None` if the log is
    /// appended to.
    renewed: Option<Encoded>,
    is_released: bool,
}

/// Batches in the form in which the database stores them.
#[derive(Default)]
struct Encoded {
    rows: Vec<(i64, String)>,
    summary: RowSummary,
}

impl PostgresLease {
    /// Creates a session, unless the database has one of that id.
    pub(super) async fn create(
        shared: &Arc<Shared>,
        head: &Head,
    ) -> Result<Box<dyn WriteLease>, StoreError> {
        let line = lines::write_head(head).map_err(io::Error::from)?;
        let line = text(line)?;
        let epoch = 1;
        let lease = Self::hold(shared, &head.id, epoch).ok_or(StoreError::TakenOver)?;
        let sql = "insert into tandem.session\
                   (id, epoch, owner, head, directory, is_checkpoint, title, changed, tenant) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict(id) do nothing returning id";
        let directory = head.directory.to_string_lossy();
        let (own, is_checkpoint) = (shared.nodes.own_name(), head.tag.is_some());
        let title = &head.title;
        let tenant = head.owner.as_ref().map_or("", |owner| &*owner.tenant);
        let created = shared
            .database
            .query(
                sql,
                &[
                    &head.id,
                    &epoch,
                    &own,
                    &line,
                    &&*directory,
                    &is_checkpoint,
                    title,
                    &head.created,
                    &tenant,
                ],
            )
            .await?;
        if created.is_empty() {
            // The row exists: either an earlier attempt of this call has inserted it and its answer was lost, or
            // another node has created the session.
            let owner = shared.owner(&head.id).await?;
            if owner.node != own || owner.epoch != epoch {
                return Err(StoreError::TakenOver);
            }
        }
        Ok(Box::new(lease))
    }

    /// Acquires the lease of a session that no live node owns.
    pub(super) async fn acquire(
        shared: &Arc<Shared>,
        id: &str,
    ) -> Result<Box<dyn WriteLease>, StoreError> {
        let seen = shared.unowned(id).await?;
        Self::acquire_seen(shared, id, seen.epoch).await
    }

    /// Acquires the lease of a session whose owner was seen dead in the epoch `seen`, if the session is still in that
    /// epoch.
    pub(super) async fn acquire_seen(
        shared: &Arc<Shared>,
        id: &str,
        seen: i64,
    ) -> Result<Box<dyn WriteLease>, StoreError> {
        let epoch = seen + 1;
        let own = shared.nodes.own_name();
        if let Some(mut lease) = Self::hold(shared, id, epoch) {
            // The epoch in the condition decides the race: if another node has found the same owner dead and was
            // faster, this updates nothing. The statement may run twice, so the row is read afterwards to learn who
            // owns it.
            let sql = "update tandem.session set epoch = $2, owner = $3, port = null \
                       where id = $1 and epoch + 1 = $2 returning id";
            shared.database.query(sql, &[&id, &epoch, &own]).await?;
            let owner = shared.owner(id).await?;
            if owner.node == own && owner.epoch == epoch {
                lease.next = index(owner.next)?;
                // The inbox may already have orders for this session.
                shared.news.notify_readers(&inbox_of(own));
                return Ok(Box::new(lease));
            }
        }
        let owner = shared.owner(id).await?;
        Err(StoreError::Held(id.to_owned(), shared.holder(owner)))
    }

    /// Returns the lease of a session that this node is about to own; `None` if this node owns it already.
    fn hold(shared: &Arc<Shared>, id: &str, epoch: i64) -> Option<Self> {
        let taken_over = shared.hold(id, epoch)?;
        let (shared, id) = (Arc::clone(shared), id.to_owned());
        Some(Self { shared, id, epoch, next: 0, taken_over, renewed: None, is_released: false })
    }

    /// Cancels `taken_over`; returns the error for a session that another node owns.
    fn lost(&self) -> StoreError {
        self.taken_over.cancel();
        StoreError::TakenOver
    }

    /// Runs a statement that returns a row only if this node still owns the session in this epoch. Waits while the
    /// database does not answer, as `append` does.
    async fn fenced(
        &self,
        sql: &str,
        value: &(dyn tokio_postgres::types::ToSql + Sync),
    ) -> Result<(), StoreError> {
        let params: Params<'_> = &[&self.id, &self.epoch, value];
        let rows = self.shared.database.query_until_answered(sql, params).await?;
        if rows.is_empty() { Err(self.lost()) } else { Ok(()) }
    }

    /// Replaces the stored log with the rewritten log, in one transaction.
    async fn replace(&self, renewed: &Encoded) -> Result<(), Failure> {
        let mut client = self.shared.database.connect().await?;
        let replaced = async {
            let transaction = client.transaction().await?;
            let sql = "update tandem.session set next = $3, turns = coalesce($4, turns), \
                       title = coalesce($5, title), changed = coalesce($6, changed), \
                       shares = coalesce($7, shares), busy = coalesce($8, busy) \
                       where id = $1 and epoch = $2 returning id";
            let RowSummary { turns, title, changed, shares, busy } = &renewed.summary;
            let next = i64::try_from(self.next).unwrap_or(i64::MAX);
            let owned = transaction
                .query(sql, &[&self.id, &self.epoch, &next, turns, title, changed, shares, busy])
                .await?;
            if owned.is_empty() {
                self.taken_over.cancel();
                return Ok(());
            }
            transaction.execute("delete from tandem.batch where session = $1", &[&self.id]).await?;
            let sql = "insert into tandem.batch(session, first, body) \
                       select $1, * from unnest($2::bigint[], $3::text[])";
            for rows in renewed.rows.chunks(64) {
                let firsts: Vec<i64> = rows.iter().map(|row| row.0).collect();
                let bodies: Vec<&str> = rows.iter().map(|row| row.1.as_str()).collect();
                transaction.execute(sql, &[&self.id, &firsts, &bodies]).await?;
            }
            transaction.commit().await
        };
        replaced.await.map_err(Failure::Refused)
    }
}

#[async_trait]
impl WriteLease for PostgresLease {
    fn next(&self) -> usize {
        self.next
    }

    fn repaired(&self) -> Option<&str> {
        None
    }

    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        let Some(end) = batches.last().map(Batch::end) else { return Ok(()) };
        let encoded = blocking(move || encode(&batches)).await;
        let encoded = encoded.map_err(io::Error::other)??;
        if let Some(renewed) = &mut self.renewed {
            renewed.add(encoded);
            self.next = end;
            return Ok(());
        }
        let number = |index| i64::try_from(index).unwrap_or(i64::MAX);
        let (start, finish) = (number(self.next), number(end));
        let (id, epoch) = (self.id.clone(), self.epoch);
        let Encoded { rows, summary } = encoded;
        let write = Write { id, epoch, start, finish, rows, summary };
        self.shared.writer.write(write).await.map_err(|err| match err {
            StoreError::TakenOver => self.lost(),
            err => err,
        })?;
        self.next = end;
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        // Appended batches need no sync: the database acknowledges them only when they are on its disk.
        if let Some(renewed) = &self.renewed {
            let replaced = self.replace(renewed).await;
            replaced.map_err(|failure| self.shared.database.explain(&failure))?;
            if self.taken_over.is_cancelled() {
                return Err(StoreError::TakenOver);
            }
            self.renewed = None;
        }
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        self.renewed = Some(Encoded::default());
        self.next = 0;
        Ok(())
    }

    async fn announce(&mut self, port: u16) -> Result<(), StoreError> {
        let sql = "update tandem.session set port = $3 where id = $1 and epoch = $2 returning id";
        self.fenced(sql, &i32::from(port)).await
    }

    async fn store_secrets(&mut self, secrets: &Secrets) -> Result<(), StoreError> {
        let body = serde_json::to_string(secrets).map_err(io::Error::from)?;
        let sql = "with s as (select id from tandem.session where id = $1 and epoch = $2 for update) \
                   insert into tandem.secret(session, body) select id, $3 from s \
                   on conflict(session) do update set body = excluded.body returning session";
        self.fenced(sql, &body).await
    }

    fn taken_over(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.taken_over.clone().cancelled_owned())
    }

    async fn release(&mut self) {
        self.is_released = true;
        self.shared.let_go(&self.id, self.epoch);
        let own = self.shared.nodes.own_name();
        let released =
            self.shared.database.query(RELEASE_STATEMENT, &[&self.id, &self.epoch, &own]).await;
        if let Err(err) = released {
            tracing::debug!("a session is let go when this process ends: {err}");
        }
    }
}

impl Drop for PostgresLease {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        self.shared.let_go(&self.id, self.epoch);
        let (shared, id, epoch) = (Arc::clone(&self.shared), self.id.clone(), self.epoch);
        // Without a runtime the process is ending. Other nodes then see that this node is dead, and can lease the
        // session.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let own = shared.nodes.own_name();
                shared.database.query(RELEASE_STATEMENT, &[&id, &epoch, &own]).await
            });
        }
    }
}

impl Encoded {
    fn add(&mut self, more: Self) {
        self.rows.extend(more.rows);
        let RowSummary { turns, title, changed, shares, busy } = more.summary;
        self.summary = RowSummary {
            turns: turns.or(self.summary.turns),
            title: title.or(self.summary.title.take()),
            changed: changed.or(self.summary.changed),
            shares: shares.or(self.summary.shares.take()),
            busy: busy.or(self.summary.busy),
        };
    }
}

/// Encodes batches for the database, with the values that a list of sessions shows.
fn encode(batches: &[Batch]) -> Result<Encoded, StoreError> {
    let mut encoded = Encoded::default();
    for batch in batches {
        let mut line = Vec::new();
        lines::write_batch(batch, &mut line).map_err(io::Error::from)?;
        encoded.rows.push((i64::try_from(batch.first).map_err(io::Error::other)?, text(line)?));
        if let Some(summary) = &batch.summary {
            encoded.summary = RowSummary {
                turns: i64::try_from(summary.turns).ok(),
                title: summary.title.clone(),
                changed: batch.events.last().map(|(at, _)| *at),
                shares: serde_json::to_string(&summary.shares).ok(),
                busy: Some(summary.busy),
            };
        }
    }
    Ok(encoded)
}

/// Returns a line as a string, without its newline.
fn text(mut line: Vec<u8>) -> Result<String, StoreError> {
    line.pop_if(|byte| *byte == b'\n');
    String::from_utf8(line).map_err(|err| StoreError::Io(io::Error::other(err)))
}

fn index(number: i64) -> Result<usize, StoreError> {
    usize::try_from(number).map_err(|_| StoreError::Invalid("it ends before it begins".to_owned()))
}
