//! A store whose behaviour a test chooses, and checks of stored sessions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use tandem_agent::session::{
    Batch, Event, Head, Listed, Orphan, Query, Secrets, SharedStore, Store, StoreError, Stored,
    StoredLog, WriteLease,
};
use tokio::sync::watch;

/// Returns the events that are in a store.
pub async fn stored(store: &dyn Store, id: &str) -> Vec<(usize, Event)> {
    let mut log = store.read(id).await.unwrap();
    let mut events = Vec::new();
    while let Some(pieces) = log.next().await {
        for piece in pieces.unwrap() {
            let Stored::Batch(batch) = piece else { panic!("{piece:?}") };
            let indexes = batch.first..;
            events.extend(indexes.zip(batch.events.into_iter().map(|(_, event)| (*event).clone())));
        }
    }
    events
}

/// Checks that each turn and each call that begins ends once.
pub fn ends_everything(events: &[(usize, Event)]) {
    let (mut turns, mut open) = (Vec::new(), Vec::new());
    for (_, event) in events {
        match event {
            Event::TurnQueued { turn, .. } => turns.push(*turn),
            Event::TurnFinished { turn, .. } => {
                let at = turns.iter().position(|open| open == turn).unwrap();
                turns.remove(at);
            }
            Event::AnswerFinished { calls, .. } => {
                open.extend(calls.iter().map(|call| call.id.clone()));
            }
            Event::CallFinished { call, .. } => {
                let at = open.iter().position(|open| open == call).unwrap();
                open.remove(at);
            }
            _ => {}
        }
    }
    assert!(turns.is_empty() && open.is_empty(), "{turns:?} {open:?}");
}

/// A store whose behaviour a test chooses.
pub struct Faulty {
    inner: Arc<dyn Store>,
    /// `false` while opening a session waits, after the session is leased.
    pub opens: watch::Sender<bool>,
    /// `false` while appending waits.
    pub goes_on: watch::Sender<bool>,
    /// `false` while the store does not confirm appended events.
    pub confirms: watch::Sender<bool>,
    /// `true` while the store refuses.
    pub fails: Arc<AtomicBool>,
    /// `true` if the next syncing finds a part of the log lost.
    pub loses: Arc<AtomicBool>,
    /// `true` if another process has taken the sessions over.
    pub taken: watch::Sender<bool>,
}

impl Faulty {
    /// Wraps another store. At first every operation succeeds.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let (goes_on, confirms) = (watch::Sender::new(true), watch::Sender::new(true));
        let (opens, taken) = (watch::Sender::new(true), watch::Sender::new(false));
        let (fails, loses) = Default::default();
        Arc::new(Self { inner, opens, goes_on, confirms, fails, loses, taken })
    }

    fn faulty(&self, lease: Box<dyn WriteLease>) -> Box<dyn WriteLease> {
        let (goes_on, confirms) = (self.goes_on.subscribe(), self.confirms.subscribe());
        let (fails, loses) = (Arc::clone(&self.fails), Arc::clone(&self.loses));
        let taken = self.taken.subscribe();
        Box::new(FaultyClaim { lease, goes_on, confirms, fails, loses, taken })
    }
}

#[async_trait]
impl Store for Faulty {
    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Io(std::io::ErrorKind::StorageFull.into()));
        }
        Ok(self.faulty(self.inner.create(head).await?))
    }

    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        Ok(self.faulty(self.inner.acquire(id).await?))
    }

    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        self.inner.acquire_orphan(orphan).await
    }

    async fn is_held(&self, id: &str) -> Result<bool, StoreError> {
        self.inner.is_held(id).await
    }

    async fn id(&self) -> Result<String, StoreError> {
        self.inner.id().await
    }

    async fn head(&self, id: &str) -> Result<Head, StoreError> {
        self.inner.head(id).await
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        self.inner.read(id).await
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        self.inner.orphans().await
    }

    async fn orphaned(&self) {
        self.inner.orphaned().await;
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        self.inner.opened().await
    }

    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError> {
        self.opens.subscribe().wait_for(|opens| *opens).await.unwrap();
        self.inner.secrets(id).await
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        self.inner.list(query).await
    }

    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.inner.shared()
    }

    fn directory(&self, id: &str) -> Option<PathBuf> {
        self.inner.directory(id)
    }
}

struct FaultyClaim {
    lease: Box<dyn WriteLease>,
    goes_on: watch::Receiver<bool>,
    confirms: watch::Receiver<bool>,
    fails: Arc<AtomicBool>,
    loses: Arc<AtomicBool>,
    taken: watch::Receiver<bool>,
}

#[async_trait]
impl WriteLease for FaultyClaim {
    fn next(&self) -> usize {
        self.lease.next()
    }

    fn repaired(&self) -> Option<&str> {
        None
    }

    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        self.goes_on.wait_for(|goes_on| *goes_on).await.unwrap();
        if *self.taken.borrow() {
            return Err(StoreError::TakenOver);
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Io(std::io::ErrorKind::StorageFull.into()));
        }
        let appended = self.lease.append(batches).await;
        self.confirms.wait_for(|confirms| *confirms).await.unwrap();
        appended
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        if self.loses.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Lost("a test says so"));
        }
        self.lease.sync().await
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        self.lease.renew().await
    }

    async fn announce(&mut self, port: u16) -> Result<(), StoreError> {
        self.lease.announce(port).await
    }

    async fn store_secrets(&mut self, secrets: &Secrets) -> Result<(), StoreError> {
        self.lease.store_secrets(secrets).await
    }

    fn taken_over(&self) -> BoxFuture<'static, ()> {
        let mut taken = self.taken.clone();
        Box::pin(async move { _ = taken.wait_for(|taken| *taken).await })
    }
}
