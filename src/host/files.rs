//! Contents of files: read up to a limit, written whole or not at all.
//!
//! Tools reach them through [`Files`]: a session's are `SessionFiles`, which asks
//! an editor with unsaved changes, and else the [`Disk`](super::disk::Disk). The tree that the files are in (names, links,
//! ages, ignore files, the lines that a search hits) is always the disk's: see
//! [`Workspace`](super::workspace::Workspace).

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::output::ToolError;

/// Contents of files. Paths are real ones that the workspace has resolved, or those of kept output.
///
/// An operation that has begun goes on to its end when its future is dropped.
#[async_trait]
pub trait Files: Send + Sync {
    /// Returns what is at a path, links followed.
    async fn kind(&self, path: &Path) -> io::Result<FileKind>;

    /// Returns all bytes of a regular file of at most `max` bytes. The error's kind is
    /// `file_not_found` if there is none.
    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError>;

    /// Returns an error if a file that exists may not be written. It could be replaced in any case;
    /// but who protects a file means its content.
    async fn check_writable(&self, path: &Path) -> Result<(), ToolError>;

    /// Returns the directories that a write of a new file would make on the way, those above the
    /// others last.
    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError>;

    /// Writes `new` where `old` is (`None`: where no file is yet; directories on the way are made).
    /// What has changed meanwhile is left alone, and nobody sees half of it. Returns what is there
    /// then, if that is not `new`: an editor may change a file as it saves it. After an error that is
    /// not [`UNCONFIRMED`], the file is as it was.
    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError>;

    /// Removes a file. Returns `false`, and leaves the file alone, if its content is not
    /// `expected`.
    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool>;

    /// Removes a directory that is empty.
    async fn remove_directory(&self, path: &Path) -> io::Result<()>;
}

/// Kind of what is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a pipe or a socket.
    Other,
}

/// Kind of the error for a file of which is not known if it was written.
pub const UNCONFIRMED: &str = "write_unconfirmed";

/// Returns the error for a file of more than `max` bytes.
pub fn too_large(path: &Path, size: u64, max: u64) -> ToolError {
    let message = format!("{}: {size} bytes are more than the limit of {max}.", path.display());
    ToolError::new("file_too_large", message)
}

/// Returns the error for a file that is somewhere else by now.
pub fn moved(path: &Path) -> ToolError {
    let message = format!(
        "{} is behind a link that was not there when this call began; it was left alone. Try again.",
        path.display()
    );
    ToolError::new("file_changed", message)
}

/// Returns the error for a file that is not what the change was made for.
pub(super) fn changed(path: &Path) -> ToolError {
    let message = format!(
        "{} has changed since this change was worked out; nothing was written. Read it again \
         with read_file, then try again.",
        path.display()
    );
    ToolError::new("file_changed", message)
}

/// Returns the error for a file with unsaved changes that an edit would lose; `why` goes on after "in the
/// editor, ".
pub(super) fn unsaved(path: &Path, why: &str) -> ToolError {
    let message = format!(
        "{} has unsaved changes in the editor, {why}; nothing was written. Ask the user to save or \
         discard them, then read the file again.",
        path.display()
    );
    ToolError::new("unsaved_changes", message)
}
