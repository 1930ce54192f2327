//! Followed sessions: sessions of another node, whose logs this node reads from the store that both share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::AbortOnDropHandle;

use super::store::{Head, SharedStore, Store, StoreError, Stored, StoredLog};
use crate::session::events::log::{Log, Reader};
use crate::session::events::principal::SessionAccess;
use crate::session::state::session_state::{CurrentState, SessionState};
use tandem_host::scratch::Scratch;

/// A session that another node has. Its events are read here as soon as the store has them; no turn runs here, and no
/// event is added here. A reader of the events can go on at the same index when the session gets another owner, even
/// this node, because all nodes use the indexes of the stored log.
pub struct FollowedSession {
    id: String,
    log: Log,
    state: CurrentState,
    store: Arc<dyn Store>,
    /// Number of orders that wait for their replies. Shared with the tasks that wait, which may outlive this value.
    asking: Arc<AtomicUsize>,
    /// Token that fires when no further event is read.
    ended: CancellationToken,
    /// Task that reads new events; ends when this value is dropped.
    _reads_on: AbortOnDropHandle<()>,
}

impl FollowedSession {
    /// Reads a session's log, of which at most `log_bytes` bytes stay in memory, and goes on reading until the returned
    /// value is dropped. Returns when all events are read that the store has now; `None` if nodes do not share the
    /// store.
    pub async fn open(
        store: &Arc<dyn Store>,
        id: &str,
        log_bytes: usize,
    ) -> Result<Option<Self>, StoreError> {
        let Some(shared) = store.shared() else { return Ok(None) };
        if let Head { tag: Some(tag), .. } = store.head(id).await? {
            return Err(StoreError::Checkpoint(tag));
        }
        let log = Log::new(Arc::new(Scratch::new(None)), log_bytes);
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
            // Fires `ended` however this task ends.
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

    /// Returns the session's id, which is unique among all sessions.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a reader of the stored events from the index `from` on, past and to come.
    pub fn events(&self, from: usize) -> Reader {
        self.log.read_persisted(from)
    }

    /// Returns the index after the last event that was read.
    pub fn position(&self) -> usize {
        self.log.persisted_len()
    }

    /// Calls `look` with the current state.
    pub fn with_state<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        self.state.with_state(look)
    }

    /// Calls `look` with the current owner, and the members with whom the session is shared.
    pub fn with_access<T>(&self, look: impl FnOnce(&SessionAccess) -> T) -> T {
        self.state.with_state(|state| look(&state.access))
    }

    /// Returns `true` if an order waits for its reply.
    pub fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Returns the store's interface for nodes that share the store.
    fn shared(&self) -> Result<&dyn SharedStore, StoreError> {
        self.store.shared().ok_or_else(|| StoreError::NotFound(self.id.clone()))
    }

    /// Waits until all events are read that the store has now. Fails if reading ends before that.
    pub async fn caught_up(&self) -> Result<(), StoreError> {
        let shared = self.shared()?;
        let end = shared.position(&self.id).await?;
        if self.position() >= end {
            return Ok(());
        }
        shared.refresh_followers(&self.id);
        let mut log = self.log.read_persisted(end.saturating_sub(1));
        tokio::select! {
            biased;
            () = log.ready() => Ok(()),
            () = self.ended.cancelled() => Err(StoreError::NotFound(self.id.clone())),
        }
    }

    /// Sends an order to the session's owner, and waits for the reply. The order is carried out even if the caller is
    /// dropped meanwhile, as a call for a session of this node would be.
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

    /// Waits until no further event is read, because the session is deleted, the store no longer has the events that
    /// were read, or the store cannot be read.
    pub fn wait_ended(&self) -> WaitForCancellationFutureOwned {
        self.ended.clone().cancelled_owned()
    }

    /// Returns `true` if no further event is read.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

/// Waits for the next piece of a stored log, and puts its events into `log`.
async fn read_piece(
    pieces: &mut StoredLog,
    log: &Log,
    state: &CurrentState,
) -> Result<(), StoreError> {
    let ended = || StoreError::Lost("the store has no more of it");
    for stored in pieces.next().await.ok_or_else(ended)?? {
        match stored {
            // An index has one event. The first that was read for it counts, and the second is dropped.
            Stored::Batch(batch) if batch.first < log.len() => {}
            Stored::Batch(batch) => {
                for (n, (at, event)) in batch.events.into_iter().enumerate() {
                    log.restore(batch.first + n, at, event);
                }
            }
            Stored::Damaged(why) => tracing::debug!("a piece of a session is left out: {why}"),
        }
        tokio::task::coop::consume_budget().await;
    }
    // Reads the piece while it is in memory: later it may have been moved to the spill file.
    state.with_state(|_| ());
    log.spill_finished().await;
    Ok(())
}
