//! Files that an editor has open with changes that are not saved: tools take what is in the editor.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tandem_tools::Host;
use tandem_tools::disk::Disk;
use tandem_tools::files::{FileKind, Files};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fakes::host_with;

/// An editor's unsaved buffers, by path; every other file is the disk's.
#[derive(Default)]
struct Editor {
    buffers: Mutex<HashMap<PathBuf, Vec<u8>>>,
}

impl Editor {
    fn buffer(&self, path: &Path) -> Option<Vec<u8>> {
        self.buffers.lock().unwrap().get(path).cloned()
    }
}

#[async_trait]
impl Files for Editor {
    async fn kind(&self, path: &Path) -> io::Result<FileKind> {
        match self.buffer(path) {
            Some(_) => Ok(FileKind::File),
            None => Disk.kind(path).await,
        }
    }

    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
        match self.buffer(path) {
            Some(buffer) => Ok(buffer),
            None => Disk.read(path, max).await,
        }
    }

    async fn check_writable(&self, _: &Path) -> Result<(), ToolError> {
        Ok(())
    }

    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        Disk.missing_directories(path).await
    }

    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        if self.buffer(path).is_none() {
            return Disk.write(path, old, new, cancel).await;
        }
        assert_eq!(self.buffer(path).as_deref(), old);
        self.buffers.lock().unwrap().insert(path.to_owned(), new.to_vec());
        Ok(())
    }

    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool> {
        Disk.remove(path, expected).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        Disk.remove_directory(path).await
    }
}

/// A workspace in which `a.txt` says `saved`, and an editor that has `unsaved` in its place.
fn in_editor() -> (Place, Arc<Editor>) {
    let mut place = Place::new(&[("a.txt", b"saved\n")]);
    let editor = Arc::<Editor>::default();
    editor.buffers.lock().unwrap().insert(place.path("a.txt"), b"unsaved\n".to_vec());
    let workspace = Workspace::new(place.cx.host.workspace.root(), &[]).unwrap();
    let files = Arc::clone(&editor);
    place.cx.host = Arc::new(Host { files, ..host_with(workspace, ToolLimits::default()) });
    (place, editor)
}

#[test]
fn a_read_gives_the_model_what_is_in_the_editor() {
    let (place, _) = in_editor();
    let args = json!({ "file_path": "a.txt" });
    assert_eq!(place.call("read_file", args).unwrap().text, "unsaved\n");
    let read = place.call("read_many_files", json!({ "include": ["a.txt"] })).unwrap().text;
    assert_eq!(read, "--- a.txt ---\n\nunsaved\n\n\n--- End of content ---");
}

#[test]
fn an_edit_changes_what_is_in_the_editor_and_leaves_the_disk_to_it() {
    let (place, editor) = in_editor();
    let output = place.call("replace", replace_args("unsaved", "edited")).unwrap();
    assert_eq!(shown(&output), (Some("unsaved\n"), "edited\n"));
    place.call("write_file", write_args("written\n")).unwrap();
    assert_eq!(editor.buffer(&place.path("a.txt")).unwrap(), b"written\n");
    assert_eq!(place.read("a.txt"), b"saved\n");
}

#[test]
fn a_file_that_is_only_in_the_editor_can_be_read() {
    let (place, editor) = in_editor();
    editor.buffers.lock().unwrap().insert(place.path("new.txt"), b"new\n".to_vec());
    let args = json!({ "file_path": "new.txt" });
    assert_eq!(place.call("read_file", args).unwrap().text, "new\n");
}
