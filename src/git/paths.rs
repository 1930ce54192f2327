//! Paths of a session's workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::name::is_session_id;

/// Paths of a session's workspace.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// The session's id.
    pub(crate) id: String,
    /// The clone that the session works in.
    pub(crate) clone: PathBuf,
    /// The git directory that commands of this room work with.
    pub(crate) own: PathBuf,
    /// A clone that is being made.
    pub(crate) new: PathBuf,
}

impl Paths {
    /// Returns the paths of a session's workspace in a directory.
    pub(crate) fn of(directory: &Path, id: &str) -> io::Result<Self> {
        // It comes from a database, and names what is removed.
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

    /// Returns `true` if the clone is whole: its `.git` comes last.
    pub(crate) fn is_cloned(&self) -> bool {
        let git = fs::symlink_metadata(self.clone.join(".git"));
        git.is_ok_and(|metadata| metadata.is_dir())
    }

    /// Removes the locks that a command has left which was killed. None may run.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        let locked = ["index".to_owned(), "packed-refs".to_owned(), self.reference()];
        locked.iter().try_for_each(|name| removed(&self.own.join(format!("{name}.lock"))))
    }

    /// Removes all of it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        [&self.clone, &self.new, &self.own].into_iter().try_for_each(|path| removed(path))
    }
}

/// Removes a file, a link or a directory with all that is in it, if it is there.
pub(crate) fn removed(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
