//! How Linux fences a command in.

pub(crate) mod beneath;
pub(crate) mod bubblewrap;
pub(crate) mod landlock;
mod mounts;
pub(crate) mod namespaces;
pub(crate) mod plan;
mod privileges;
mod seccomp;
pub(crate) mod sys;

use std::io;

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
