//! Contents of files before tools changed them, stored under their hashes, so that a change can be undone.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::files::Files;
use super::off_thread::off_thread;
use super::scratch::Scratch;
use super::stored_files::{PREIMAGES_DIRECTORY, write_whole};
use parking_lot::Mutex;

/// A change of a file by a tool, with the data to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Content before the change.
    pub before: Preimage,
    /// Content after the change; that of an empty file if the file is removed.
    pub after: ContentId,
    /// `true` if the tool removes the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removes: bool,
    /// Directories that the tool makes for the file.
    #[serde(default)]
    pub directories: Vec<PathBuf>,
}

impl FileChange {
    /// Returns whether the file has the content from before the change: the change was never made, or was undone.
    /// Returns `false` if that content is not known.
    pub async fn is_absent(&self, files: &dyn Files) -> bool {
        let most = match &self.before {
            Preimage::Nothing => 0,
            Preimage::Kept(id) => id.bytes,
            Preimage::Lost(_) => return false,
        };
        match (files.read(&self.path, most).await, &self.before) {
            (Ok(now), Preimage::Kept(id)) => ContentId::hash(&now) == *id,
            (Err(error), Preimage::Nothing) => error.is_file_not_found(),
            _ => false,
        }
    }
}

/// Content before a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preimage {
    /// The file did not exist.
    Nothing,
    /// The file existed; its content is stored.
    Kept(ContentId),
    /// The file existed; the reason why its content could not be stored.
    Lost(String),
}

/// Identity of a content: contents with the same identity are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentId {
    /// SHA-256, in hexadecimal.
    sha256: String,
    /// Size of the content, in bytes.
    bytes: u64,
}

impl ContentId {
    /// Returns the beginning of the hash, which distinguishes a few contents.
    pub(super) fn short(&self) -> &str {
        self.sha256.get(..16).unwrap_or(&self.sha256)
    }

    /// Returns the identity of a content.
    pub fn hash(content: &[u8]) -> Self {
        let hash = digest(&SHA256, content);
        // In hexadecimal, as the hash is also the file's name in the store.
        let hex = |hex: String, byte: &u8| hex + &format!("{byte:02x}");
        let sha256 = hash.as_ref().iter().fold(String::new(), hex);
        Self { sha256, bytes: content.len() as u64 }
    }

    /// Returns the content's SHA-256, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns a UUID (version 8) that only this content has.
    pub fn to_uuid(&self) -> Uuid {
        let half = self.sha256.get(..32).and_then(|half| u128::from_str_radix(half, 16).ok());
        Uuid::new_v8(half.unwrap_or_default().to_be_bytes())
    }
}

/// Reasons not to undo a change, as clauses that follow the file's name.
const REMOVED_SINCE: &str = "has been removed since";
const CHANGED_SINCE: &str = "has been changed since, by somebody else";
const MADE_AGAIN: &str = "has been made again since, by somebody else";

/// The stored contents of one session.
pub struct Preimages {
    scratch: Arc<Scratch>,
    /// Number of bytes that may still be stored. The bytes that an earlier process has stored are counted at first use.
    /// The lock is also held while a content is written, so that two writes do not exceed the limit together.
    left: Mutex<Option<u64>>,
    max: u64,
}

impl Preimages {
    /// Returns a store of at most `max` bytes.
    pub fn new(scratch: Arc<Scratch>, max: u64) -> Self {
        Self { scratch, left: Mutex::default(), max }
    }

    /// Stores the content from before a change, if there is room.
    pub fn save(&self, content: Option<&[u8]>) -> Preimage {
        let Some(content) = content else { return Preimage::Nothing };
        let id = ContentId::hash(content);
        match self.put(&id, content) {
            Ok(()) => Preimage::Kept(id),
            Err(why) => {
                tracing::warn!("a file's content is not kept: {why}");
                Preimage::Lost(why)
            }
        }
    }

    fn put(&self, id: &ContentId, content: &[u8]) -> Result<(), String> {
        if self.max == 0 {
            return Err("undo is turned off".to_owned());
        }
        let mut left = self.left.lock();
        let (name, stored) = (name(id), self.scratch.stored_files());
        let directory = self.scratch.dir().map_err(|err| err.to_string())?;
        let file = directory.join(&name);
        if file.exists() || stored.is_some_and(|stored| stored.contains(&name)) {
            return Ok(());
        }
        let used = || match stored {
            Some(stored) => {
                stored.in_directory(PREIMAGES_DIRECTORY).iter().map(|file| file.bytes).sum()
            }
            None => size(&directory.join(PREIMAGES_DIRECTORY)),
        };
        let left = left.get_or_insert_with(|| self.max.saturating_sub(used()));
        let Some(remains) = left.checked_sub(id.bytes) else {
            return Err(format!(
                "more than {} bytes would be stored (`--limit undo-bytes=N` allows more)",
                self.max
            ));
        };
        write_whole(&file, content).map_err(|err| err.to_string())?;
        *left = remains;
        if let Some(stored) = stored {
            stored.written(name, id.bytes);
        }
        Ok(())
    }

    async fn get(&self, id: &ContentId) -> Result<Vec<u8>, String> {
        let file = self.scratch.fetch(&name(id)).await.map_err(|err| err.to_string())?;
        let content = off_thread(move || fs::read(file)).await;
        let content = content.map_err(|err| err.to_string())?;
        if ContentId::hash(&content) == *id { Ok(content) } else { Err("it is damaged".to_owned()) }
    }

    /// Undoes a change, if the file is exactly as the change left it. The error says why the file was not touched, as a
    /// clause that follows the file's name.
    pub async fn restore(&self, change: &FileChange, files: &dyn Files) -> Result<(), String> {
        let FileChange { path, before, after, removes, .. } = change;
        let now = match files.read(path, after.bytes).await {
            Ok(now) if ContentId::hash(&now) == *after && !removes => Some(now),
            Err(error) if error.is_file_not_found() && *removes => None,
            Err(error) if error.is_file_not_found() => return Err(REMOVED_SINCE.to_owned()),
            _ if *removes => return Err(MADE_AGAIN.to_owned()),
            _ => return Err(CHANGED_SINCE.to_owned()),
        };
        match before {
            Preimage::Nothing => match files.remove(path, now.as_deref().unwrap_or_default()).await
            {
                Ok(true) => Ok(()),
                Ok(false) => Err(CHANGED_SINCE.to_owned()),
                Err(err) if err.kind() == ErrorKind::NotFound => Err(REMOVED_SINCE.to_owned()),
                Err(err) => Err(format!("cannot be removed: {err}")),
            },
            Preimage::Kept(id) => {
                let lost =
                    |why| format!("cannot be put back: its earlier content cannot be read: {why}");
                let then = self.get(id).await.map_err(lost)?;
                let written =
                    files.write(path, now.as_deref(), &then, &CancellationToken::new()).await;
                written.map(drop).map_err(|error| format!("cannot be put back: {}", error.message))
            }
            Preimage::Lost(why) => {
                Err(format!("cannot be put back: its earlier content was not stored: {why}"))
            }
        }
    }
}

/// Returns the name of a content's file in the session's directory.
fn name(id: &ContentId) -> String {
    format!("{PREIMAGES_DIRECTORY}/{}", id.sha256)
}

/// Returns the number of bytes of the files in a directory, which need not exist.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::Host;
    use crate::limits::ToolLimits;
    use crate::terminals::{EnvironmentFilter, Supervisor, Terminals};
    use crate::workspace::Workspace;
    use test_support::exchange::Exchange;

    /// Number of rounds. If the code followed links, some of this number of rounds would write outside.
    const ROUNDS: usize = 500;

    #[tokio::test]
    async fn nothing_outside_is_restored_while_a_directory_and_a_link_change_places() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("ws"), dir.path().join("outside"));
        for directory in [&root.join("sub"), &outside] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("file"), "after").unwrap();
        }
        symlink(&outside, root.join("link")).unwrap();
        let terminals = Terminals::new(&Supervisor::new(), EnvironmentFilter::default());
        let workspace = Workspace::new(&root, &[]).unwrap();
        let host = Host::new(workspace, terminals, Scratch::new(None), ToolLimits::default());
        let change = FileChange {
            path: host.workspace.root().join("sub/file"),
            before: host.preimages.save(Some(b"before")),
            after: ContentId::hash(b"after"),
            removes: false,
            directories: Vec::new(),
        };
        let exchange = Exchange::of(&root.join("sub"), &root.join("link"));
        let files = &*host.files;
        for _ in 0..ROUNDS {
            if host.preimages.restore(&change, files).await.is_err() {
                continue;
            }
            let cancel = CancellationToken::new();
            let again = || files.write(&change.path, Some(b"before"), b"after", &cancel);
            while again().await.is_err() && fs::read(outside.join("file")).unwrap() == b"after" {}
        }
        exchange.end();
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"after");
        host.preimages.restore(&change, files).await.unwrap();
        assert_eq!(fs::read(root.join("sub/file")).unwrap(), b"before");
    }
}
