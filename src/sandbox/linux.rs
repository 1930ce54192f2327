//! How Linux fences a command in.

pub(crate) mod bubblewrap;
pub(crate) mod landlock;
mod mounts;
pub(crate) mod namespaces;
mod privileges;
mod seccomp;
pub(crate) mod sys;

use std::io;
use std::path::{Path, PathBuf};

/// Names what failed in an error.
pub(crate) trait Naming<T> {
    /// Puts `what` before the error.
    fn naming(self, what: impl AsRef<str>) -> io::Result<T>;
}

impl<T, E: Into<io::Error>> Naming<T> for Result<T, E> {
    fn naming(self, what: impl AsRef<str>) -> io::Result<T> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            io::Error::new(error.kind(), format!("{}: {error}", what.as_ref()))
        })
    }
}

/// Returns the real paths of those that exist.
fn existing(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
}

/// Returns whether something is at a path, be it a link that leads nowhere.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
