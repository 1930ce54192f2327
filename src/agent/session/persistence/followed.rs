//! A session that another node has, as this one reads its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::AbortOnDropHandle;

use super::store::{Head, SharedStore, Store, StoreError, Stored, StoredLog};
use crate::session::events::log::{Log, Reader, Shelf};
use crate::session::events::principal::SessionAccess;
use crate::session::state::session_state::{CurrentState, SessionState};
use tandem_host::scratch::Scratch;

/// A session that another node has. What happens in it is read here as soon as the store has it; nothing
/// runs here, and nothing is added. Whoever reads it goes on when the session gets another owner, this node
/// among them: indexes are the store's.
pub struct FollowedSession {
    id: String,
    log: Log,
    state: CurrentState,
    store: Arc<dyn Store>,
    /// Number of orders that wait for their replies.
    asking: Arc<AtomicUsize>,
    ended: CancellationToken,
    _reads_on: AbortOnDropHandle<()>,
}

impl FollowedSession {
    /// Reads a session's log, of which at most `log_bytes` bytes stay in memory, and goes on reading as long
    /// as this lives. `None` if the store is not one that nodes share.
    pub async fn open(
        store: &Arc<dyn Store>,
        id: &str,
        log_bytes: usize,
    ) -> Result<Option<Self>, StoreError> {
        let Some(shared) = store.shared() else { return Ok(None) };
        if let Head { tag: Some(tag), .. } = store.head(id).await? {
            return Err(StoreError::Checkpoint(tag));
        }
        let log = Log::new(Shelf::new(Arc::new(Scratch::new(None)), log_bytes));
        let state = CurrentState::new(log.read(0));
        let end = shared.position(id).await?;
        let mut pieces = shared.follow(id, 0);
        while log.len() < end {
            read_piece(&mut pieces, &log, &state).await?;
        }
        let ended = CancellationToken::new();
        let (name, more) = (id.to_owned(), log.clone());
        let (fold, over) = (state.clone(), ended.clone().drop_guard());
        let reads_on = tokio::spawn(async move {
            let _over = over;
            loop {
                if let Err(err) = read_piece(&mut pieces, &more, &fold).await {
                    tracing::debug!(id = name, "a session is followed no longer: {err}");
                    return;
                }
            }
        });
        Ok(Some(Self {
            id: id.to_owned(),
            log,
            state,
            store: Arc::clone(store),
            asking: Arc::default(),
            ended,
            _reads_on: AbortOnDropHandle::new(reads_on),
        }))
    }

    /// Returns the session's id, which no other session of any process has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a reader of all events from the index `from` on that the store has, past and to come.
    pub fn events(&self, from: usize) -> Reader {
        self.log.read_kept(from)
    }

    /// Returns the index after the last event that was read.
    pub fn position(&self) -> usize {
        self.log.kept_len()
    }

    /// Looks at the state as it is now.
    pub fn look<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        self.state.look(look)
    }

    /// Looks at the owner, and at those with whom the session is shared, as they are now.
    pub fn with_access<T>(&self, look: impl FnOnce(&SessionAccess) -> T) -> T {
        self.state.look(|state| look(&state.access))
    }

    /// Returns `true` if an order waits for its reply.
    pub fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Returns the store as nodes share it.
    fn shared(&self) -> Result<&dyn SharedStore, StoreError> {
        self.store.shared().ok_or_else(|| StoreError::NotFound(self.id.clone()))
    }

    /// Waits until all is read that the store has now.
    pub async fn caught_up(&self) -> Result<(), StoreError> {
        let shared = self.shared()?;
        let end = shared.position(&self.id).await?;
        if self.position() >= end {
            return Ok(());
        }
        shared.look_again(&self.id);
        let mut log = self.log.read_kept(end.saturating_sub(1));
        tokio::select! {
            biased;
            () = log.ready() => Ok(()),
            () = self.ended.cancelled() => Err(StoreError::NotFound(self.id.clone())),
        }
    }

    /// Has the owner carry out an order; returns the reply. It goes on although the caller goes, as it would
    /// with a session that this node has.
    pub async fn ask(&self, body: String) -> Result<String, StoreError> {
        let (store, id) = (Arc::clone(&self.store), self.id.clone());
        let counted = Arc::clone(&self.asking);
        let asking = tokio::spawn(async move {
            counted.fetch_add(1, Ordering::Relaxed);
            let reply = match store.shared() {
                Some(shared) => shared.ask(&id, &body).await,
                None => Err(StoreError::NotFound(id)),
            };
            counted.fetch_sub(1, Ordering::Relaxed);
            reply
        });
        asking.await.map_err(|err| StoreError::Io(std::io::Error::other(err)))?
    }

    /// Waits until nothing further is read, because the session is deleted, or what was read is not what the
    /// store has.
    pub fn ended(&self) -> WaitForCancellationFutureOwned {
        self.ended.clone().cancelled_owned()
    }

    /// Returns `true` if nothing further is read.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// Reads what comes next of a log into memory.
async fn read_piece(
    pieces: &mut StoredLog,
    log: &Log,
    state: &CurrentState,
) -> Result<(), StoreError> {
    let ended = || StoreError::Lost("the store has no more of it");
    for stored in pieces.next().await.ok_or_else(ended)?? {
        match stored {
            // What is there already counts: an index has one event.
            Stored::Batch(batch) if batch.first < log.len() => {}
            Stored::Batch(batch) => {
                for (n, (at, event)) in batch.events.into_iter().enumerate() {
                    log.put_back(batch.first + n, at, event);
                }
            }
            Stored::Damaged(why) => tracing::debug!("a piece of a session is left out: {why}"),
        }
        tokio::task::coop::consume_budget().await;
    }
    // While it is in memory.
    state.look(|_| ());
    Ok(())
}
