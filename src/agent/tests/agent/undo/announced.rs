//! Changes that were announced and then not made, or cut off: they do not prevent an undo of earlier changes.

use std::fs;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use tandem_host::ToolError;
use tandem_host::disk::Disk;
use tandem_host::files::{FileKind, Files};
use tokio_util::sync::CancellationToken;

use super::*;

/// A disk on which a write fails if its content is one of a few fixed words.
struct FaultyDisk(Disk);

#[async_trait]
impl Files for FaultyDisk {
    async fn kind(&self, path: &Path) -> io::Result<FileKind> {
        self.0.kind(path).await
    }

    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
        self.0.read(path, max).await
    }

    async fn check_writable(&self, path: &Path) -> Result<(), ToolError> {
        self.0.check_writable(path).await
    }

    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        self.0.missing_directories(path).await
    }

    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        match new {
            b"full\n" => return Err(ToolError::new("no_space_left", "the disk is full")),
            b"cut off before\n" => {}
            b"cut off after\n" => _ = self.0.write(path, old, new, cancel).await?,
            _ => return self.0.write(path, old, new, cancel).await,
        }
        cancel.cancel();
        Err(ToolError::cancelled())
    }

    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool> {
        self.0.remove(path, expected).await
    }

    async fn permissions(&self, path: &Path) -> io::Result<fs::Permissions> {
        self.0.permissions(path).await
    }

    async fn create(
        &self,
        path: &Path,
        content: &[u8],
        permissions: fs::Permissions,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        self.0.create(path, content, permissions, cancel).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path).await
    }
}

/// Returns a session in which `w1` has written `one` to `a`, and then `w2` writes `content` there.
async fn stage(content: &str) -> Stage {
    let answers = vec![writes(&[("w1", "a", "one\n")]), writes(&[("w2", "a", content)])];
    let stage = Stage::with(answers, |mut parts| {
        let workspace = Workspace::new(parts.host.workspace.root(), &[]).unwrap();
        let host = host_with(workspace, ToolLimits::default());
        parts.host = Host { files: Arc::new(FaultyDisk(host.disk.clone())), ..host };
        parts
    });
    stage.write("a", "zero\n");
    stage.say("first").await;
    stage.say("second").await;
    let mut log = stage.session.events(0);
    let announced = |event: &Arc<Event>| matches!(&**event, Event::FileChanged { .. });
    assert_eq!(std::iter::from_fn(|| log.try_next()).filter(announced).count(), 2);
    stage
}

#[tokio::test]
async fn a_failed_change_is_not_listed_and_hides_none_that_is_older() {
    let stage = stage("full\n").await;
    assert!(!stage.say("/restore").await.contains("w2"));
    assert!(stage.say("/restore w2").await.starts_with("Unknown change."));
    assert!(stage.say("/restore w1").await.starts_with("- `a` is as it was before `w1`\n"));
    assert_eq!(stage.read("a").unwrap(), "zero\n");
}

#[tokio::test]
async fn a_change_that_was_cut_off_before_it_was_made_hides_none_that_is_older() {
    let stage = stage("cut off before\n").await;
    let said = stage.say("/restore w2").await;
    assert_eq!(said, "- `a` was left alone (`w2`): the file is as it was before the call\n");
    assert_eq!(stage.read("a").unwrap(), "one\n");
    assert!(stage.say("/restore w1").await.starts_with("- `a` is as it was before `w1`\n"));
    assert_eq!(stage.read("a").unwrap(), "zero\n");
}

#[tokio::test]
async fn a_change_that_was_cut_off_after_it_was_made_is_taken_back() {
    let stage = stage("cut off after\n").await;
    let said = stage.say("/restore w1").await;
    assert!(said.contains("has been changed again by `w2`"), "{said}");
    assert!(stage.say("/restore w2").await.starts_with("- `a` is as it was before `w2`\n"));
    assert_eq!(stage.read("a").unwrap(), "one\n");
}
