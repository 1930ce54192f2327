//! An editor that a session is open in, with the last known states of its files.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::buffer_state::{BufferState, LastRead, as_saved, compare, plain};
use crate::buffers::TextBuffers;
use crate::command_times::CommandTimes;
use crate::files::unsaved;
use crate::output::ToolError;

/// Maximum number of files whose last known states are remembered.
const MAX_REMEMBERED_FILES: usize = 4096;

/// The editors that have the session open. The texts of the editor that joined last are used.
#[derive(Default)]
pub struct OpenEditors(Mutex<Vec<Arc<OpenEditor>>>);

impl OpenEditors {
    /// Adds an editor, whose texts are used before those of others until the guard is dropped.
    pub fn join(self: &Arc<Self>, buffers: Arc<dyn TextBuffers>) -> BuffersGuard {
        let editor = Arc::new(OpenEditor {
            buffers,
            reads: Mutex::default(),
            hasher: RandomState::new(),
            overdue: AtomicUsize::new(0),
        });
        let guard = BuffersGuard { editors: Arc::downgrade(self), editor: Arc::downgrade(&editor) };
        self.0.lock().push(editor);
        guard
    }

    /// Returns the editor whose texts are used.
    pub(super) fn last(&self) -> Option<Arc<OpenEditor>> {
        self.0.lock().last().cloned()
    }
}

/// An editor that the session is open in.
pub(super) struct OpenEditor {
    pub(super) buffers: Arc<dyn TextBuffers>,
    /// Last known states of files, by path. The lock is held while a file's texts are compared.
    reads: Mutex<HashMap<PathBuf, LastRead>>,
    hasher: RandomState,
    /// Number of requests that the editor has not answered in time and that are still open. While there are any, it
    /// gets no others.
    overdue: AtomicUsize,
}

/// Guard of an editor's membership: the editor's texts are used until it is dropped.
pub struct BuffersGuard {
    editors: Weak<OpenEditors>,
    editor: Weak<OpenEditor>,
}

impl Drop for BuffersGuard {
    fn drop(&mut self) {
        if let Some(editors) = self.editors.upgrade() {
            editors.0.lock().retain(|editor| Arc::as_ptr(editor) != self.editor.as_ptr());
        }
    }
}

/// State and content of a file, as decided from the disk and the editor.
pub(super) struct FileView {
    /// Content that counts; `None` if there is no such file.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) state: BufferState,
    /// `true` if there is a file on the disk.
    pub(super) is_on_disk: bool,
    /// The editor's text, if the editor was asked and has the file.
    pub(super) buffer: Option<String>,
}

impl FileView {
    /// Returns the view of a file that no editor has.
    pub(super) fn of_disk(bytes: Option<Vec<u8>>) -> Self {
        let (state, is_on_disk) = (BufferState::Saved, bytes.is_some());
        Self { bytes, state, is_on_disk, buffer: None }
    }
}

impl OpenEditor {
    /// Returns `true` if the editor must not be asked now, as it owes an answer.
    pub(super) fn is_silent(&self) -> bool {
        self.overdue.load(Ordering::Relaxed) > 0
    }

    /// Asks the editor for a file's text.
    pub(super) async fn read(self: &Arc<Self>, path: &Path, limit: Duration) -> Option<String> {
        self.in_time(limit, self.buffers.read(path)).await.flatten()
    }

    /// Waits for an answer; `None` if it does not come in time. The request then stays open and counts as overdue until
    /// it is answered.
    pub(super) async fn in_time<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        mut answer: BoxFuture<'static, T>,
    ) -> Option<T> {
        if let Ok(answer) = timeout(limit, &mut answer).await {
            return Some(answer);
        }
        tracing::warn!("the editor has not answered in {limit:?}: files are those on the disk");
        self.overdue.fetch_add(1, Ordering::Relaxed);
        let editor = Arc::clone(self);
        tokio::spawn(async move {
            drop(answer.await);
            editor.overdue.fetch_sub(1, Ordering::Relaxed);
        });
        None
    }

    fn hash(&self, text: &str) -> u64 {
        self.hasher.hash_one(&*plain(text))
    }

    /// Decides which text of a file counts, and remembers the state. Blocks.
    pub(super) fn view(
        &self,
        path: &Path,
        bytes: Option<Vec<u8>>,
        buffer: String,
        commands: &CommandTimes,
    ) -> FileView {
        let text = bytes.as_deref().map(|bytes| str::from_utf8(bytes).unwrap_or_default());
        // Some editors answer with an empty text for a file that does not exist.
        if text.is_none() && buffer.is_empty() {
            return FileView::of_disk(bytes);
        }
        let (saved, hash) = (text.map(|text| self.hash(text)), self.hash(&buffer));
        let mut reads = self.reads.lock();
        let last = reads.get(path).copied();
        let by_command = || status_change(path).is_some_and(|at| commands.cover(at));
        let state = compare(saved, hash, last.as_ref(), by_command);
        let read = match state {
            BufferState::Saved => LastRead { synced: saved, saved, state },
            // A conflict lasts until the file and the editor's text are equal.
            BufferState::Conflicting => {
                LastRead { state, ..last.unwrap_or(LastRead { synced: None, saved: None, state }) }
            }
            _ => LastRead { synced: last.and_then(|last| last.synced), saved, state },
        };
        if reads.len() == MAX_REMEMBERED_FILES && last.is_none() {
            reads.clear();
        }
        reads.insert(path.to_owned(), read);
        drop(reads);
        let is_on_disk = bytes.is_some();
        let bytes = match state {
            BufferState::Unsaved => Some(as_saved(text.unwrap_or_default(), &buffer).into_bytes()),
            _ => bytes,
        };
        FileView { bytes, state, is_on_disk, buffer: Some(buffer) }
    }

    /// Records the content `new` that the session has written to a file on the disk. A later comparison with the
    /// editor's text does not take the write for a change by a command.
    pub(super) fn note_written(&self, path: &Path, new: &[u8]) {
        let saved = str::from_utf8(new).ok().map(|new| self.hash(new));
        if let Some(read) = self.reads.lock().get_mut(path) {
            (read.saved, read.state) = (saved, BufferState::Saved);
        }
    }

    /// Returns the last known state of a file.
    pub(super) fn state(&self, path: &Path) -> BufferState {
        self.reads.lock().get(path).map_or(BufferState::Saved, |read| read.state)
    }

    /// Returns an error if an edit would lose a person's unsaved changes.
    pub(super) fn check_writable(&self, path: &Path, state: BufferState) -> Result<(), ToolError> {
        match state {
            BufferState::Conflicting => Err(unsaved(path, "and a command has changed the file")),
            BufferState::Unsaved if !self.buffers.takes_writes() => {
                Err(unsaved(path, "which takes no changes from agents"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the time of the last change of a file's status (`ctime`). Unlike the time of the last change of the content,
/// a program cannot set it.
fn status_change(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    let seconds = Duration::from_secs(metadata.ctime().try_into().ok()?);
    let nanos = Duration::from_nanos(metadata.ctime_nsec().try_into().ok()?);
    Some(SystemTime::UNIX_EPOCH + seconds + nanos)
}
