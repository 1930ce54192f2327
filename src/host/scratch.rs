//! A session's own directory, made when the first file is put into it. It is removed with the session, or stays if the
//! session is stored.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::stored_files::StoredFiles;
use parking_lot::Mutex;

/// Prefix of the names of these directories, before a random part.
const SESSION_PREFIX: &str = "session-";

/// Name of a file in each directory that is locked as long as the session lives.
const LOCK_FILE: &str = "lock";

/// Minimum age of a directory before it is checked for a living session: a directory is made and locked in two steps,
/// and must not be removed between them.
const MIN_SETTLED_AGE: Duration = Duration::from_secs(10);

/// A session's directory, which only this user can read. The lock guards the making of the directory.
pub struct Scratch {
    place: ScratchPlace,
    made: Mutex<Option<Made>>,
    stored_files: Option<StoredFiles>,
}

/// The place of the directory.
enum ScratchPlace {
    /// In this parent directory, under a unique name, until the session ends. `None`: the system's directory for
    /// temporary files.
    In(Option<PathBuf>),
    /// This directory, which outlives the session.
    At(PathBuf),
}

/// A directory that was made. Fields are dropped in order, so the lock is released after the directory is removed.
struct Made {
    /// Path of the session's own directory: the made directory, or one in it.
    path: PathBuf,
    _dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// Returns a directory below `parent` that is removed with the session. The directory is made later; `parent`
    /// need not exist.
    pub fn new(parent: Option<PathBuf>) -> Self {
        Self { place: ScratchPlace::In(parent), made: Mutex::default(), stored_files: None }
    }

    /// Returns a directory that stays when the session ends. The directory is made later.
    pub fn persistent(dir: PathBuf) -> Self {
        Self { place: ScratchPlace::At(dir), made: Mutex::default(), stored_files: None }
    }

    /// Sets the files that a store has beside the session's log. If the directory is removed with the session, its name
    /// is the session's id. So paths can be recognized that the model was told on another node.
    #[must_use]
    pub fn with_stored_files(self, stored_files: Option<StoredFiles>) -> Self {
        Self { stored_files, ..self }
    }

    /// Returns the list of files that a store has beside the session's log, if the session has such a store.
    pub fn stored_files(&self) -> Option<&StoredFiles> {
        self.stored_files.as_ref()
    }

    /// Returns the path of a file in the directory, after copying it from the store if only the store has it. The file
    /// need not exist.
    pub(super) async fn fetch(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.dir()?;
        if let Some(stored_files) = &self.stored_files {
            stored_files.fetch(name, &directory).await?;
        }
        Ok(directory.join(name))
    }

    /// Returns the path of the directory if there may be files in it.
    pub(super) fn existing(&self) -> Option<PathBuf> {
        match &self.place {
            ScratchPlace::At(dir) => Some(dir.clone()),
            ScratchPlace::In(_) if self.stored_files.as_ref().is_some_and(|it| !it.is_empty()) => {
                self.dir().ok()
            }
            ScratchPlace::In(_) => self.made.lock().as_ref().map(|made| made.path.clone()),
        }
    }

    /// Returns the path of the directory. The first call makes it, and removes the directories of sessions that were
    /// killed.
    pub fn dir(&self) -> io::Result<PathBuf> {
        let parent = match &self.place {
            ScratchPlace::In(parent) => parent.clone(),
            ScratchPlace::At(dir) => {
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
                return Ok(dir.clone());
            }
        };
        let mut made = self.made.lock();
        if let Some(made) = &*made {
            return Ok(made.path.clone());
        }
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        fs::create_dir_all(&parent)?;
        sweep(&parent);
        // The directory has mode 0700, regardless of the umask.
        let dir = tempfile::Builder::new().prefix(SESSION_PREFIX).tempdir_in(&parent)?;
        let lock = File::create_new(dir.path().join(LOCK_FILE))?;
        lock.try_lock()?;
        let path = match &self.stored_files {
            Some(files) => {
                let path = dir.path().join(files.session());
                DirBuilder::new().mode(0o700).create(&path)?;
                path
            }
            None => dir.path().to_owned(),
        };
        *made = Some(Made { path: path.clone(), _dir: dir, _lock: lock });
        Ok(path)
    }
}

/// Removes the directories of sessions that were killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(SESSION_PREFIX));
        if ours && abandoned(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether the lock of a directory is free, because its session has ended without removing the directory.
fn abandoned(dir: &Path) -> io::Result<bool> {
    let lock = match File::open(dir.join(LOCK_FILE)) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    let age = SystemTime::now().duration_since(lock.metadata()?.modified()?);
    Ok(age.is_ok_and(|age| age > MIN_SETTLED_AGE) && lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn the_directory_is_made_when_first_asked_for_and_gone_with_the_session() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(parent.path().join("state")));
        assert_eq!(entries(parent.path()), 0);
        let dir = scratch.dir().unwrap();
        assert_eq!(scratch.dir().unwrap(), dir);
        drop(scratch);
        assert_eq!(entries(&parent.path().join("state")), 0);
    }

    #[test]
    fn a_stored_sessions_directory_stays() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("sessions/a");
        let scratch = Scratch::persistent(dir.clone());
        assert!(!dir.exists());
        assert_eq!(scratch.dir().unwrap(), dir);
        drop(scratch);
        assert!(dir.exists());
    }

    #[test]
    fn what_a_killed_session_left_is_removed_and_what_a_live_one_has_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new(Some(parent.path().to_owned()));
        let long_ago = SystemTime::now() - Duration::from_mins(1);
        let age = |dir: &Path| {
            File::options().write(true).open(dir.join(LOCK_FILE)).unwrap().set_modified(long_ago)
        };
        age(&alive.dir().unwrap()).unwrap();
        let killed = parent.path().join("session-killed");
        fs::create_dir(&killed).unwrap();
        File::create(killed.join(LOCK_FILE)).unwrap();
        age(&killed).unwrap();
        let foreign = parent.path().join("session-of-somebody-else");
        fs::create_dir(&foreign).unwrap();
        Scratch::new(Some(parent.path().to_owned())).dir().unwrap();
        assert!(!killed.exists());
        assert!(foreign.exists() && alive.dir().unwrap().exists());
    }
}
