//! Upload of files from a session's directory to a store that several nodes share.

use std::fs;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use async_trait::async_trait;

use super::store::{Store, StoreError};
use tandem_content::blocking::blocking;
use tandem_host::scratch::Scratch;
use tandem_host::stored_files::{StoredFileChange, StoredFileSource, StoredFiles};

/// The files of one session in a store.
pub(super) struct FilesOfSession {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: String,
}

#[async_trait]
impl StoredFileSource for FilesOfSession {
    async fn read(&self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        let shared = self.store.shared().ok_or(ErrorKind::Unsupported)?;
        shared.read_file(&self.id, name, max).await.map_err(|err| io::Error::other(err.to_string()))
    }
}

/// The writer of one session's files to a store.
pub(crate) struct FileUploads {
    store: Arc<dyn Store>,
    id: String,
    /// The session's directory. Shared ownership, because the directory must exist until all its files are stored.
    scratch: Arc<Scratch>,
    /// `true` if people have been told that the store takes no more files of this session.
    is_full: bool,
}

impl FileUploads {
    /// Makes the writer of a session's files. Returns `None` if the session's files are stored in its directory alone.
    pub(crate) fn new(
        id: &str,
        store: Option<&Arc<dyn Store>>,
        scratch: &Arc<Scratch>,
    ) -> Option<Self> {
        let (id, store, scratch) = (id.to_owned(), Arc::clone(store?), Arc::clone(scratch));
        scratch.stored_files()?;
        Some(Self { store, id, scratch, is_full: false })
    }

    /// Writes all changes of files that the store does not have yet. Returns a notice for people when, for the first
    /// time, a file was left out because the store has as many bytes of this session as it may.
    pub(super) async fn write(&mut self) -> Result<Option<String>, StoreError> {
        let (Some(files), Some(shared)) = (self.scratch.stored_files(), self.store.shared()) else {
            return Ok(None);
        };
        while let Some(change) = files.next_change() {
            match &change {
                StoredFileChange::Written(name) => match read(&self.scratch, name).await? {
                    Some(content) => shared.put_file(&self.id, name, content).await?,
                    // The file was removed after the change was noted.
                    None => files.removed(name.clone()),
                },
                StoredFileChange::Removed(name) => shared.remove_file(&self.id, name).await?,
            }
            files.is_stored(&change);
        }
        if !files.take_left_out() || std::mem::replace(&mut self.is_full, true) {
            return Ok(None);
        }
        Ok(Some(left_out(files)))
    }

    /// Marks all files of the directory as not stored yet, because the store may have lost some. The next
    /// [`Self::write`] stores them.
    pub(super) fn write_again(&self) {
        self.scratch.stored_files().into_iter().for_each(StoredFiles::store_again);
    }
}

/// Reads a file of the directory; `None` if the file does not exist any more.
async fn read(scratch: &Arc<Scratch>, name: &str) -> io::Result<Option<Vec<u8>>> {
    let (scratch, name) = (Arc::clone(scratch), name.to_owned());
    let read = blocking(move || fs::read(scratch.dir()?.join(name)));
    match read.await.map_err(io::Error::other)? {
        Ok(content) => Ok(Some(content)),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

/// Returns the notice for people that files are left out.
fn left_out(files: &StoredFiles) -> String {
    format!(
        "The database has the most files of this session that are allowed ({} bytes; `--limit \
         session-files-bytes=N` allows more). Files that `/restore` and long outputs need from now on are on \
         this node only, and are missing when another node goes on.",
        files.max_bytes()
    )
}
