//! Sessions as files. Each session has a directory with its log, the file that names its owner, and its other files.

mod directory;
mod lease;
mod list;

use std::fs::File;
use std::future;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::stream::{self, StreamExt as _};
use tandem_agent::session::{
    Head, Listed, Millis, Orphan, Query, Secrets, SharedStore, Store, StoreError, Stored,
    StoredLog, WriteLease, find_orphans,
};
use tandem_content::blocking::try_blocking;
use tokio::sync::mpsc;

use self::directory::{
    LOG_FILE, LONGEST_LINE, LockedLog, LogFile, OWNER_FILE, SECRETS_FILE, lock, not_found_as, open,
    read_head, read_head_or_first_event, session_id, store_id,
};
use self::lease::FileLease;
use crate::lines;

/// Prefix of the name of a directory that is being deleted.
const TRASH_PREFIX: &str = ".trash-";

/// Name of the directory of sessions that are not complete yet. The name is no id, so lists leave the sessions out.
const STAGING_DIRECTORY: &str = ".staging";

/// Number of bytes of lines at which a piece is handed to the reader.
const PIECE_BYTES: usize = 256 << 10;

/// A store of sessions as files below one directory.
#[derive(Debug, Clone)]
pub struct FileStore {
    root: PathBuf,
}

impl FileStore {
    /// Returns a store in a directory, which need not exist. Files are read and made later.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Opens the log of a session, up to its present end: JSON Lines, the head first. The last line may be
    /// incomplete, and is not left out.
    pub fn log(&self, id: &str) -> Result<impl io::Read + use<>, StoreError> {
        open(&self.session(id)?, id)
    }

    /// Returns the size of a session with all of its files, in bytes. A file that the session shares with copies of
    /// it counts for each of them. Walks the directory on the disk.
    pub fn size(&self, id: &str) -> Result<u64, StoreError> {
        Ok(list::size(&self.session(id)?))
    }

    /// Returns a store for sessions that are not complete yet. No list of this store has them until [`Self::publish`]
    /// moves them here.
    #[must_use]
    pub fn staging(&self) -> Self {
        Self { root: self.root.join(STAGING_DIRECTORY) }
    }

    /// Moves a complete session, which no process has open, from [`Self::staging`] into this store as a whole.
    /// `changed` becomes the time of the session's last change. Fails if this store has the session already.
    pub async fn publish(&self, id: &str, changed: Millis) -> Result<(), StoreError> {
        let (root, from, to) = (self.root.clone(), self.staging().session(id)?, self.session(id)?);
        let since = Duration::from_millis(u64::try_from(changed).unwrap_or(0));
        try_blocking(move || {
            let log = File::options().append(true).open(from.join(LOG_FILE))?;
            log.set_modified(UNIX_EPOCH + since)?;
            // `rename` fails if the target is a directory with files, so no stored session is replaced.
            std::fs::rename(from, to)?;
            // A loss of power could undo a rename whose directory is not synced.
            File::open(root)?.sync_all()?;
            Ok(())
        })
        .await
    }

    /// Returns the directory of a session. Only a UUID is an id: no other text becomes part of a path.
    fn session(&self, id: &str) -> Result<PathBuf, StoreError> {
        match session_id(id) {
            Some(_) => Ok(self.root.join(id)),
            None => Err(StoreError::NotFound(id.to_owned())),
        }
    }
}

#[async_trait]
impl Store for FileStore {
    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        let (dir, head) = (self.session(&head.id)?, head.clone());
        try_blocking(move || FileLease::create(&dir, &head)).await
    }

    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        let (dir, id) = (self.session(id)?, id.to_owned());
        try_blocking(move || FileLease::open(&dir).map_err(not_found_as(&id))).await
    }

    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        self.acquire(&orphan.id).await
    }

    async fn is_held(&self, id: &str) -> Result<bool, StoreError> {
        let (dir, id) = (self.session(id)?, id.to_owned());
        try_blocking(move || {
            let log = File::open(dir.join(LOG_FILE))
                .map_err(StoreError::Io)
                .map_err(not_found_as(&id))?;
            Ok(LockedLog::shared(log)?.is_none())
        })
        .await
    }

    async fn id(&self) -> Result<String, StoreError> {
        let root = self.root.clone();
        try_blocking(move || Ok(store_id(&root)?)).await
    }

    async fn head(&self, id: &str) -> Result<Head, StoreError> {
        let (dir, id) = (self.session(id)?, id.to_owned());
        try_blocking(move || read_head_or_first_event(&mut open(&dir, &id)?, &id)).await
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        let (dir, id) = (self.session(id)?, id.to_owned());
        let log = try_blocking(move || {
            let mut log = open(&dir, &id)?;
            if let Err(err) = read_head(&mut log) {
                read_head_or_first_event(&mut open(&dir, &id)?, &id).map_err(|_| err)?;
                // `read_pieces` reads the damaged first line again, as if the line held events, so that the user learns
                // of the damage.
                return Ok((open(&dir, &id)?, 0));
            }
            Ok::<_, StoreError>((log, 1))
        });
        let (log, lines_read) = log.await?;
        // The channel holds two pieces, so that reading goes on while the consumer handles the pieces before.
        let (pieces, read) = mpsc::channel(2);
        tokio::task::spawn_blocking(move || read_pieces(log, lines_read, &pieces));
        Ok(stream::unfold(read, async |mut read| Some((read.recv().await?, read))).boxed())
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        find_orphans(self).await
    }

    async fn orphaned(&self) {
        // No process watches the sessions of others here: a session that a killed process leaves waits until a
        // process opens it.
        future::pending::<()>().await;
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        let root = self.root.clone();
        try_blocking(move || {
            let ids = list::ids(&root)?.map(|id| id.as_hyphenated().to_string());
            // A process that closes a session removes this file, so a file that is still there is of an open session
            // or of a killed process.
            Ok(ids.filter(|id| root.join(id).join(OWNER_FILE).exists()).collect())
        })
        .await
    }

    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError> {
        let path = self.session(id)?.join(SECRETS_FILE);
        try_blocking(move || match File::open(path) {
            Ok(file) => {
                let file = BufReader::new(file.take(LONGEST_LINE));
                Ok(serde_json::from_reader(file).map_err(io::Error::from)?)
            }
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(Secrets::new()),
            Err(err) => Err(err.into()),
        })
        .await
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        let (root, query) = (self.root.clone(), query.clone());
        try_blocking(move || list::list(&root, &query)).await
    }

    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        let (dir, id, lower) = (self.session(id)?, id.to_owned(), lines::escaped(lower));
        try_blocking(move || {
            let (mut log, mut line, mut said) = (open(&dir, &id)?, Vec::new(), Vec::new());
            while log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
                lines::add_said(&line, &mut said);
                line.clear();
            }
            Ok(String::from_utf8_lossy(&said).to_lowercase().contains(&lower))
        })
        .await
    }

    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        let (root, dir, id) = (self.root.clone(), self.session(id)?, id.to_owned());
        try_blocking(move || {
            let log = File::open(dir.join(LOG_FILE))
                .map_err(StoreError::Io)
                .map_err(not_found_as(&id))?;
            let _log = lock(log, &dir)?;
            // In two steps, so that a deletion that is cut off leaves no half session in the list.
            let trash = root.join(format!("{TRASH_PREFIX}{id}"));
            std::fs::rename(&dir, &trash)?;
            std::fs::remove_dir_all(&trash)?;
            Ok(())
        })
        .await
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    fn directory(&self, id: &str) -> Option<PathBuf> {
        self.session(id).ok()
    }
}

/// Reads the remaining lines, and sends them in pieces until the end or until the receiver is dropped.
fn read_pieces(
    mut log: LogFile,
    lines_read: usize,
    pieces: &mpsc::Sender<Result<Vec<Stored>, StoreError>>,
) {
    let (mut number, mut line) = (lines_read, Vec::new());
    loop {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while bytes < PIECE_BYTES {
            number += 1;
            line.clear();
            match log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(read) => bytes += read,
                Err(err) => {
                    let _ = pieces.blocking_send(Err(err.into()));
                    return;
                }
            }
            piece.extend(read_line(&line, number));
        }
        if piece.is_empty() && bytes == 0 {
            return;
        }
        if pieces.blocking_send(Ok(piece)).is_err() {
            return;
        }
    }
}

fn read_line(line: &[u8], number: usize) -> Option<Stored> {
    // The owner may be writing this line. If the owner is dead, the next lease of the session cuts the line off.
    if !line.ends_with(b"\n") || line.trim_ascii().is_empty() {
        return None;
    }
    match lines::read_batch(line) {
        Ok(batch) => Some(Stored::Batch(batch)),
        Err(err) => Some(Stored::Damaged(format!("line {number}: {err}"))),
    }
}
