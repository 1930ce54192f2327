//! The write lease of a session's directory, and the writer of its log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tandem_agent::session::{Batch, Head, Holder, Secrets, StoreError, WriteLease};
use tandem_content::blocking::try_blocking;

use super::directory::{
    self, LOG_FILE, LockedLog, OWNER_FILE, SECRETS_FILE, has_head, is_same, lock, make_dir,
    write_owner,
};
use crate::backwards::Backwards;
use crate::lines::{self, FORMAT_VERSION};

/// Name of the file for incomplete lines that were cut off a log.
const TORN_LOG: &str = "log.torn";

/// Name of a rewritten log until it is complete.
const NEW_LOG: &str = "log.new.jsonl";

/// Name of the log that a rewritten log has replaced, because a part of it was lost.
const OLD_LOG: &str = "log.old.jsonl";

/// The lease of a session's directory. The lease ends with the lock on the log, which its writer holds.
pub(super) struct FileLease {
    dir: PathBuf,
    /// Writer of the log. The lock lets one write at a time change it: writes run on threads for blocking work, also
    /// after their callers were dropped.
    log: Arc<Mutex<LogWriter>>,
    next: usize,
    repaired: Option<String>,
}

/// Writer at the end of a log.
struct LogWriter {
    dir: PathBuf,
    head: Head,
    holder: Holder,
    file: LockedLog,
    /// The log that this log replaces once it has all events; locked until then.
    before: Option<LockedLog>,
    /// Bytes of the log up to the end of the last whole line.
    bytes: u64,
    /// Number of bytes that are known to be on the disk.
    synced: u64,
    /// `true` after a failed sync. The kernel may have dropped data that it had accepted, and a later sync succeeds
    /// without this data.
    lost: bool,
    /// `true` if an incomplete line may follow the last complete one.
    torn: bool,
}

impl FileLease {
    /// Creates a session's directory and its log.
    pub(super) fn create(dir: &Path, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        // The directory may exist already, with other files of the session.
        make_dir(dir)?;
        let file = new_log(dir)?;
        let begun = begin(&file, dir, head);
        let bytes = begun.inspect_err(|_| {
            // Without a head this is no session. Other files of the session may be in the directory; they stay, and
            // so does the directory.
            for name in [LOG_FILE, OWNER_FILE] {
                let _ = fs::remove_file(dir.join(name));
            }
            let _ = fs::remove_dir(dir);
        })?;
        Ok(Self::boxed(LogWriter::new(dir, head, file, bytes), 0, None))
    }

    /// Opens a session's log. Cuts off an incomplete last line, which a crash may have left.
    pub(super) fn open(dir: &Path) -> Result<Box<dyn WriteLease>, StoreError> {
        let mut options = OpenOptions::new();
        let file = lock(options.append(true).read(true).open(dir.join(LOG_FILE))?, dir)?;
        if !has_head(&file)? {
            return Err(io::Error::from(ErrorKind::NotFound).into());
        }
        // A process that was killed while it rewrote the log may have left this file. The log has the same events.
        let _ = fs::remove_file(dir.join(NEW_LOG));
        let size = file.metadata()?.len();
        let head = read_head(&file)?;
        let (end, next) = find_end(&file, size)?;
        let mut repaired = None;
        if end < size {
            cut(&file, dir, end, size)?;
            repaired = Some(format!(
                "The last write of the session was cut off. Its {} bytes are left out of the session, and are in \
                 {}.",
                size - end,
                dir.join(TORN_LOG).display()
            ));
        }
        write_owner(dir, &this_process())?;
        Ok(Self::boxed(LogWriter::new(dir, &head, file, end), next, repaired))
    }

    fn boxed(log: LogWriter, next: usize, repaired: Option<String>) -> Box<dyn WriteLease> {
        let dir = log.dir.clone();
        Box::new(Self { dir, log: Arc::new(Mutex::new(log)), next, repaired })
    }

    /// Runs a function with the log's writer on a thread for blocking work.
    async fn write(
        &self,
        write: impl FnOnce(&mut LogWriter) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let log = Arc::clone(&self.log);
        try_blocking(move || write(&mut log.lock())).await
    }
}

fn this_process() -> Holder {
    Holder { pid: std::process::id(), ..Holder::default() }
}

#[async_trait]
impl WriteLease for FileLease {
    fn next(&self) -> usize {
        self.next
    }

    fn repaired(&self) -> Option<&str> {
        self.repaired.as_deref()
    }

    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        let end = batches.last().map_or(self.next, Batch::end);
        self.write(move |log| log.append(&batches)).await?;
        self.next = end;
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        self.write(LogWriter::sync).await
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        self.write(LogWriter::renew).await?;
        self.next = 0;
        Ok(())
    }

    async fn announce(&mut self, port: u16) -> Result<(), StoreError> {
        self.write(move |log| {
            log.holder.port = Some(port);
            write_owner(&log.dir, &log.holder)
        })
        .await
    }

    async fn store_secrets(&mut self, secrets: &Secrets) -> Result<(), StoreError> {
        let (dir, secrets) = (self.dir.clone(), secrets.clone());
        try_blocking(move || Ok(write_secrets(&dir, &secrets)?)).await
    }
}

impl Drop for FileLease {
    fn drop(&mut self) {
        // This file only informs; the lock decides who owns the session.
        let _ = std::fs::remove_file(self.dir.join(OWNER_FILE));
    }
}

impl LogWriter {
    fn new(dir: &Path, head: &Head, file: LockedLog, bytes: u64) -> Self {
        let (dir, head, holder) = (dir.to_owned(), head.clone(), this_process());
        Self { dir, head, holder, file, before: None, bytes, synced: 0, lost: false, torn: false }
    }

    fn append(&mut self, batches: &[Batch]) -> Result<(), StoreError> {
        self.check()?;
        let mut bytes = Vec::new();
        for batch in batches {
            lines::write_batch(batch, &mut bytes).map_err(io::Error::from)?;
        }
        if self.torn {
            self.file.set_len(self.bytes)?;
            self.torn = false;
        }
        if let Err(err) = (&*self.file).write_all(&bytes) {
            // Half a line must not stay: the next one would be joined to it.
            self.torn = self.file.set_len(self.bytes).is_err();
            return Err(err.into());
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.check()?;
        if self.synced == self.bytes {
            return Ok(());
        }
        if let Err(err) = self.file.sync_data() {
            tracing::warn!(%err, "a log is not on the disk");
            // The kernel drops the data that it could not write, and the next sync succeeds without it.
            self.lost = true;
            return Err(StoreError::Lost(NOT_WRITTEN));
        }
        if let Some(before) = &self.before {
            put_in_place(&self.dir, before)?;
            self.before = None;
            if let Err(err) = sync_names(&self.dir) {
                tracing::warn!(%err, "the name of a log is not on the disk");
                self.lost = true;
                return Err(StoreError::Lost(NOT_WRITTEN));
            }
            write_owner(&self.dir, &self.holder)?;
        }
        self.synced = self.bytes;
        Ok(())
    }

    /// Returns an error if written data may not reach the disk, or not under the log's name.
    fn check(&self) -> Result<(), StoreError> {
        if self.lost {
            return Err(StoreError::Lost(NOT_WRITTEN));
        }
        // A deleted file still accepts writes, but its data is gone when the process ends.
        if self.file.metadata()?.nlink() == 0 {
            return Err(StoreError::Lost("its file was removed"));
        }
        Ok(())
    }

    /// Starts a rewrite of the log, in a file beside the log. `sync` replaces the log with it.
    fn renew(&mut self) -> Result<(), StoreError> {
        make_dir(&self.dir)?;
        let path = self.dir.join(NEW_LOG);
        // An earlier attempt that failed may have left this file.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let file = options.append(true).read(true).create_new(true).mode(0o600).open(path)?;
        let file = LockedLog::new(file)?;
        let line = lines::write_head(&self.head).map_err(io::Error::from)?;
        (&*file).write_all(&line)?;
        let before = std::mem::replace(&mut self.file, file);
        self.before.get_or_insert(before);
        (self.bytes, self.synced) = (line.len() as u64, 0);
        (self.lost, self.torn) = (false, false);
        Ok(())
    }
}

/// Error text for a log that exists, but of which a part was lost.
const NOT_WRITTEN: &str = "the disk could not write it";

/// Replaces the stored secrets of a session. If this fails, the old secrets stay.
fn write_secrets(dir: &Path, secrets: &Secrets) -> io::Result<()> {
    let (path, new) = (dir.join(SECRETS_FILE), dir.join(SECRETS_FILE.to_owned() + ".new"));
    if secrets.is_empty() {
        return match fs::remove_file(path) {
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(secrets)?)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    File::open(dir)?.sync_all()
}

/// Replaces the log by the rewritten one, which must be complete and on the disk. `before` is the log that the
/// rewrite began with.
fn put_in_place(dir: &Path, before: &File) -> Result<(), StoreError> {
    let log = dir.join(LOG_FILE);
    let _other = match File::open(&log) {
        Ok(file) if is_same(before, &file.metadata()?)? => None,
        // Another process has put this log there, and may add to it.
        Ok(file) => Some(lock(file, dir)?),
        Err(err) if err.kind() == ErrorKind::NotFound => None,
        Err(err) => return Err(err.into()),
    };
    // The old log may have events that could not be read, or that a person wants back.
    let _ = fs::remove_file(dir.join(OLD_LOG));
    let _ = fs::hard_link(&log, dir.join(OLD_LOG));
    Ok(fs::rename(dir.join(NEW_LOG), &log)?)
}

/// Syncs the directories of a session's files. Without this, a loss of power could remove the names of the files
/// although their contents were synced.
fn sync_names(dir: &Path) -> io::Result<()> {
    for dir in [Some(dir), dir.parent()].into_iter().flatten() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Creates the log of a session and takes its lock. An existing log without a head is used again: it is left from a
/// process that was killed before the session began.
fn new_log(dir: &Path) -> Result<LockedLog, StoreError> {
    let mut options = OpenOptions::new();
    let options = options.append(true).read(true).mode(0o600);
    let path = dir.join(LOG_FILE);
    let file = match options.clone().create_new(true).open(&path) {
        Err(err) if err.kind() == ErrorKind::AlreadyExists => options.open(&path)?,
        file => file?,
    };
    // Until the lock is taken, another process may take this log for one that was left behind, and own it.
    let file = lock(file, dir)?;
    if has_head(&file)? {
        return Err(io::Error::from(ErrorKind::AlreadyExists).into());
    }
    file.set_len(0)?;
    Ok(file)
}

/// Writes the head of a new log; returns its length in bytes.
fn begin(mut file: &File, dir: &Path, head: &Head) -> Result<u64, StoreError> {
    write_owner(dir, &this_process())?;
    let line = lines::write_head(head).map_err(io::Error::from)?;
    file.write_all(&line)?;
    sync_names(dir)?;
    Ok(line.len() as u64)
}

/// Finds the end of the last complete line that can be read; returns it with the index after the line's last event.
fn find_end(file: &File, size: u64) -> Result<(u64, usize), StoreError> {
    let mut lines = Backwards::new(file, size);
    while let Some(line) = lines.next()? {
        let end = line.start + line.bytes.len() as u64;
        if line.start == 0 {
            return Ok((end, 0));
        }
        if let (true, Ok(next)) = (line.is_whole(), lines::batch_end(&line.bytes)) {
            return Ok((end, next));
        }
    }
    Err(StoreError::Invalid("its log is empty".to_owned()))
}

/// Reads the head of a log that this program may add to.
fn read_head(file: &File) -> Result<Head, StoreError> {
    let file = file.try_clone()?;
    // A cloned file shares its position with the original. The head is read from this position; appending does not
    // use it.
    io::Seek::rewind(&mut &file)?;
    let size = file.metadata()?.len();
    let mut log = io::BufReader::new(io::Read::take(file, size));
    let (version, head) = directory::read_head(&mut log)?;
    if version > FORMAT_VERSION { Err(StoreError::Newer(version)) } else { Ok(head) }
}

/// Moves the bytes after the last complete line to the end of the file [`TORN_LOG`].
fn cut(file: &File, dir: &Path, end: u64, size: u64) -> io::Result<()> {
    let mut torn = vec![0; usize::try_from(size - end).map_err(io::Error::other)?];
    file.read_exact_at(&mut torn, end)?;
    let mut options = OpenOptions::new();
    let mut kept = options.append(true).create(true).mode(0o600).open(dir.join(TORN_LOG))?;
    kept.write_all(&torn)?;
    kept.write_all(b"\n")?;
    kept.sync_all()?;
    file.set_len(end)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn after_a_failure_to_reach_the_disk_no_success_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let json = r#"{"id":"0199f2c4-0000-7000-8000-000000000001","t":1}"#;
        let head = serde_json::from_str(json).unwrap();
        // A pipe can be written to, but not synced.
        let (_reader, pipe) = io::pipe().unwrap();
        let file = LockedLog::new(File::from(OwnedFd::from(pipe))).unwrap();
        let mut log = LogWriter::new(dir.path(), &head, file, 1);
        let batch = [Batch { first: 0, ..Batch::default() }];
        log.append(&batch).unwrap();
        for _ in 0..2 {
            assert!(matches!(log.sync(), Err(StoreError::Lost(_))));
            assert!(matches!(log.append(&batch), Err(StoreError::Lost(_))));
        }
        log.renew().unwrap();
        log.append(&batch).unwrap();
        assert!(!dir.path().join(LOG_FILE).exists());
        log.sync().unwrap();
        let written = fs::read_to_string(dir.path().join(LOG_FILE)).unwrap();
        assert_eq!(written.lines().count(), 2);
    }
}
