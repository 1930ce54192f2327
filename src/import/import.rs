//! Import of sessions into a store.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tandem_agent::session::{Batch, Claim, Listed, Query, Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::gemini_cli::{FoundSession, GeminiCli, PROGRAM, named_id};
use crate::skip::SkipReason;

/// Import of sessions into a store, which adds no session twice.
pub struct Importer {
    store: Arc<dyn Store>,
    /// Stored sessions that were imported, by their id in Gemini CLI.
    imported: HashMap<String, Vec<Listed>>,
}

/// Result of the import of one session.
#[derive(Debug)]
pub enum ImportOutcome {
    /// The session is imported.
    Imported,
    /// The session was imported before.
    Present,
    /// The session was imported before, and has changed in Gemini CLI since.
    Changed,
    /// The session is not imported.
    Skipped(SkipReason),
}

impl Importer {
    /// Returns an import into `store`. Lists the sessions that are stored already.
    pub async fn new(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut imported = HashMap::<_, Vec<_>>::new();
        for listed in store.list(&Query::default()).await? {
            if let Some(from) = &listed.head.from
                && from.program.as_deref() == Some(PROGRAM)
            {
                imported.entry(from.id.clone()).or_default().push(listed);
            }
        }
        Ok(Self { store, imported })
    }

    /// Imports a session. A session that was imported before, and has changed in Gemini CLI since, is imported as one
    /// more session if `again`.
    pub async fn import(&self, found: &FoundSession, again: bool) -> ImportOutcome {
        let stored = self.imported.get(found.original()).map(Vec::as_slice).unwrap_or_default();
        match stored.iter().find(|listed| listed.head.id == found.head.id) {
            Some(same) if same.turns > 0 => return ImportOutcome::Present,
            // The number of turns is written last. Without it, an earlier import of this session was cut off, and
            // nothing was added to the session since.
            Some(cut_off) => {
                if let Err(err) = self.store.delete(&cut_off.head.id).await {
                    return ImportOutcome::Skipped(SkipReason::NotStored(err));
                }
            }
            None if !again && stored.iter().any(|listed| found.is_state_of(&listed.head)) => {
                return ImportOutcome::Changed;
            }
            None => {}
        }
        match self.write(found).await {
            Ok(()) => ImportOutcome::Imported,
            Err(why) => ImportOutcome::Skipped(why),
        }
    }

    /// Creates a session as a whole or not at all.
    async fn write(&self, found: &FoundSession) -> Result<(), SkipReason> {
        let (batches, mut read) = mpsc::channel(2);
        let session = found.clone();
        let reading =
            spawn_blocking(move || session.read_batches(|it| batches.blocking_send(it).is_ok()));
        // Nothing is created for a file that cannot be read any more.
        if let Some(first) = read.recv().await {
            let mut claim = self.store.create(&found.head).await.map_err(SkipReason::NotStored)?;
            if let Err(err) = fill(&mut *claim, first, read).await {
                drop(claim);
                // Half a session would look like a whole one.
                let _ = self.store.delete(&found.head.id).await;
                return Err(SkipReason::NotStored(err));
            }
        }
        reading.await.unwrap_or(Err(SkipReason::Ending))
    }
}

/// Adds the batches to a session as they are read.
async fn fill(
    claim: &mut dyn Claim,
    first: Batch,
    mut read: mpsc::Receiver<Batch>,
) -> Result<(), StoreError> {
    claim.append(vec![first]).await?;
    while let Some(batch) = read.recv().await {
        claim.append(vec![batch]).await?;
    }
    claim.sync().await
}

/// Returns `true` if the working directory has a session of Gemini CLI that was not imported into `store`. Reads the
/// newest files until the first such session, and no file whose name says that its session was imported.
pub async fn has_new_sessions(gemini_cli: GeminiCli, store: Arc<dyn Store>) -> bool {
    let files = spawn_blocking(move || gemini_cli.newest_files()).await.unwrap_or_default();
    // Most people have none, and their stored sessions need not be listed.
    if files.is_empty() {
        return false;
    }
    let Ok(Importer { imported, .. }) = Importer::new(store).await else { return false };
    let was_imported = move |file: &PathBuf| {
        named_id(file).is_some_and(|begins| imported.keys().any(|id| id.starts_with(&begins)))
    };
    let is_session = |file: &PathBuf| {
        FoundSession::describe(file, |_| PathBuf::new()).is_ok_and(|session| session.is_some())
    };
    let look = move || files.iter().any(|file| !was_imported(file) && is_session(file));
    spawn_blocking(look).await.unwrap_or(false)
}
