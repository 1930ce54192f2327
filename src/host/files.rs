//! Contents of files: they are read up to a limit, and written completely or not at all.
//!
//! Tools reach them through [`Files`]. A session's implementation is `SessionFiles`, which asks an editor with unsaved
//! changes, and otherwise the [`Disk`](super::disk::Disk). The tree that the files are in (names, links, times, ignore
//! files, the lines that a search finds) is always that of the disk: see [`Workspace`](super::workspace::Workspace).

use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::output::ToolError;

/// Access to contents of files. Paths are real paths that the workspace has resolved, or paths of stored outputs.
///
/// An operation that has begun continues to its end if its future is dropped.
#[async_trait]
pub trait Files: Send + Sync {
    /// Returns the kind of the file at a path. Links are followed.
    async fn kind(&self, path: &Path) -> io::Result<FileKind>;

    /// Returns the content of a regular file of at most `max` bytes. The error's kind is `file_not_found` if the file
    /// does not exist.
    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError>;

    /// Returns an error if an existing file is protected from writes. This program could still replace the file if the
    /// directory is writable; but a user who makes a file read-only wants to protect the content.
    async fn check_writable(&self, path: &Path) -> Result<(), ToolError>;

    /// Returns the missing directories that a write of a new file would make, the innermost first.
    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError>;

    /// Replaces the content `old` of a file by `new`. With `None` for `old`, no file must exist yet; missing
    /// directories are made. A file that has changed meanwhile is not touched, and no program sees half of the content.
    /// Returns the resulting content if it is not `new`: an editor may change a file as it saves it. After an error
    /// other than [`UNCONFIRMED_KIND`], the file is unchanged.
    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError>;

    /// Makes a new file with these permissions, and the missing directories. No program sees the content before the file
    /// has the permissions.
    async fn create(
        &self,
        path: &Path,
        content: &[u8],
        permissions: Permissions,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError>;

    /// Removes a file. Returns `false`, and leaves the file, if its content is not `expected`.
    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool>;

    /// Returns the permissions of a file on the disk.
    async fn permissions(&self, path: &Path) -> io::Result<Permissions>;

    /// Removes an empty directory.
    async fn remove_directory(&self, path: &Path) -> io::Result<()>;
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A device, a pipe or a socket.
    Other,
}

/// Kind of the error for a file if it is not known whether it was written.
pub const UNCONFIRMED_KIND: &str = "write_unconfirmed";

/// Returns the error for a file of more than `max` bytes.
pub fn too_large(path: &Path, size: u64, max: u64) -> ToolError {
    let message = format!("{}: {size} bytes are more than the limit of {max}.", path.display());
    ToolError::new("file_too_large", message)
}

/// Returns the error for a file that now lies behind a link.
pub fn moved(path: &Path) -> ToolError {
    let message = format!(
        "{} is behind a link that was made after this call began; the file was left alone. Try again.",
        path.display()
    );
    ToolError::new("file_changed", message)
}

/// Returns the error for a file whose content is no longer the content that a change was made for.
pub fn changed(path: &Path) -> ToolError {
    let message = format!(
        "{} has changed since this edit was prepared; nothing was written. Read the file again with read_file, \
         then try again.",
        path.display()
    );
    ToolError::new("file_changed", message)
}

/// Returns the error for a file with unsaved changes that an edit would lose. `why` continues the sentence after "in
/// the editor, ".
pub(super) fn unsaved(path: &Path, why: &str) -> ToolError {
    let message = format!(
        "{} has unsaved changes in the editor, {why}; nothing was written. Ask the user to save or \
         discard them, then read the file again.",
        path.display()
    );
    ToolError::new("unsaved_changes", message)
}
