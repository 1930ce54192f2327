//! Where programs are looked for, when this one was started without the user's `PATH`.
//!
//! An editor that was opened from a menu has the system's own `PATH`, and so has what it starts.
//! What the user has added is known to their login shell alone, which is asked then: once, when the
//! first program is to be started, and for a bounded time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::Processes;
use super::serving::{Program, Serving};

/// How long the shell may take: what people put into its files takes a while.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of what it says that are read.
const MOST: u64 = 256 * 1024;

/// What is around the `PATH` in what it says: its files may say things too.
const FENCE: &str = "--tandem-path--";

/// Where every system has its own programs.
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

/// The login shell's `PATH`, once it has been asked for.
#[derive(Default)]
pub(super) struct SearchPath(OnceCell<Option<OsString>>);

impl SearchPath {
    /// What takes the place of this process's own, if anything does.
    pub(super) fn get(&self) -> Option<&OsStr> {
        self.0.get()?.as_deref()
    }
}

/// The shell to ask; none if this process has a `PATH` that somebody has set up.
fn login_shell() -> Option<PathBuf> {
    // Every shell counts how deep it is: what it has started has its `PATH`.
    let terminal = env::var_os("SHLVL").is_some() || io::stdin().is_terminal();
    if terminal || !is_bare(&env::var_os("PATH").unwrap_or_default()) {
        return None;
    }
    let shell = PathBuf::from(env::var_os("SHELL")?);
    let known = shell.file_name()?.to_str().is_some_and(|name| SHELLS.contains(&name));
    (known && shell.is_absolute()).then_some(shell)
}

/// Whether nothing of the user's is in it.
fn is_bare(path: &OsStr) -> bool {
    env::split_paths(path)
        .all(|dir| dir.as_os_str().is_empty() || SYSTEM.iter().any(|known| dir == Path::new(known)))
}

impl Processes {
    /// Finds out where programs are, if that is not known: to be waited for before one is started.
    /// Takes a bounded time, and only once; mostly none at all.
    pub async fn find_programs(&self) {
        let find = || async { self.path_of(&login_shell()?).await };
        self.running.search_path.0.get_or_init(find).await;
    }

    async fn path_of(&self, shell: &Path) -> Option<OsString> {
        let asked = timeout(PATIENCE, self.ask(shell)).await;
        let said = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let found = said.inspect_err(|err| {
            tracing::warn!("{} does not say what the PATH is: {err}", shell.display());
        });
        found.ok()?.map(|path| with_own(&path))
    }

    async fn ask(&self, shell: &Path) -> io::Result<Option<OsString>> {
        // The inner shell says it the same way, whatever the outer one is.
        let say = format!("/bin/sh -c 'printf %s \"{FENCE}$PATH{FENCE}\"'");
        let Serving { input, output, mut errors, life: _ended_when_dropped } =
            self.serve(&Program {
                command: shell.display().to_string(),
                args: ["-i", "-l", "-c", &say].map(str::to_owned).to_vec(),
                // People's files start things that a terminal is for.
                env: vec![("TERM".to_owned(), "dumb".to_owned())],
                directory: PathBuf::from("/"),
            })?;
        drop(input);
        // Nobody reads what it complains about, and it must not wait for that.
        tokio::spawn(async move { tokio::io::copy(&mut errors, &mut tokio::io::sink()).await });
        let mut said = Vec::new();
        output.take(MOST).read_to_end(&mut said).await?;
        Ok(fenced(&said))
    }
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

/// What is between the fences, if anything is.
fn fenced(said: &[u8]) -> Option<OsString> {
    let mut fences = memchr::memmem::find_iter(said, FENCE);
    let (begin, end) = (fences.next()? + FENCE.len(), fences.next()?);
    let path = said.get(begin..end).filter(|path| !path.is_empty())?;
    Some(OsString::from_vec(path.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Processes, fenced, is_bare};

    #[tokio::test(start_paused = true)]
    async fn a_shell_that_hangs_is_given_up_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        let shell = dir.path().join("sh");
        fs::write(&shell, "#!/bin/sh\nsleep 1000\n").unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o700)).unwrap();
        let processes = Processes::new(|_, _| false);
        assert_eq!(processes.path_of(&shell).await, None);
        processes.end_all().await;
    }

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
