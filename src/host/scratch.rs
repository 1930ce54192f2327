//! A directory of a session's own, made when something is first put into it. It is gone with the
//! session, or stays where the session is stored.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::stored_files::StoredFiles;
use parking_lot::Mutex;

/// Prefix of the names of such directories, before a random part.
const PREFIX: &str = "session-";

/// In each of them; locked as long as the session lives.
const LOCK: &str = "lock";

/// Minimum age of one before looking whether its session still lives: making the directory
/// and locking it are two steps.
const SETTLED: Duration = Duration::from_secs(10);

/// A directory that only this user can read.
pub struct Scratch {
    place: ScratchPlace,
    made: Mutex<Option<Made>>,
    stored_files: Option<StoredFiles>,
}

/// The place of the directory.
enum ScratchPlace {
    /// In this one, under a name of its own, until the session ends; in the system's directory for
    /// temporary files if there is none.
    In(Option<PathBuf>),
    /// This one, which outlives the session.
    At(PathBuf),
}

/// Fields are dropped in order: the lock is the last to go.
struct Made {
    /// Path of the session's own directory: this one, or one in it.
    path: PathBuf,
    _dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// Nothing is made yet. `parent` need not exist.
    pub fn new(parent: Option<PathBuf>) -> Self {
        Self { place: ScratchPlace::In(parent), made: Mutex::default(), stored_files: None }
    }

    /// A directory that stays when the session ends. Nothing is made yet.
    pub fn stored(dir: PathBuf) -> Self {
        Self { place: ScratchPlace::At(dir), made: Mutex::default(), stored_files: None }
    }

    /// The same with files that a store has beside the session's log. If it is gone with the session, its name
    /// is the session's id: by that a path is known that another node has told the model.
    #[must_use]
    pub fn with_stored_files(self, stored_files: Option<StoredFiles>) -> Self {
        Self { stored_files, ..self }
    }

    /// Returns the files that a store has beside the session's log, if it has any for other nodes.
    pub fn stored_files(&self) -> Option<&StoredFiles> {
        self.stored_files.as_ref()
    }

    /// Returns the path of a file in it, which is fetched if only the store has it. It need not exist.
    pub(super) async fn fetch(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.dir()?;
        if let Some(stored_files) = &self.stored_files {
            stored_files.fetch(name, &directory).await?;
        }
        Ok(directory.join(name))
    }

    /// Returns its path if there may be something in it.
    pub(super) fn existing(&self) -> Option<PathBuf> {
        match &self.place {
            ScratchPlace::At(dir) => Some(dir.clone()),
            ScratchPlace::In(_) if self.stored_files.as_ref().is_some_and(|it| !it.is_empty()) => {
                self.dir().ok()
            }
            ScratchPlace::In(_) => self.made.lock().as_ref().map(|made| made.path.clone()),
        }
    }

    /// Returns its path. The first call makes it, and removes those of sessions that were killed.
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
        // Mode 0700, whatever the umask.
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent)?;
        let lock = File::create_new(dir.path().join(LOCK))?;
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

/// Removes what sessions left behind that could not do it themselves.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && abandoned(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether nobody holds the lock any more.
fn abandoned(dir: &Path) -> io::Result<bool> {
    let lock = match File::open(dir.join(LOCK)) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    let age = SystemTime::now().duration_since(lock.metadata()?.modified()?);
    Ok(age.is_ok_and(|age| age > SETTLED) && lock.try_lock().is_ok())
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
        let scratch = Scratch::stored(dir.clone());
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
            File::options().write(true).open(dir.join(LOCK)).unwrap().set_modified(long_ago)
        };
        age(&alive.dir().unwrap()).unwrap();
        let killed = parent.path().join("session-killed");
        fs::create_dir(&killed).unwrap();
        File::create(killed.join(LOCK)).unwrap();
        age(&killed).unwrap();
        let foreign = parent.path().join("session-of-somebody-else");
        fs::create_dir(&foreign).unwrap();
        Scratch::new(Some(parent.path().to_owned())).dir().unwrap();
        assert!(!killed.exists());
        assert!(foreign.exists() && alive.dir().unwrap().exists());
    }
}
