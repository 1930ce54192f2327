//! Confinement of commands on Linux.

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

/// Extension of results that says in the error which step failed.
pub(crate) trait Naming<T> {
    /// Prefixes the error's message with `what` and a colon.
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
