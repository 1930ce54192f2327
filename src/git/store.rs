//! A store that, with a session, deletes the session's workspace.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tandem_agent::session::{
    Head, Listed, Orphan, Query, Secrets, SharedStore, Store, StoreError, StoredLog, WriteLease,
};
use tokio_util::task::AbortOnDropHandle;

use super::workspaces::GitWorkspaces;

/// Returns a store that, with a session, deletes the session's clone and snapshot. From time to time it also deletes
/// those of sessions that were deleted elsewhere. To be called within a runtime.
pub async fn cleaning(
    store: Arc<dyn Store>,
    workspaces: &Arc<GitWorkspaces>,
) -> Result<Arc<dyn Store>, StoreError> {
    let id = store.id().await?;
    workspaces.belong_to(&id);
    let (swept, clones) = (Arc::clone(&store), Arc::clone(workspaces));
    let sweeping = tokio::spawn(async move { clones.keep_sweeping(&*swept).await });
    let (workspaces, sweeping) = (Arc::clone(workspaces), AbortOnDropHandle::new(sweeping));
    Ok(Arc::new(CleaningStore { store, workspaces, _sweeping: sweeping }))
}

/// Wrapper of a store whose sessions work in clones.
struct CleaningStore {
    store: Arc<dyn Store>,
    workspaces: Arc<GitWorkspaces>,
    _sweeping: AbortOnDropHandle<()>,
}

#[async_trait]
impl Store for CleaningStore {
    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        let origin = self.store.head(id).await.ok().and_then(|head| head.git);
        self.store.delete(id).await?;
        if let Some(origin) = origin
            && let Err(why) = self.workspaces.remove(id, &origin.to_string(), None).await
        {
            tracing::warn!(id, "a session is deleted, and not all of its workspace: {why}");
        }
        Ok(())
    }

    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        self.store.create(head).await
    }

    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        self.store.acquire(id).await
    }

    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        self.store.acquire_orphan(orphan).await
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
        self.store.head(id).await
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        self.store.read(id).await
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        self.store.opened().await
    }

    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError> {
        self.store.secrets(id).await
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        self.store.list(query).await
    }

    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        self.store.may_say(id, lower).await
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.store.shared()
    }

    fn directory(&self, id: &str) -> Option<PathBuf> {
        self.store.directory(id)
    }
}
