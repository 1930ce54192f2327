//! Reads the log of a session while another node appends to it.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use tandem_agent::session::{StoreError, Stored, StoredLog};

use super::news::TopicSubscription;
use super::shared::Shared;
use super::{MAX_PAGE_BATCHES, connection};
use crate::lines;

/// Reads a log from an index on: the stored events, and later events as they come. Ends with an error if the session
/// is deleted, or the database has gone back to an earlier state.
pub(super) fn follow(shared: &Arc<Shared>, id: &str, from: usize) -> StoredLog {
    let follower = Follower {
        shared: Arc::clone(shared),
        id: id.to_owned(),
        news: shared.news.subscribe(id),
        next: from,
        begins: true,
        is_ahead: false,
    };
    let pieces = stream::try_unfold(follower, |mut follower| async move {
        let pieces = follower.read_on().await?;
        Ok(Some((pieces, follower)))
    });
    pieces.boxed()
}

/// A reader of one session's log, and its position.
struct Follower {
    shared: Arc<Shared>,
    id: String,
    news: TopicSubscription,
    /// Index of the next event.
    next: usize,
    /// `true` until the first read, which must find the batch that contains the index `next`: it may begin earlier.
    begins: bool,
    /// `true` if the last read reached the end of the log.
    is_ahead: bool,
}

impl Follower {
    /// Waits until there are further events; returns them.
    async fn read_on(&mut self) -> Result<Vec<Stored>, StoreError> {
        loop {
            if std::mem::take(&mut self.is_ahead) && !self.news.wait().await {
                self.check().await?;
            }
            self.news.forget();
            let pieces = self.read().await?;
            if !pieces.is_empty() {
                return Ok(pieces);
            }
        }
    }

    /// Reads the next stored events, at most [`MAX_PAGE_BATCHES`] batches; returns none at the end of the log.
    async fn read(&mut self) -> Result<Vec<Stored>, StoreError> {
        let mut from = i64::try_from(self.next).unwrap_or(i64::MAX);
        if std::mem::take(&mut self.begins) {
            let sql = "select coalesce(max(first), 0) from tandem.batch \
                       where session = $1 and first <= $2";
            let rows = self.shared.database.query(sql, &[&self.id, &from]).await?;
            from = rows.first().map_or(Ok(from), |row| connection::get(row, 0))?;
        }
        let rows = self.shared.read_rows(&self.id, from, i64::MAX).await?;
        self.is_ahead = i64::try_from(rows.len()) != Ok(MAX_PAGE_BATCHES);
        let mut pieces = Vec::with_capacity(rows.len());
        for row in &rows {
            match lines::read_batch(connection::get::<&str>(row, 1)?.as_bytes()) {
                Ok(mut batch) => {
                    let read = self.next.saturating_sub(batch.first).min(batch.events.len());
                    batch.events.drain(..read);
                    batch.first += read;
                    self.next = self.next.max(batch.end());
                    if !batch.events.is_empty() {
                        pieces.push(Stored::Batch(batch));
                    }
                }
                Err(err) => {
                    let first: i64 = connection::get(row, 0)?;
                    self.next = self.next.max(usize::try_from(first).unwrap_or(0) + 1);
                    pieces.push(Stored::Damaged(format!("the batch at {first}: {err}")));
                }
            }
        }
        Ok(pieces)
    }

    /// Checks that the events that were read are still in the database.
    async fn check(&self) -> Result<(), StoreError> {
        let end = self.shared.owner(&self.id).await?.next;
        if usize::try_from(end).is_ok_and(|end| end < self.next) {
            return Err(StoreError::Lost("the database has gone back to an earlier state"));
        }
        Ok(())
    }
}
