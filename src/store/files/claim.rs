//! A session's files, open for writing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tandem_agent::session::{Batch, Claim, Head, Holder, StoreError};

use super::{LOG, OWNER, blocking, lock, make_dir, write_owner};
use crate::backwards::Backwards;
use crate::lines::{self, VERSION};

/// Name of the file that takes what is cut off a torn log.
const TORN: &str = "log.torn";

/// The claim of a session's directory. The lock on the log goes with it.
pub(super) struct FileClaim {
    dir: PathBuf,
    log: Arc<Mutex<LogWriter>>,
    next: usize,
    repaired: Option<String>,
}

/// The end of a log.
struct LogWriter {
    file: File,
    /// Bytes of the log up to the end of the last whole line.
    bytes: u64,
    /// Bytes that are known to be on the disk.
    synced: u64,
    /// Set when the disk has lost data that it had accepted: what it says afterwards means nothing.
    lost: bool,
    /// `true` if half a line may be behind the last whole one.
    torn: bool,
}

impl FileClaim {
    /// Makes a session's directory and its log.
    pub(super) fn create(
        root: &Path,
        dir: &Path,
        head: &Head,
    ) -> Result<Box<dyn Claim>, StoreError> {
        // Files of the session may be there already.
        make_dir(dir)?;
        let mut options = OpenOptions::new();
        let options = options.append(true).read(true).create_new(true).mode(0o600);
        let file = options.open(dir.join(LOG))?;
        let begun = begin(&file, root, dir, head);
        let bytes = begun.inspect_err(|_| {
            // Without its head it is no session. Files of it may be there, and stay.
            for name in [LOG, OWNER] {
                let _ = fs::remove_file(dir.join(name));
            }
            let _ = fs::remove_dir(dir);
        })?;
        Ok(Self::boxed(dir, file, bytes, 0, None))
    }

    /// Opens a session's log, and cuts off what an unclean end has left of a line.
    pub(super) fn open(dir: &Path) -> Result<Box<dyn Claim>, StoreError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).read(true).open(dir.join(LOG))?;
        lock(&file, dir)?;
        let size = file.metadata()?.len();
        let (end, next) = find_end(&file, size)?;
        let mut repaired = None;
        if end < size {
            cut(&file, dir, end, size)?;
            repaired = Some(format!(
                "The last {} bytes of the session were not written to their end, and are left out; they are in {}.",
                size - end,
                dir.join(TORN).display()
            ));
        }
        write_owner(dir, &Holder { pid: std::process::id(), port: None })?;
        Ok(Self::boxed(dir, file, end, next, repaired))
    }

    fn boxed(
        dir: &Path,
        file: File,
        bytes: u64,
        next: usize,
        repaired: Option<String>,
    ) -> Box<dyn Claim> {
        let log = LogWriter { file, bytes, synced: 0, lost: false, torn: false };
        Box::new(Self { dir: dir.to_owned(), log: Arc::new(Mutex::new(log)), next, repaired })
    }
}

#[async_trait]
impl Claim for FileClaim {
    fn next(&self) -> usize {
        self.next
    }

    fn repaired(&self) -> Option<&str> {
        self.repaired.as_deref()
    }

    async fn append(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        let end = batches.last().map_or(self.next, Batch::end);
        let log = Arc::clone(&self.log);
        blocking(move || Ok(log.lock().append(&batches)?)).await?;
        self.next = end;
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        let log = Arc::clone(&self.log);
        blocking(move || Ok(log.lock().sync()?)).await
    }

    async fn announce(&mut self, holder: &Holder) -> Result<(), StoreError> {
        let (dir, holder) = (self.dir.clone(), holder.clone());
        blocking(move || write_owner(&dir, &holder)).await
    }
}

impl Drop for FileClaim {
    fn drop(&mut self) {
        // Only for people who look: the lock alone counts.
        let _ = std::fs::remove_file(self.dir.join(OWNER));
    }
}

impl LogWriter {
    fn append(&mut self, batches: &[Batch]) -> io::Result<()> {
        self.check()?;
        // A file without a name takes everything, and is gone with the process.
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(ErrorKind::NotFound, "somebody has removed its file"));
        }
        let mut bytes = Vec::new();
        for batch in batches {
            lines::write_batch(batch, &mut bytes)?;
        }
        if self.torn {
            self.file.set_len(self.bytes)?;
            self.torn = false;
        }
        if let Err(err) = self.file.write_all(&bytes) {
            // Half a line must not stay: the next one would be joined to it.
            self.torn = self.file.set_len(self.bytes).is_err();
            return Err(err);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.check()?;
        if self.synced == self.bytes {
            return Ok(());
        }
        // After a failure the kernel forgets what it could not write, and the next call succeeds.
        self.file.sync_data().inspect_err(|_| self.lost = true)?;
        self.synced = self.bytes;
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        if self.lost {
            return Err(io::Error::other("the disk has lost a part of the session"));
        }
        Ok(())
    }
}

/// Takes the lock of a new log and writes its head; returns the bytes of that.
fn begin(mut file: &File, root: &Path, dir: &Path, head: &Head) -> Result<u64, StoreError> {
    lock(file, dir)?;
    write_owner(dir, &Holder { pid: std::process::id(), port: None })?;
    let line = lines::write_head(head).map_err(io::Error::from)?;
    file.write_all(&line)?;
    // Else a loss of power could take the files' names, however often their contents are synced.
    for dir in [dir, root] {
        File::open(dir)?.sync_all()?;
    }
    Ok(line.len() as u64)
}

/// Finds the end of the last line that was written whole, and the index after its last event.
fn find_end(file: &File, size: u64) -> Result<(u64, usize), StoreError> {
    let mut lines = Backwards::new(file, size);
    while let Some(line) = lines.next()? {
        let end = line.start + line.bytes.len() as u64;
        if line.start == 0 {
            let (version, _) = lines::read_head(&line.bytes)
                .map_err(|err| StoreError::Invalid(format!("its first line: {err}")))?;
            check_version(version)?;
            return Ok((end, 0));
        }
        if let (true, Ok(next)) = (line.is_whole(), lines::batch_end(&line.bytes)) {
            check_version(head_version(file)?)?;
            return Ok((end, next));
        }
    }
    Err(StoreError::Invalid("its log is empty".to_owned()))
}

fn check_version(version: u32) -> Result<(), StoreError> {
    if version > VERSION { Err(StoreError::Newer(version)) } else { Ok(()) }
}

fn head_version(file: &File) -> Result<u32, StoreError> {
    let file = file.try_clone()?;
    // A clone shares the position, from which the head is read; appending does not use it.
    io::Seek::rewind(&mut &file)?;
    let size = file.metadata()?.len();
    let mut log = io::BufReader::new(io::Read::take(file, size));
    Ok(super::read_head(&mut log)?.0)
}

/// Moves what is behind the last whole line into a file of its own.
fn cut(file: &File, dir: &Path, end: u64, size: u64) -> io::Result<()> {
    let mut torn = vec![0; usize::try_from(size - end).map_err(io::Error::other)?];
    file.read_exact_at(&mut torn, end)?;
    let mut options = OpenOptions::new();
    let mut kept = options.append(true).create(true).mode(0o600).open(dir.join(TORN))?;
    kept.write_all(&torn)?;
    kept.write_all(b"\n")?;
    kept.sync_all()?;
    file.set_len(end)
}
