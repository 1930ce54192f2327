//! A store whose operations are timed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tandem_agent::session::{
    Batch, Head, Listed, Orphan, Query, Secrets, SharedStore, Store, StoreError, StoredLog,
    WriteLease,
};

use super::figures::{Label, TimeFamily, family, time_family};

/// The figures of a store.
#[derive(Clone)]
pub(super) struct StoreMetrics {
    seconds: TimeFamily,
    errors: Family<Label, Counter>,
}

impl StoreMetrics {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        Self {
            seconds: time_family(
                registry,
                "store",
                "Time that the store took: to acknowledge an append, to read a log to its end",
            ),
            errors: family(registry, "store_errors", "Operations that the store refused"),
        }
    }

    /// Records the duration of an operation that began at this time, and whether it failed.
    fn took(&self, operation: &'static str, began: Instant, failed: bool) {
        let label = [("operation", operation)];
        self.seconds.get_or_create(&label).observe(began.elapsed().as_secs_f64());
        if failed {
            self.errors.get_or_create(&label).inc();
        }
    }

    async fn time<T>(
        &self,
        name: &'static str,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let result = operation.await;
        self.took(name, began, matches!(&result, Err(error) if is_fault(error)));
        result
    }
}

/// Returns `true` if an error is a fault of the store, and not the answer to a request that cannot be met.
fn is_fault(error: &StoreError) -> bool {
    use StoreError::{Invalid, Io, Lost, Unavailable};
    matches!(error, Io(_) | Unavailable(_) | Lost(_) | Invalid(_))
}

/// A store whose operations are measured.
pub(super) struct MeasuredStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: StoreMetrics,
}

impl MeasuredStore {
    fn measured(&self, lease: Box<dyn WriteLease>) -> Box<dyn WriteLease> {
        Box::new(MeasuredLease { lease, metrics: self.metrics.clone() })
    }
}

#[async_trait]
impl Store for MeasuredStore {
    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        let lease = self.metrics.time("create", self.store.create(head)).await;
        lease.map(|lease| self.measured(lease))
    }

    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        let lease = self.metrics.time("claim", self.store.acquire(id)).await;
        lease.map(|lease| self.measured(lease))
    }

    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        let lease = self.metrics.time("claim", self.store.acquire_orphan(orphan)).await;
        lease.map(|lease| self.measured(lease))
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        self.store.orphans().await
    }

    async fn orphaned(&self) {
        self.store.orphaned().await;
    }

    async fn is_held(&self, id: &str) -> Result<bool, StoreError> {
        self.store.is_held(id).await
    }

    async fn id(&self) -> Result<String, StoreError> {
        self.store.id().await
    }

    async fn head(&self, id: &str) -> Result<Head, StoreError> {
        self.metrics.time("head", self.store.head(id)).await
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        let began = Instant::now();
        let log = self.store.read(id).await.inspect_err(|error| {
            self.metrics.took("read", began, is_fault(error));
        })?;
        let mut reading = Reading { metrics: self.metrics.clone(), began, failed: false };
        let log = log.inspect(move |piece| reading.note(piece.is_err()));
        Ok(log.boxed())
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        self.store.opened().await
    }

    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError> {
        self.store.secrets(id).await
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        self.metrics.time("list", self.store.list(query)).await
    }

    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        self.store.may_say(id, lower).await
    }

    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        self.metrics.time("delete", self.store.delete(id)).await
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.store.shared()
    }

    fn directory(&self, id: &str) -> Option<PathBuf> {
        self.store.directory(id)
    }
}

/// Measurement of the reading of a log. It is recorded when it is dropped with the stream: at the end of the log, or
/// when the reader stops before.
struct Reading {
    metrics: StoreMetrics,
    began: Instant,
    failed: bool,
}

impl Reading {
    fn note(&mut self, failed: bool) {
        self.failed |= failed;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.metrics.took("read", self.began, self.failed);
    }
}

struct MeasuredLease {
    lease: Box<dyn WriteLease>,
    metrics: StoreMetrics,
}

#[async_trait]
impl WriteLease for MeasuredLease {
    fn next(&self) -> usize {
        self.lease.next()
    }

    fn repaired(&self) -> Option<&str> {
        self.lease.repaired()
    }

    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        self.metrics.time("append", self.lease.append(batches)).await
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        self.metrics.time("sync", self.lease.sync()).await
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
        self.lease.taken_over()
    }

    async fn release(&mut self) {
        self.lease.release().await;
    }
}
