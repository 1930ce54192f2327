//! Removal of clones whose sessions were deleted at another node, or by `tandem sessions delete`.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tandem_agent::session::{Store, StoreError};
use tokio::time::sleep;

use super::error::GitError;
use super::paths::{Paths, blocking, session_of};
use super::workspaces::GitWorkspaces;

/// Time between two searches for clones to remove.
const SWEEP_INTERVAL: Duration = Duration::from_mins(10);

/// A clone whose session is or was in a store.
struct OwnedClone {
    id: String,
    origin: String,
    /// Commit of the last snapshot that this node has pushed or fetched; empty if there is none.
    snapshot: String,
}

impl GitWorkspaces {
    /// Removes clones of deleted sessions now and from time to time, for ever.
    pub(crate) async fn keep_sweeping(&self, store: &dyn Store) {
        loop {
            if let Err(why) = self.sweep(store).await {
                tracing::warn!("clones of deleted sessions are not removed: {why}");
            }
            sleep(SWEEP_INTERVAL).await;
        }
    }

    /// Removes the clones of sessions that the store had and has no more. Also removes each session's snapshot, unless
    /// another node has pushed a later one. Every other clone stays. All clones stay if the store cannot be reached or
    /// has become another store; the error then says why.
    pub async fn sweep(&self, store: &dyn Store) -> Result<(), GitError> {
        let Some(store_id) = self.store() else { return Ok(()) };
        let (directory, owner) = (self.directory().to_owned(), Arc::clone(&store_id));
        for clone in blocking(move || clones_of(&directory, &owner)).await? {
            let OwnedClone { id, origin, snapshot } = clone;
            // A clone in use stays: the store may have lost its session only for a while.
            if self.is_used(&id) {
                continue;
            }
            match store.head(&id).await {
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(GitError::Store(error)),
                Ok(_) => continue,
            }
            // If the store's files are not mounted, every session seems to be deleted. The store then has another
            // id, and all clones stay.
            if store.id().await.map_err(GitError::Store)? != *store_id {
                return Err(GitError::StoreLost);
            }
            match self.remove(&id, &origin, Some(&snapshot)).await {
                Ok(()) => tracing::info!(id, "the clone of a deleted session is removed"),
                Err(why) => tracing::warn!(id, "a session is deleted, and its clone is not: {why}"),
            }
        }
        Ok(())
    }
}

/// Returns the clones in a directory whose sessions are or were in this store. Also finishes removals that were
/// interrupted.
fn clones_of(directory: &Path, store: &str) -> io::Result<Vec<OwnedClone>> {
    let mut clones = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(session_of) else { continue };
        let paths = Paths::for_session(directory, id)?;
        paths.empty_trash()?;
        if let Some((owner, origin)) = paths.owner()
            && owner == store
        {
            let snapshot = fs::read_to_string(paths.own.join(paths.reference()));
            let snapshot = snapshot.unwrap_or_default().trim_end().to_owned();
            clones.push(OwnedClone { id: id.to_owned(), origin, snapshot });
        }
    }
    Ok(clones)
}
