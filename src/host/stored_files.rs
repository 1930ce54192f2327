//! Files that a store has beside a session's log, for other nodes that go on with the session.
//!
//! The session's directory on this machine has the files that were written or read here; the store is to have all
//! files.

use std::collections::{BTreeMap, VecDeque};
use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use async_trait::async_trait;
use parking_lot::Mutex;
use tempfile::NamedTempFile;

use super::off_thread::off_thread;

/// Name of the subdirectory for contents of files before changes.
pub(super) const PREIMAGES_DIRECTORY: &str = "blobs";

/// Name of the subdirectory for long outputs.
pub(super) const OUTPUTS_DIRECTORY: &str = "outputs";

/// Maximum length of a file's name, without its directory.
const LONGEST_NAME: usize = 100;

/// Access to the files of one session in a store.
#[async_trait]
pub trait StoredFileSource: Send + Sync {
    /// Reads a file of at most `max` bytes.
    async fn read(&self, name: &str, max: u64) -> io::Result<Vec<u8>>;
}

/// Name and size of a file that a store has beside a session's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Path of the file relative to the session's directory.
    pub name: String,
    /// Number of bytes.
    pub bytes: u64,
}

/// A change in the session's directory that the store does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredFileChange {
    /// A file of this name was written.
    Written(String),
    /// A file of this name was removed.
    Removed(String),
}

/// The files of a session in a store, and the changes that the store does not have yet.
pub struct StoredFiles {
    session: String,
    source: Box<dyn StoredFileSource>,
    max_bytes: u64,
    /// Files of the store, including files that are still to be stored, and the pending changes.
    state: Mutex<StoredFilesState>,
}

#[derive(Default)]
struct StoredFilesState {
    /// Sizes of the files that the store has or has pending.
    sizes: BTreeMap<String, u64>,
    /// Pending changes, the oldest first.
    changes: VecDeque<StoredFileChange>,
    /// `true` if a file was not stored because of the size limit since the last call of [`StoredFiles::take_left_out`].
    has_left_out: bool,
}

impl StoredFiles {
    /// Returns the list of files that the store has. The store keeps at most `max_bytes` bytes for the session. Files
    /// with impossible names or sizes are left out.
    pub fn new(
        session: &str,
        source: Box<dyn StoredFileSource>,
        files: Vec<StoredFile>,
        max_bytes: u64,
    ) -> Self {
        let is_possible = |file: &StoredFile| is_name(&file.name) && file.bytes <= max_bytes;
        let (files, odd): (Vec<_>, Vec<_>) = files.into_iter().partition(is_possible);
        if let Some(first) = odd.first() {
            let count = odd.len();
            tracing::warn!("{count} stored files of session {session} are left out: {first:?}");
        }
        let sizes = files.into_iter().map(|file| (file.name, file.bytes)).collect();
        let state = Mutex::new(StoredFilesState { sizes, ..StoredFilesState::default() });
        Self { session: session.to_owned(), source, max_bytes, state }
    }

    /// Returns the session's id.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Returns the maximum number of bytes that the store keeps for the session.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns whether the store has no file of the session, and none is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().sizes.is_empty()
    }

    /// Returns whether the store has a file, or has it pending.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.state.lock().sizes.contains_key(name)
    }

    /// Returns the stored name of the file that a path leads to. The path may be in the session's directory on any
    /// node.
    pub(super) fn name_of(&self, path: &Path) -> Option<String> {
        let directory = path.ancestors().nth(2)?;
        let name = path.strip_prefix(directory).ok()?.to_str()?;
        let is_ours = directory.is_absolute() && directory.ends_with(&self.session);
        (is_ours && self.contains(name)).then(|| name.to_owned())
    }

    /// Returns the files in a subdirectory, with names relative to the subdirectory.
    pub(super) fn in_directory(&self, directory: &str) -> Vec<StoredFile> {
        let state = self.state.lock();
        let name = |name: &str| Some(name.strip_prefix(directory)?.strip_prefix('/')?.to_owned());
        let files = state.sizes.iter();
        files
            .filter_map(|(it, bytes)| Some(StoredFile { name: name(it)?, bytes: *bytes }))
            .collect()
    }

    /// Records that a file was written into the session's directory, so that it is stored, unless the limit is reached.
    pub(super) fn written(&self, name: String, bytes: u64) {
        let mut state = self.state.lock();
        if state.sizes.contains_key(&name) {
            return;
        }
        let total = state.sizes.values().fold(bytes, |total, bytes| total.saturating_add(*bytes));
        if total > self.max_bytes {
            state.has_left_out = true;
            return;
        }
        state.sizes.insert(name.clone(), bytes);
        state.changes.push_back(StoredFileChange::Written(name));
    }

    /// Records that a file is no longer needed.
    pub fn removed(&self, name: String) {
        let mut state = self.state.lock();
        if state.sizes.remove(&name).is_some() {
            let written = StoredFileChange::Written(name.clone());
            state.changes.retain(|change| *change != written);
            state.changes.push_back(StoredFileChange::Removed(name));
        }
    }

    /// Returns the oldest pending change.
    pub fn next_change(&self) -> Option<StoredFileChange> {
        self.state.lock().changes.front().cloned()
    }

    /// Records that the store has a change, which is then no longer pending.
    pub fn is_stored(&self, change: &StoredFileChange) {
        let mut state = self.state.lock();
        if let Some(at) = state.changes.iter().position(|it| it == change) {
            state.changes.remove(at);
        }
    }

    /// Marks all files as pending, because the store may have lost some.
    pub fn store_again(&self) {
        let mut state = self.state.lock();
        let written: Vec<_> = state.sizes.keys().cloned().map(StoredFileChange::Written).collect();
        state.changes.retain(|change| matches!(change, StoredFileChange::Removed(_)));
        state.changes.extend(written);
    }

    /// Returns whether a file was not stored because of the size limit since the last call.
    pub fn take_left_out(&self) -> bool {
        std::mem::take(&mut self.state.lock().has_left_out)
    }

    /// Copies a file from the store into the session's directory, unless it is there.
    pub(super) async fn fetch(&self, name: &str, directory: &Path) -> io::Result<()> {
        let path = directory.join(name);
        let there = path.clone();
        if !self.contains(name)
            || off_thread(move || io::Result::Ok(there.symlink_metadata().is_ok())).await?
        {
            return Ok(());
        }
        let content = self.source.read(name, self.max_bytes).await?;
        off_thread(move || write_whole(&path, &content)).await
    }
}

/// Returns whether a name can be that of a stored file: a plain name in a known subdirectory.
fn is_name(name: &str) -> bool {
    let Some((directory, file)) = name.split_once('/') else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    [PREIMAGES_DIRECTORY, OUTPUTS_DIRECTORY].contains(&directory)
        && (1..=LONGEST_NAME).contains(&file.len())
        && !file.starts_with('.')
        && file.chars().all(is_plain)
}

/// Writes a file that only this user can read, atomically, and makes the directories above it.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut written = NamedTempFile::new_in(directory)?;
    written.write_all(content)?;
    written.persist(path).map_err(|err| err.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    #[async_trait]
    impl StoredFileSource for Nothing {
        async fn read(&self, _: &str, _: u64) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn files(names: &[&str], max_bytes: u64) -> StoredFiles {
        let file = |name: &&str| StoredFile { name: (*name).to_owned(), bytes: 10 };
        StoredFiles::new("ID", Box::new(Nothing), names.iter().map(file).collect(), max_bytes)
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_left_out() {
        let odd =
            ["a", "outputs", "outputs/", "other/a", "/outputs/a", "outputs/../a", "outputs/a/b"];
        let more = ["outputs/.a", "outputs//a", "blobs/ä", "blobs/a\0", "../outputs/a"];
        assert!(files(&odd, 99).is_empty() && files(&more, 99).is_empty());
        let names = ["blobs/0aF", "outputs/run_shell_command-1.txt"];
        let known = files(&names, 10);
        assert!(names.iter().all(|name| known.contains(name)));
        assert!(files(&names, 9).is_empty(), "larger than any may be");
    }

    #[test]
    fn a_path_is_known_by_its_end() {
        let files = files(&["outputs/a-1.txt"], 99);
        let name = |path: &str| files.name_of(Path::new(path));
        assert_eq!(name("/elsewhere/ID/outputs/a-1.txt").as_deref(), Some("outputs/a-1.txt"));
        for path in
            ["ID/outputs/a-1.txt", "/x/OTHER/outputs/a-1.txt", "/x/ID/outputs/a-2.txt", "/", ""]
        {
            assert_eq!(name(path), None, "{path}");
        }
    }

    #[test]
    fn the_store_gets_what_was_written_and_not_removed_up_to_a_limit() {
        let files = files(&["blobs/old"], 30);
        for name in ["blobs/old", "outputs/a-1.txt", "outputs/a-2.txt", "outputs/a-3.txt"] {
            files.written(name.to_owned(), 10);
        }
        assert!(files.take_left_out() && !files.take_left_out());
        assert!(!files.contains("outputs/a-3.txt"));
        files.removed("outputs/a-1.txt".to_owned());
        files.removed("outputs/a-3.txt".to_owned());
        let changes = || {
            std::iter::from_fn(|| {
                let change = files.next_change()?;
                files.is_stored(&change);
                Some(change)
            })
        };
        let written = |name: &str| StoredFileChange::Written(name.to_owned());
        let removed = StoredFileChange::Removed("outputs/a-1.txt".to_owned());
        assert!(changes().eq([written("outputs/a-2.txt"), removed]));
        // The removed files leave room for another.
        files.written("outputs/a-4.txt".to_owned(), 10);
        assert!(changes().eq([written("outputs/a-4.txt")]) && !files.take_left_out());
        files.store_again();
        assert_eq!(changes().count(), 3);
    }
}
