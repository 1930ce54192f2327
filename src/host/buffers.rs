//! Text files as an editor has them open, with unsaved changes.

use std::path::Path;

use futures::future::BoxFuture;

/// Text files of an editor. Its answers are not trusted: they are compared with the files on the disk.
pub trait TextBuffers: Send + Sync {
    /// Returns `true` if a file is in a directory that the editor has open.
    fn cover(&self, path: &Path) -> bool;

    /// Returns `true` if the editor also writes files.
    fn takes_writes(&self) -> bool;

    /// Asks for a file's text as the editor has it; `None` if the editor does not have the file. Dropping the future
    /// withdraws the request.
    fn read(&self, path: &Path) -> BoxFuture<'static, Option<String>>;

    /// Asks the editor to put a text into a file and save it. The error says why it was not saved.
    fn write(&self, path: &Path, text: &str) -> BoxFuture<'static, Result<(), String>>;
}
