//! The user's `PATH`, when this program was started without it.
//!
//! An editor that was opened from a menu has the system's own `PATH`, and so has what it starts.
//! The user's own directories are known to their login shell alone, which is asked then: once, when
//! the first program is to be started, and for a bounded time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::OnceCell;

/// Time for the shell to answer: what people put into its files takes a while.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of bytes to read of what the shell writes.
pub(super) const MOST: u64 = 256 * 1024;

/// Marker around the `PATH` in the output: the files of the shell may write things too.
const FENCE: &str = "--tandem-path--";

/// Directories in which every system has its own programs.
const SYSTEM: [&str; 9] = [
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/games",
    "/usr/local/games",
    "/snap/bin",
];

/// Shells that take `-i`, `-l` and `-c`.
const SHELLS: [&str; 6] = ["bash", "zsh", "fish", "ksh", "dash", "sh"];

/// The login shell's `PATH`, once it has been asked for; `None` if this process's own counts.
pub(super) type SearchPath = OnceCell<Option<OsString>>;

/// Returns the shell to ask; none if this process has a `PATH` that somebody has set up.
pub(super) fn login_shell() -> Option<PathBuf> {
    // Every shell counts how deep it is: what it has started has its `PATH`.
    let terminal = env::var_os("SHLVL").is_some() || io::stdin().is_terminal();
    if terminal || !is_bare(&env::var_os("PATH").unwrap_or_default()) {
        return None;
    }
    let shell = PathBuf::from(env::var_os("SHELL")?);
    let known = shell.file_name()?.to_str().is_some_and(|name| SHELLS.contains(&name));
    (known && shell.is_absolute()).then_some(shell)
}

/// Returns whether a `PATH` has no directory of the user's.
fn is_bare(path: &OsStr) -> bool {
    env::split_paths(path)
        .all(|dir| dir.as_os_str().is_empty() || SYSTEM.iter().any(|known| dir == Path::new(known)))
}

/// Returns the arguments with which a shell writes its `PATH`.
pub(super) fn arguments() -> Vec<String> {
    // The inner shell says it the same way, whatever the outer one is.
    let print = format!("/bin/sh -c 'printf %s \"{FENCE}$PATH{FENCE}\"'");
    ["-i", "-l", "-c", &print].map(str::to_owned).to_vec()
}

/// Returns the `PATH` that a shell has written, with what this process has of its own behind it.
pub(super) fn read(written: &[u8]) -> Option<OsString> {
    fenced(written).map(|path| with_own(&path))
}

/// The login shell's, and behind it what this process has of its own.
fn with_own(path: &OsStr) -> OsString {
    let own = env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = env::split_paths(path).collect();
    for dir in env::split_paths(&own) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
}

/// Returns the text between the fences, if there is any.
fn fenced(said: &[u8]) -> Option<OsString> {
    let mut fences = memchr::memmem::find_iter(said, FENCE);
    let (begin, end) = (fences.next()? + FENCE.len(), fences.next()?);
    let path = said.get(begin..end).filter(|path| !path.is_empty())?;
    Some(OsString::from_vec(path.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::{fenced, is_bare};

    #[track_caller]
    fn check_bare(path: &str, expected: bool) {
        assert_eq!(is_bare(path.as_ref()), expected, "{path}");
    }

    #[test]
    fn a_path_is_bare_that_has_only_the_systems_directories() {
        check_bare("/usr/bin:/bin:/usr/sbin:/sbin", true);
        check_bare("", true);
        check_bare("/usr/bin:/home/me/.cargo/bin", false);
        check_bare("/opt/homebrew/bin:/usr/bin:/bin", false);
    }

    #[track_caller]
    fn check_fenced(said: &str, expected: Option<&str>) {
        assert_eq!(fenced(said.as_bytes()).as_deref(), expected.map(AsRef::as_ref), "{said:?}");
    }

    #[test]
    fn what_else_a_shell_says_does_not_count() {
        check_fenced("hi\n--tandem-path--/a:/b c--tandem-path--bye", Some("/a:/b c"));
        check_fenced("--tandem-path--/a", None);
        check_fenced("--tandem-path----tandem-path--", None);
        check_fenced("/a:/b", None);
    }
}
