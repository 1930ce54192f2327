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
pub(super) const LOG_FILE: &str = "log.jsonl";

/// Name of the file that names the process that has the session open.
pub(super) const OWNER_FILE: &str = "owner.json";

/// Name of the file with the session's secrets, which must not be in the log.
pub(super) const SECRETS_FILE: &str = "secrets.json";

/// Name of the file with the id of the store.
const STORE_ID: &str = ".store-id";

/// Maximum length of the first line, in bytes: more than the longest path needs.
const MAX_HEAD: u64 = 1 << 20;

/// Maximum length of a line, in bytes: more than a batch with the longest result of any tool needs.
pub(super) const LONGEST_LINE: u64 = 1 << 30;

/// Number of attempts to lock a log that other processes lock only for a moment, and the time between two.
const LOCK_ATTEMPTS: usize = 100;
const LOCK_WAIT: Duration = Duration::from_millis(1);

/// Turns the error for a missing file into [`StoreError::NotFound`] with the session's id.
pub(super) fn not_found_as(id: &str) -> impl Fn(StoreError) -> StoreError {
    move |err| match err {
        StoreError::Io(err) if err.kind() == ErrorKind::NotFound => {
            StoreError::NotFound(id.to_owned())
        }
        err => err,
    }
}

/// Creates a directory that only this user can enter, and its missing parents.
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
                // The log's owner may have put another log in its place after this one was opened.
                if is_same(&log, &std::fs::metadata(dir.join(LOG_FILE))?)? {
                    return Ok(log);
                }
                break;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(err)) => return Err(err.into()),
        }
        // An owner's lock is exclusive. A process that only checks for an owner holds a shared lock for a moment, and
        // is waited for.
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

/// Returns `true` if the metadata describes this file.
pub(super) fn is_same(file: &File, other: &Metadata) -> io::Result<bool> {
    let file = file.metadata()?;
    Ok((file.dev(), file.ino()) == (other.dev(), other.ino()))
}

/// Reads the owner file of a session; returns a holder without a process id if it cannot be read.
pub(super) fn read_owner(dir: &Path) -> Holder {
    let mut json = Vec::new();
    let read =
        File::open(dir.join(OWNER_FILE)).and_then(|file| file.take(4096).read_to_end(&mut json));
    read.ok().and_then(|_| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// Writes the owner file of a session.
pub(super) fn write_owner(dir: &Path, owner: &Holder) -> Result<(), StoreError> {
    let json = serde_json::to_vec(owner).map_err(io::Error::from)?;
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(true).mode(0o600).open(dir.join(OWNER_FILE));
    Ok(file?.write_all(&json)?)
}

/// A log that is read from its beginning up to its length when it was opened: the owner may be appending to it.
pub(super) type LogFile = BufReader<io::Take<File>>;

/// Opens the log of a session for reading, at its first line.
pub(super) fn open(dir: &Path, id: &str) -> Result<LogFile, StoreError> {
    let file = File::open(dir.join(LOG_FILE)).map_err(StoreError::Io).map_err(not_found_as(id))?;
    if !has_head(&file)? {
        return Err(StoreError::NotFound(id.to_owned()));
    }
    let size = file.metadata()?.len();
    Ok(BufReader::with_capacity(64 << 10, file.take(size)))
}

/// Returns `true` if a log has a first line, damaged or not: without one, the session has never begun. Does not move
/// the position in the file.
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
    // No head is so long, so the first line is damaged; but the session has begun.
    Ok(true)
}

/// Reads the head, which is the first line; also returns the version of the lines' format.
pub(super) fn read_head(log: &mut LogFile) -> Result<(u32, Head), StoreError> {
    let mut line = Vec::new();
    log.by_ref().take(MAX_HEAD).read_until(b'\n', &mut line)?;
    lines::read_head(&line).map_err(|err| StoreError::Invalid(format!("its first line: {err}")))
}

/// Reads the head of a session for a caller that only reads. If the head is damaged, makes one of the name of the
/// directory and of the first event.
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
    // The session's owner was in the damaged line. A session without an owner is shown to the user of the machine
    // alone.
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

/// Returns the UUID in a name; `None` if the name is not a UUID in the spelling of ids (hyphens, lower case).
pub(super) fn session_id(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name).ok().filter(|uuid| uuid.as_hyphenated().to_string() == name)
}

/// Returns the id of the store in a directory. A store without an id gets a new id.
pub(super) fn store_id(root: &Path) -> io::Result<String> {
    let path = root.join(STORE_ID);
    if !path.exists() {
        make_dir(root)?;
        let (id, new) = (Uuid::new_v4(), root.join(format!("{STORE_ID}-{}", Uuid::new_v4())));
        let written = File::create_new(&new).and_then(|mut file| {
            file.write_all(id.to_string().as_bytes())?;
            file.sync_all()
        });
        // The link makes the complete file appear at once. If two processes do this at the same time, the first one's
        // id counts.
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
