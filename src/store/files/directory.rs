//! A session's directory: the names of its files, the log's first line and lock, and its owner.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use tandem_agent::session::{Event, Head, Holder, StoreError};
use uuid::Uuid;

use crate::lines;

/// Name of the log in a session's directory.
pub(super) const LOG: &str = "log.jsonl";

/// Name of the file that says which process has the session open.
pub(super) const OWNER: &str = "owner.json";

/// Name of the file with what must not be in the log.
pub(super) const SECRETS: &str = "secrets.json";

/// Name of the file with the id of the store.
const STORE_ID: &str = ".store-id";

/// Longest first line that is read, in bytes: as long as a path can be, and more.
const MAX_HEAD: u64 = 1 << 20;

/// Longest line that is read, in bytes: longer than any batch with any tool's longest result.
pub(super) const LONGEST_LINE: u64 = 1 << 30;

/// Number of attempts to lock a log that others only look at, and the time between two.
const LOCK_ATTEMPTS: usize = 100;
const LOCK_WAIT: Duration = Duration::from_millis(1);

/// Runs work on the disk off the runtime's thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StoreError::Io(io::Error::other("the agent is ending"))))
}

/// Names the session in an error that says that its file is missing.
pub(super) fn named(id: &str) -> impl Fn(StoreError) -> StoreError {
    move |err| match err {
        StoreError::Io(err) if err.kind() == ErrorKind::NotFound => {
            StoreError::NotFound(id.to_owned())
        }
        err => err,
    }
}

/// Makes a directory that only this user can enter, with those above it.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Takes the log's lock, which goes with the process. The log itself is locked, not a file beside it:
/// a lock file that somebody deletes would lock nothing.
pub(super) fn lock(log: File, dir: &Path) -> Result<LockedLog, StoreError> {
    for _ in 0..LOCK_ATTEMPTS {
        match log.try_lock() {
            Ok(()) => {
                let log = LockedLog(log);
                // Its owner may have put another in its place after this one was opened.
                if is_same(&log, &std::fs::metadata(dir.join(LOG))?)? {
                    return Ok(log);
                }
                break;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(err)) => return Err(err.into()),
        }
        // An owner shares the lock with nobody. Who only looks whether there is one does, for a moment.
        match log.try_lock_shared() {
            Ok(()) => log.unlock()?,
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(err)) => return Err(err.into()),
        }
        std::thread::sleep(LOCK_WAIT);
    }
    let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(StoreError::Held(id, read_owner(dir)))
}

/// A log that this process has locked, until the value is dropped.
///
/// Closing the file would not be enough: a child that is just being started has the file, too, until the child runs
/// its program.
pub(super) struct LockedLog(File);

impl LockedLog {
    /// Locks a log that no other process knows yet.
    pub(super) fn new(log: File) -> io::Result<Self> {
        log.try_lock()?;
        Ok(Self(log))
    }

    /// Locks a log together with others that only look whether the log has an owner; `None` if the log has one.
    pub(super) fn shared(log: File) -> io::Result<Option<Self>> {
        match log.try_lock_shared() {
            Ok(()) => Ok(Some(Self(log))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }
}

impl Deref for LockedLog {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedLog {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Returns whether a file is the one that was looked at.
pub(super) fn is_same(file: &File, other: &Metadata) -> io::Result<bool> {
    let file = file.metadata()?;
    Ok((file.dev(), file.ino()) == (other.dev(), other.ino()))
}

/// Reads who has a session open; without a number if that cannot be read.
pub(super) fn read_owner(dir: &Path) -> Holder {
    let mut json = Vec::new();
    let read = File::open(dir.join(OWNER)).and_then(|file| file.take(4096).read_to_end(&mut json));
    read.ok().and_then(|_| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

pub(super) fn write_owner(dir: &Path, owner: &Holder) -> Result<(), StoreError> {
    let json = serde_json::to_vec(owner).map_err(io::Error::from)?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(dir.join(OWNER));
    Ok(file?.write_all(&json)?)
}

/// A log that is read from its beginning, up to what it had when it was opened: its owner may be
/// writing more.
pub(super) type LogFile = BufReader<io::Take<File>>;

pub(super) fn open(dir: &Path, id: &str) -> Result<LogFile, StoreError> {
    let file = File::open(dir.join(LOG)).map_err(StoreError::Io).map_err(named(id))?;
    if !has_head(&file)? {
        return Err(StoreError::NotFound(id.to_owned()));
    }
    let size = file.metadata()?.len();
    Ok(BufReader::with_capacity(64 << 10, file.take(size)))
}

/// Returns whether a log has a first line, damaged or not: without one the session has never begun. The position in the
/// file stays.
pub(super) fn has_head(log: &File) -> io::Result<bool> {
    let mut piece = [0; 4096];
    let mut at = 0;
    while at < MAX_HEAD {
        let read = log.read_at(&mut piece, at)?;
        if read == 0 {
            return Ok(false);
        }
        if memchr::memchr(b'\n', &piece[..read]).is_some() {
            return Ok(true);
        }
        at += read as u64;
    }
    // The first line is damaged, as none is so long; the session has begun.
    Ok(true)
}

/// Reads the head, which is the first line; also returns the version of the framing.
pub(super) fn read_head(log: &mut LogFile) -> Result<(u32, Head), StoreError> {
    let mut line = Vec::new();
    log.by_ref().take(MAX_HEAD).read_until(b'\n', &mut line)?;
    lines::read_head(&line).map_err(|err| StoreError::Invalid(format!("its first line: {err}")))
}

/// Reads the head of a session for whoever only looks at it. In the place of a damaged one, describes the session by
/// the name of its directory and by its first event.
pub(super) fn read_head_or_first_event(log: &mut LogFile, id: &str) -> Result<Head, StoreError> {
    let damage = match read_head(log) {
        Ok((_, head)) => return Ok(head),
        Err(StoreError::Invalid(why)) => why,
        Err(err) => return Err(err),
    };
    let mut line = Vec::new();
    log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    let batch = lines::read_batch(&line);
    let first = batch.ok().and_then(|batch| batch.events.into_iter().next());
    let Some((created, event)) = first else { return Err(StoreError::Invalid(damage)) };
    let (directory, by) = match &*event {
        Event::SessionStarted(started) => (started.directory.clone(), started.by.clone()),
        _ => Default::default(),
    };
    // The owner was in the damaged line. A session without one is shown to the user of the machine alone.
    Ok(Head {
        id: id.to_owned(),
        created,
        directory,
        title: format!("{id} (its first line is damaged)"),
        by,
        served: false,
        owner: None,
        context: None,
        from: None,
        git: None,
        tag: None,
    })
}

/// Returns the UUID that is written so, in the one way in which ids are written.
pub(super) fn session_id(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name).ok().filter(|uuid| uuid.as_hyphenated().to_string() == name)
}

/// Returns the id of the sessions in a directory, which gets one if it has none.
pub(super) fn store_id(root: &Path) -> io::Result<String> {
    let path = root.join(STORE_ID);
    if !path.exists() {
        make_dir(root)?;
        let (id, new) = (Uuid::new_v4(), root.join(format!("{STORE_ID}-{}", Uuid::new_v4())));
        let written = File::create_new(&new).and_then(|mut file| {
            file.write_all(id.to_string().as_bytes())?;
            file.sync_all()
        });
        // As a whole; of two processes that give it one at the same time, the first counts.
        let linked = written.and_then(|()| std::fs::hard_link(&new, &path));
        std::fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    let id = std::fs::read_to_string(path)?;
    match session_id(&id) {
        Some(_) => Ok(id),
        None => Err(io::Error::other(format!("`{STORE_ID}` is damaged; delete it"))),
    }
}
