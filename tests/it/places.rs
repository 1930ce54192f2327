//! Directories and sockets for tests that run commands in a sandbox or as another user, wherever the repository is.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Directories in whose place commands in a sandbox see others.
const REPLACED: [&str; 2] = ["/tmp", "/var/tmp"];

/// Makes a directory that commands in a sandbox see unchanged: in the target directory, or in the user's home if
/// commands see another directory there.
pub(crate) fn seen_in_sandbox() -> TempDir {
    let replaced = REPLACED.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.into()));
    let is_seen = |path: &PathBuf| {
        fs::canonicalize(path).is_ok_and(|path| !replaced.iter().any(|it| path.starts_with(it)))
    };
    let places = [Some(env!("CARGO_TARGET_TMPDIR").into()), std::env::home_dir()];
    let place = places.into_iter().flatten().find(is_seen);
    let place = place.expect("the clone and the home are below /tmp: clone elsewhere");
    tempfile::Builder::new().prefix(".tandem-test-").tempdir_in(place).unwrap()
}

/// Makes a directory that a user who owns nothing may enter. `TMPDIR` may be closed to all but its owner.
pub(crate) fn entered_by_others() -> TempDir {
    TempDir::new_in("/tmp").unwrap()
}

/// Copies the built program into a directory, for users who cannot reach it in its own directory.
pub(crate) fn copy_program(directory: &Path) -> PathBuf {
    copy(Path::new(env!("CARGO_BIN_EXE_tandem")), directory)
}

/// Copies a file of `fixtures` into a directory, for users who cannot reach it in its own directory.
pub(crate) fn copy_fixture(name: &str, directory: &Path) -> PathBuf {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name), directory)
}

fn copy(file: &Path, directory: &Path) -> PathBuf {
    let copied = directory.join(file.file_name().unwrap());
    // Another process makes the copy. A test that starts a program at this moment would inherit an open descriptor
    // of the copy, and a program that is open for writing cannot be started ("Text file busy").
    let status = Command::new("cp").arg(file).arg(&copied).status().unwrap();
    assert!(status.success(), "cp {} {}: {status}", file.display(), copied.display());
    copied
}

/// Listens in a directory, whose path may be too long for the address of a socket.
pub(crate) fn listen(directory: &Path, name: &str) -> UnixListener {
    fs::create_dir_all(directory).unwrap();
    let opened = fs::File::open(directory).unwrap();
    let by_descriptor = format!("/proc/self/fd/{}/{name}", opened.as_raw_fd());
    let listener = UnixListener::bind(directory.join(name));
    let listener = listener.or_else(|_| UnixListener::bind(by_descriptor)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}
