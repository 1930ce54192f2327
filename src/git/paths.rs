//! Paths of a session's workspace.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};

use super::error::GitError;
use super::name::is_session_id;
use tandem_content::blocking::try_blocking;

/// Paths of a session's workspace.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// Id of the session.
    pub(crate) id: String,
    /// Directory of the clone that the session works in.
    pub(crate) clone: PathBuf,
    /// Git directory beside the clone, which the git commands of this crate use.
    pub(crate) own: PathBuf,
    /// Directory of a clone that is being made.
    pub(crate) new: PathBuf,
}

/// Name of the file in the git directory beside a clone that names the clone's owner: the id of the store that has the
/// session, and the repository, a line each.
const OWNER_FILE: &str = "tandem-owner";

/// Prefix of the names of directories that are being removed.
const TRASH_PREFIX: &str = ".trash-";

impl Paths {
    /// Returns the paths of a session's workspace in a directory.
    pub(crate) fn for_session(directory: &Path, id: &str) -> io::Result<Self> {
        // The id comes from a database and names directories that are removed, so it must not be a path.
        if !is_session_id(id) {
            return Err(io::Error::other(format!("`{id}` is not the id of a session")));
        }
        let at = |name: String| directory.join(name);
        Ok(Self {
            id: id.to_owned(),
            clone: at(id.to_owned()),
            own: at(format!("{id}.git")),
            new: at(format!("{id}.new")),
        })
    }

    /// Returns the reference of the session's snapshot.
    pub(crate) fn reference(&self) -> String {
        format!("refs/tandem/{}", self.id)
    }

    /// Returns `true` if the clone is complete. `.git` is moved into the clone last, so its presence shows this.
    pub(crate) fn is_cloned(&self) -> bool {
        let git = fs::symlink_metadata(self.clone.join(".git"));
        git.is_ok_and(|metadata| metadata.is_dir())
    }

    /// Removes the locks that a killed git command has left. No command may run meanwhile.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        let locked = ["index".to_owned(), "packed-refs".to_owned(), self.reference()];
        locked.iter().try_for_each(|name| removed(&self.own.join(format!("{name}.lock"))))
    }

    /// Records the owner of the clone: the id of the store that has the session, and the repository.
    pub(crate) fn note_owner(&self, store: &str, origin: &str) -> io::Result<()> {
        fs::write(self.own.join(OWNER_FILE), format!("{store}\n{origin}\n"))
    }

    /// Returns the recorded owner of the clone: the id of the store that has or had the session, and the repository.
    pub(crate) fn owner(&self) -> Option<(String, String)> {
        let owner = fs::read_to_string(self.own.join(OWNER_FILE)).ok()?;
        let (store, origin) = owner.trim_end().split_once('\n')?;
        Some((store.to_owned(), origin.to_owned()))
    }

    /// Renames the directories of the workspace, which is quick; [`empty_trash`](Self::empty_trash) removes them.
    pub(crate) fn discard(&self) -> io::Result<()> {
        // The git directory comes last: it names the clone's owner, so that an interrupted removal can be repeated.
        for (path, trash) in [&self.clone, &self.new, &self.own].into_iter().zip(self.trash()) {
            match fs::rename(path, trash) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        Ok(())
    }

    /// Removes the directories that [`discard`](Self::discard) has renamed.
    pub(crate) fn empty_trash(&self) -> io::Result<()> {
        self.trash().into_iter().try_for_each(|path| removed(&path))
    }

    fn trash(&self) -> [PathBuf; 3] {
        ["", ".new", ".git"]
            .map(|end| self.clone.with_file_name(format!("{TRASH_PREFIX}{}{end}", self.id)))
    }
}

/// Returns the id of the session that a git directory, or a directory which is being removed, belongs to by its name.
pub(crate) fn session_of(name: &str) -> Option<&str> {
    let id = match name.strip_prefix(TRASH_PREFIX) {
        Some(trash) => trash.split('.').next()?,
        None => name.strip_suffix(".git")?,
    };
    is_session_id(id).then_some(id)
}

/// Removes a file, a link, or a directory with everything in it, if it exists.
pub(crate) fn removed(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).or_else(|error| {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            make_writable(&fs::File::open(path)?, MAX_REMOVED_DEPTH)?;
            fs::remove_dir_all(path)
        }),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Maximum depth of nested directories that can be removed although some are read-only.
const MAX_REMOVED_DEPTH: usize = 200;

/// Lets the owner write in a directory and in the directories below it. Caches of tools, such as Go's, are read-only.
/// No link is followed.
fn make_writable(directory: impl AsFd, levels: usize) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
    rustix::fs::fchmod(&directory, mode | Mode::RWXU)?;
    if levels == 0 {
        return Ok(());
    }
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." || entry.file_type() != FileType::Directory {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        make_writable(openat(&directory, name, flags, Mode::empty())?, levels - 1)?;
    }
    Ok(())
}

/// Runs work on files on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, GitError> {
    try_blocking(work).await.map_err(GitError::Files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_read_only_is_removed_and_nothing_that_a_link_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let (clone, outside) = (home.path().join("clone"), home.path().join("outside"));
        let inner = clone.join("cache/module");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(inner.join("file"), "").unwrap();
        symlink(&outside, inner.join("link")).unwrap();
        for directory in [&outside, &inner, &clone.join("cache"), &clone] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o555)).unwrap();
        }
        // Root, whom no mode stops, may run the tests. So the modes are checked, and not only the removal.
        make_writable(fs::File::open(&clone).unwrap(), MAX_REMOVED_DEPTH).unwrap();
        assert_eq!([&clone, &clone.join("cache"), &inner].map(|it| mode(it)), [0o755; 3]);
        assert_eq!(mode(&outside), 0o555);
        removed(&clone).unwrap();
        assert!(!clone.exists() && outside.exists());
    }
}
