//! Text files as an editor has them open: with changes that are not saved yet.

use std::path::Path;

use futures::future::BoxFuture;

/// Text files of an editor. Nothing that it answers is trusted: files on the disk are looked at, too.
pub trait TextBuffers: Send + Sync {
    /// Returns `true` if a file is in a directory that the editor has open.
    fn cover(&self, path: &Path) -> bool;

    /// Returns `true` if the editor also writes files.
    fn takes_writes(&self) -> bool;

    /// Asks for a file's text as the editor has it; `None` if the editor does not have the file. The
    /// request is withdrawn when the future is dropped.
    fn read(&self, path: &Path) -> BoxFuture<'static, Option<String>>;

    /// Has the editor put a text into a file and save it. The error says why it has not.
    fn write(&self, path: &Path, text: &str) -> BoxFuture<'static, Result<(), String>>;
}
