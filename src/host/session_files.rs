//! Files of a session: those on the disk, overlaid with the unsaved texts of an editor.
//!
//! An unsaved text of an editor counts as the content of the file: it is read, and edits start from it. The editor
//! writes the edits, if it takes writes. The disk is used for files that the editor does not have or for which it does
//! not answer in time, and for files that it cannot have: because they are not UTF-8, too large, or outside its
//! directories.

mod buffer_state;
mod open_editor;

use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use self::buffer_state::without_mark;
pub use self::open_editor::{BuffersGuard, OpenEditors};
use self::open_editor::{FileView, OpenEditor};
use super::command_times::CommandTimes;
use super::disk::{self, Disk};
use super::files::{FileKind, Files, UNCONFIRMED_KIND, changed, too_large};
use super::limits::ToolLimits;
use super::off_thread::off_thread;
use super::output::ToolError;
use super::workspace::Workspace;

/// Files of a session.
pub(super) struct SessionFiles {
    workspace: Arc<Workspace>,
    disk: Disk,
    commands: Arc<CommandTimes>,
    limits: EditorLimits,
    editors: Arc<OpenEditors>,
}

/// Limits of requests to an editor.
#[derive(Clone, Copy)]
struct EditorLimits {
    file_bytes: u64,
    editor_bytes: u64,
    time: Duration,
}

impl SessionFiles {
    /// Returns the files of a session.
    pub(super) fn new(
        workspace: Arc<Workspace>,
        disk: Disk,
        commands: Arc<CommandTimes>,
        editors: Arc<OpenEditors>,
        limits: &ToolLimits,
    ) -> Self {
        let ToolLimits { file_bytes, editor_bytes, editor_time: time, .. } = *limits;
        let limits = EditorLimits { file_bytes, editor_bytes, time };
        Self { workspace, disk, commands, limits, editors }
    }

    /// Returns the editor to ask about a file.
    fn editor(&self, path: &Path) -> Option<Arc<OpenEditor>> {
        let editor = self.editors.last()?;
        let is_inside = self.workspace.contains(path) && editor.buffers.cover(path);
        (is_inside && !editor.is_silent()).then_some(editor)
    }

    /// Reads a file of at most `max` bytes from the disk and from an editor.
    async fn read_view(
        &self,
        editor: &Arc<OpenEditor>,
        path: &Path,
        max: u64,
    ) -> Result<FileView, ToolError> {
        // Only the text that counts must fit into `max`, and it is not known yet which one counts.
        let most = max.max(self.limits.file_bytes);
        let saved = match self.disk.read(path, most).await {
            Err(error) if error.is_file_not_found() => None,
            saved => Some(saved?),
        };
        let view = self.compare(editor, path, saved).await?;
        match view.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64) {
            size if size > max => Err(too_large(path, size, max)),
            _ => Ok(view),
        }
    }

    /// Asks an editor for a file's text, and compares it with the content on the disk.
    async fn compare(
        &self,
        editor: &Arc<OpenEditor>,
        path: &Path,
        saved: Option<Vec<u8>>,
    ) -> Result<FileView, ToolError> {
        if saved.as_ref().is_some_and(|saved| !self.may_be_edited(saved)) {
            return Ok(FileView::of_disk(saved));
        }
        let Some(buffer) = editor.read(path, self.limits.time).await else {
            return Ok(FileView::of_disk(saved));
        };
        let (editor, path, commands) =
            (Arc::clone(editor), path.to_owned(), Arc::clone(&self.commands));
        off_thread(move || Ok(editor.view(&path, saved, buffer, &commands))).await
    }

    /// Returns whether an editor may have a file with this content open.
    fn may_be_edited(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 <= self.limits.editor_bytes
            && memchr::memchr(0, bytes).is_none()
            && str::from_utf8(bytes).is_ok()
    }

    /// Asks the editor to write a file, whose directory exists.
    async fn write_there(
        &self,
        editor: &Arc<OpenEditor>,
        path: &Path,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<Result<(), String>, ToolError> {
        let write = editor.buffers.write(path, text);
        let written = cancel.run_until_cancelled(editor.in_time(self.limits.time, write)).await;
        let written = written.ok_or_else(ToolError::cancelled)?;
        written.ok_or_else(|| unconfirmed(path, "has not answered in time"))
    }

    /// Checks a file after an editor has written it. Returns the content if it is not `new`.
    async fn written(
        &self,
        editor: &Arc<OpenEditor>,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
    ) -> Result<Option<Vec<u8>>, ToolError> {
        if self.disk.read(path, new.len() as u64).await.is_ok_and(|now| now == new) {
            editor.note_written(path, new);
            return Ok(None);
        }
        let now = self.read_view(editor, path, self.limits.file_bytes).await?.bytes;
        match now {
            Some(now) if now == new => Ok(None),
            now if now.as_deref() == old => Err(unconfirmed(path, "has not written it")),
            Some(now) => Ok(Some(now)),
            None => Err(unconfirmed(path, "has removed it")),
        }
    }
}

#[async_trait]
impl Files for SessionFiles {
    async fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let kind = self.disk.kind(path).await;
        let is_missing = kind.as_ref().is_err_and(|err| err.kind() == io::ErrorKind::NotFound);
        match self.editor(path).filter(|_| is_missing) {
            Some(editor) => match self.read_view(&editor, path, self.limits.file_bytes).await {
                Ok(FileView { bytes: Some(_), .. }) => Ok(FileKind::File),
                _ => kind,
            },
            None => kind,
        }
    }

    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
        let Some(editor) = self.editor(path) else { return self.disk.read(path, max).await };
        let bytes = self.read_view(&editor, path, max).await?.bytes;
        bytes.ok_or_else(|| disk::not_found(path))
    }

    async fn check_writable(&self, path: &Path) -> Result<(), ToolError> {
        let is_missing = |err: io::Error| err.kind() == io::ErrorKind::NotFound;
        if !self.disk.kind(path).await.is_err_and(is_missing) {
            self.disk.check_writable(path).await?;
        }
        match self.editor(path) {
            Some(editor) => editor.check_writable(path, editor.state(path)),
            None => Ok(()),
        }
    }

    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        self.disk.missing_directories(path).await
    }

    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let Some(editor) = self.editor(path) else {
            return self.disk.write(path, old, new, cancel).await;
        };
        // 1. Checks that the file, as the editor or the disk has it, still is `old`.
        // 2. Lets the disk write a content that the editor cannot have, or if the editor takes no writes.
        // 3. Makes the missing directories, asks the editor to write, and checks the result.
        // 4. Removes the made directories if that has failed.
        let look = self.read_view(&editor, path, self.limits.file_bytes);
        let view = cancel.run_until_cancelled(look).await;
        let view = view.ok_or_else(ToolError::cancelled)?.map_err(|_| changed(path))?;
        editor.check_writable(path, view.state)?;
        if view.bytes.as_deref() != old {
            return Err(changed(path));
        }
        let text = str::from_utf8(new).ok().filter(|_| {
            let old_may_be = old.is_none_or(|old| self.may_be_edited(old));
            editor.buffers.takes_writes() && old_may_be && self.may_be_edited(new)
        });
        let Some(text) = text else {
            let written = self.disk.write(path, old, new, cancel).await?;
            editor.note_written(path, new);
            return Ok(written);
        };
        if view.is_on_disk {
            self.disk.check_writable(path).await?;
        }
        let made = self.disk.make_directories(path).await?;
        let text = without_mark(text, view.buffer.as_deref());
        let written = match self.write_there(&editor, path, text, cancel).await {
            Ok(Ok(())) => self.written(&editor, path, old, new).await,
            // The user may have refused the change in the editor.
            Ok(Err(why)) => Err(refused(path, &why)),
            Err(error) => Err(error),
        };
        if written.is_err() {
            self.disk.remove_directories(made).await;
        }
        written
    }

    async fn create(
        &self,
        path: &Path,
        content: &[u8],
        permissions: Permissions,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let editor = self.editor(path);
        if let Some(editor) = &editor {
            let look = self.read_view(editor, path, self.limits.file_bytes);
            let view = cancel.run_until_cancelled(look).await;
            let view = view.ok_or_else(ToolError::cancelled)?.map_err(|_| changed(path))?;
            editor.check_writable(path, view.state)?;
            if view.bytes.is_some() {
                return Err(changed(path));
            }
        }
        // An editor cannot give a file permissions, so the disk makes the file.
        self.disk.create(path, content, permissions, cancel).await?;
        if let Some(editor) = &editor {
            editor.note_written(path, content);
        }
        Ok(())
    }

    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool> {
        let Some(editor) = self.editor(path) else { return self.disk.remove(path, expected).await };
        let view = self.read_view(&editor, path, expected.len() as u64).await;
        let Some(view) = view.ok().filter(|view| view.bytes.as_deref() == Some(expected)) else {
            return Ok(false);
        };
        if view.is_on_disk {
            return self.disk.remove(path, expected).await;
        }
        // A file that only the editor has is saved as an empty file first, and that file is removed.
        let emptied = self.write_there(&editor, path, "", &CancellationToken::new()).await;
        emptied.map_err(io::Error::other)?.map_err(io::Error::other)?;
        self.disk.remove(path, b"").await
    }

    async fn permissions(&self, path: &Path) -> io::Result<Permissions> {
        self.disk.permissions(path).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_directory(path).await
    }
}

/// Returns the error for a file if it is not known whether the editor has written it.
fn unconfirmed(path: &Path, what: &str) -> ToolError {
    let message = format!(
        "The editor was asked to write {} and {what}. Read the file to see what is in it.",
        path.display()
    );
    ToolError::new(UNCONFIRMED_KIND, message)
}

/// Returns the error for a file that the editor has refused to write.
fn refused(path: &Path, why: &str) -> ToolError {
    let path = path.display();
    let message = format!("The editor refused to write {path}: {why}. Nothing was written.");
    ToolError::new("file_write_failure", message)
}
