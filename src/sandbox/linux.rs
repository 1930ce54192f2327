//! How Linux fences a command in.

pub(crate) mod bubblewrap;
pub(crate) mod landlock;
mod mounts;
pub(crate) mod namespaces;
mod privileges;
mod seccomp;
pub(crate) mod sys;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::profile::Profile;

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

/// Returns the real paths of directories for temporary files, which become the session's own.
fn temporary_directories() -> Vec<PathBuf> {
    real(&["/tmp", "/var/tmp"])
}

/// Returns the real paths of directories with sockets of the machine's and the user's services.
fn run_directories() -> Vec<PathBuf> {
    real(&["/run", "/var/run"])
}

fn real(paths: &[&str]) -> Vec<PathBuf> {
    let mut real = existing(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
    real.dedup();
    real
}

/// Returns the directories between a writable one and what is protected or hidden in it. Where they are
/// mounts, too, they can't be renamed: the next command would find nothing to protect at the old path.
fn pinned(profile: &Profile) -> BTreeSet<PathBuf> {
    let roots = if profile.writes_roots { &profile.roots[..] } else { &[] };
    let writable: Vec<_> = roots.iter().cloned().chain(existing(&profile.writable)).collect();
    let guarded = existing(&profile.protected).into_iter().chain(existing(&profile.hidden));
    let mut pinned = BTreeSet::new();
    for path in guarded {
        let is_inside = |path: &Path| {
            writable.iter().any(|root| path.starts_with(root))
                && !writable.iter().any(|it| it == path)
        };
        let above = path.ancestors().skip(1).take_while(|path| is_inside(path));
        pinned.extend(above.map(Path::to_owned));
    }
    pinned
}

/// Returns the sockets that programs outside listen on, so far as their paths are known here: neither a
/// network of the command's own nor a read-only mount keeps it from connecting to them. To be called in
/// the machine's network. Those in the workspace are left to it.
fn sockets(profile: &Profile) -> Vec<PathBuf> {
    let list = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let others = [run_directories(), temporary_directories(), profile.roots.clone()].concat();
    let paths = list.lines().filter_map(|line| line.split_once(" /"));
    let paths: BTreeSet<_> = paths.map(|(_, path)| Path::new("/").join(path)).collect();
    let is_socket = |path: &PathBuf| {
        path.symlink_metadata().is_ok_and(|data| data.file_type().is_socket())
            && !others.iter().any(|other| path.starts_with(other))
    };
    paths.into_iter().filter(is_socket).collect()
}

/// Adds what a command can see of the files, but must not, to what is hidden.
pub(crate) fn hide_sockets(profile: &mut Profile) {
    profile.hidden.extend(sockets(profile));
}

/// Returns whether something is at a path, be it a link that leads nowhere.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
