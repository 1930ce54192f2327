//! Import of sessions into a store.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tandem_agent::session::{Batch, Head, Query, Store, StoreError};
use tandem_content::blocking::blocking;
use tandem_store::FileStore;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::gemini_cli::{FoundSession, GeminiCli, PROGRAM_NAME};
use crate::skip::SkipReason;

/// Import of sessions into a store, which adds no session twice.
pub struct Importer {
    store: FileStore,
    /// Store in which a session is written before it is moved into `store` as a whole.
    staging: FileStore,
    /// Heads of stored sessions that were imported, by their id in Gemini CLI.
    imported: HashMap<String, Vec<Head>>,
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
    /// Returns an import into `store`. Lists the sessions that are stored already, and deletes the remainders of
    /// imports that were cut off.
    pub async fn new(store: FileStore) -> Result<Self, StoreError> {
        let staging = store.staging();
        for remainder in staging.list(&Query::default()).await? {
            // If another process imports the session now, the session is open, and `delete` refuses it.
            let _ = staging.delete(&remainder.head.id).await;
        }
        let mut imported = HashMap::<_, Vec<_>>::new();
        for (original, head) in imported_sessions(&store).await? {
            imported.entry(original).or_default().push(head);
        }
        Ok(Self { store, staging, imported })
    }

    /// Imports a session. A session that was imported before, and has changed in Gemini CLI since, is imported as one
    /// more session if `again`.
    pub async fn import(&self, found: &FoundSession, again: bool) -> ImportOutcome {
        let stored = self.imported.get(found.original()).map(Vec::as_slice).unwrap_or_default();
        if stored.iter().any(|head| head.id == found.head.id) {
            return ImportOutcome::Present;
        }
        if !again && stored.iter().any(|head| found.is_state_of(head)) {
            return ImportOutcome::Changed;
        }
        let session = found.clone();
        match self.write(found, move |send| session.read_batches(send)).await {
            Ok(()) => ImportOutcome::Imported,
            Err(why) => ImportOutcome::Skipped(why),
        }
    }

    /// Creates a session as a whole or not at all. `read` hands the batches of its log to a function, until the
    /// function returns `false`.
    async fn write(
        &self,
        found: &FoundSession,
        read: impl FnOnce(&mut dyn FnMut(Batch) -> bool) -> Result<(), SkipReason> + Send + 'static,
    ) -> Result<(), SkipReason> {
        let FoundSession { head, changed, .. } = found;
        let (batches, mut received) = mpsc::channel(2);
        let reading =
            spawn_blocking(move || read(&mut |batch| batches.blocking_send(batch).is_ok()));
        let staged = match received.recv().await {
            Some(first) => stage(&self.staging, head, first, received).await,
            // Nothing is created for a chat whose file cannot be read any more.
            None => Ok(()),
        };
        let was_read = reading.await.unwrap_or_else(|err| {
            Err(if err.is_panic() { SkipReason::Panicked } else { SkipReason::Ending })
        });
        let mut result = staged.map_err(SkipReason::NotStored).and(was_read);
        if result.is_ok() {
            let published = self.store.publish(&head.id, *changed).await;
            result = published.map_err(SkipReason::NotStored);
        }
        if result.is_err() {
            // If the deletion fails, the next import deletes the remainder.
            let _ = self.staging.delete(&head.id).await;
        }
        result
    }
}

/// Creates a session, and adds the batches as they are read.
async fn stage(
    staging: &FileStore,
    head: &Head,
    first: Batch,
    mut received: mpsc::Receiver<Batch>,
) -> Result<(), StoreError> {
    let mut lease = staging.create(head).await?;
    lease.append(vec![first]).await?;
    while let Some(batch) = received.recv().await {
        lease.append(vec![batch]).await?;
    }
    lease.sync().await
}

/// Returns the heads of the stored sessions that were imported, each with its id in Gemini CLI.
async fn imported_sessions(store: &dyn Store) -> Result<Vec<(String, Head)>, StoreError> {
    let stored = store.list(&Query::default()).await?.into_iter();
    let imported = stored.filter_map(|listed| {
        let from = listed.head.from.clone()?;
        (from.program.as_deref() == Some(PROGRAM_NAME)).then_some((from.id, listed.head))
    });
    Ok(imported.collect())
}

/// Returns `true` if the working directory has a session of Gemini CLI that was not imported into `store`. Reads the
/// newest files until the first such session, and no file whose name says that its session was imported.
pub async fn has_new_sessions(gemini_cli: GeminiCli, store: Arc<dyn Store>) -> bool {
    let files = {
        let gemini_cli = gemini_cli.clone();
        blocking(move || gemini_cli.newest_files()).await.unwrap_or_default()
    };
    // Most people have no chats of Gemini CLI. Then the stored sessions need not be listed.
    if files.is_empty() {
        return false;
    }
    let Ok(imported) = imported_sessions(&*store).await else { return false };
    let was_imported = move |file: &PathBuf| {
        imported.iter().any(|(original, head)| gemini_cli.is_file_of_chat(file, original, head))
    };
    let is_session = |file: &PathBuf| {
        FoundSession::describe(file, |_| PathBuf::new()).is_ok_and(|session| session.is_some())
    };
    let look = move || files.iter().any(|file| !was_imported(file) && is_session(file));
    blocking(look).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tandem_agent::session::{BatchSummary, Event};

    use super::*;

    fn found() -> FoundSession {
        let json = r#"{"id":"0199f2c4-0000-7000-8000-000000000001","t":1}"#;
        FoundSession {
            file: PathBuf::from("session.json"),
            head: serde_json::from_str(json).unwrap(),
            title: "Title".to_owned(),
            turns: 1,
            changed: 1_772_355_930_500,
        }
    }

    fn batch(first: usize) -> Batch {
        let events = vec![(1, Arc::new(Event::Notice("Hello.".to_owned())))];
        Batch { first, events, summary: Some(BatchSummary { turns: 1, ..Default::default() }) }
    }

    /// Returns the names below a directory of sessions that hold a session, complete or not.
    fn names(dir: &std::path::Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name != ".staging").collect()
    }

    #[tokio::test]
    async fn a_conversion_that_fails_after_its_first_events_leaves_nothing() {
        let check = async |fail: fn() -> Result<(), SkipReason>, expected: &str| {
            let dir = tempfile::tempdir().unwrap();
            let importer = Importer::new(FileStore::new(dir.path().to_owned())).await.unwrap();
            let read = move |send: &mut dyn FnMut(Batch) -> bool| {
                assert!(send(batch(0)));
                fail()
            };
            let why = importer.write(&found(), read).await.unwrap_err();
            assert!(why.to_string().contains(expected), "{why}");
            assert!(names(dir.path()).is_empty());
            assert!(names(&dir.path().join(".staging")).is_empty());
        };
        check(|| panic!("a fault in the conversion"), "its conversion has failed").await;
        check(|| Err(SkipReason::BeingWritten), "is writing it").await;
    }

    #[tokio::test]
    async fn a_session_is_in_no_list_until_it_is_complete_and_has_its_time_then() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().to_owned());
        let importer = Importer::new(store.clone()).await.unwrap();
        let (reader, handle) = (store.clone(), tokio::runtime::Handle::current());
        let read = move |send: &mut dyn FnMut(Batch) -> bool| {
            for first in 0..8 {
                assert!(send(batch(first)));
                let list = handle.block_on(reader.list(&Query::default()));
                assert_eq!(list.unwrap(), []);
            }
            Ok(())
        };
        importer.write(&found(), read).await.unwrap();
        let list = store.list(&Query::default()).await.unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].changed, list[0].turns), (found().changed, 1));
    }

    #[tokio::test]
    async fn a_session_that_is_stored_already_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().to_owned());
        let importer = Importer::new(store.clone()).await.unwrap();
        let write = async || {
            importer
                .write(&found(), |send| {
                    send(batch(0));
                    Ok(())
                })
                .await
        };
        write().await.unwrap();
        let before = store.list(&Query::default()).await.unwrap();
        assert!(matches!(write().await, Err(SkipReason::NotStored(_))));
        assert_eq!(store.list(&Query::default()).await.unwrap(), before);
        assert!(names(&dir.path().join(".staging")).is_empty());
    }
}
