//! Variables of the user's login shell, for an agent that was started without them.
//!
//! An editor that was opened from a menu has the system's own `PATH` and none of the user's variables, and so have the
//! programs that it starts. Only the user's login shell knows the user's own directories and keys. So the login shell
//! is asked: once, when the first program is started or a key is missing, and for a bounded time.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::OnceCell;

/// Maximum time for the shell to answer: the user's start-up files may take a while.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes that are read of the shell's output.
pub(super) const MAX_OUTPUT_BYTES: u64 = 256 * 1024;

/// Marker around the values in the output: start-up files of the shell may print other text.
const OUTPUT_FENCE: &str = "--tandem-login-shell--";

/// Directories in which systems have their own programs.
const SYSTEM_DIRECTORIES: [&str; 9] = [
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

/// Names of shells that accept `-i`, `-l` and `-c`.
const KNOWN_SHELLS: [&str; 6] = ["bash", "zsh", "fish", "ksh", "dash", "sh"];

/// The login shell's variables, for which it is asked once.
#[derive(Default)]
pub(super) struct LoginShell {
    /// Names of the variables for which the shell is asked, besides `PATH`.
    pub names: Vec<String>,
    /// Answer of the shell, once it has been asked; `None` if there is no shell to ask or it did not answer.
    pub answer: OnceCell<Option<LoginVariables>>,
}

/// Variables of the login shell.
// No `Debug`, as the values may be keys.
pub(super) struct LoginVariables {
    /// `PATH` for programs; `None` if this process's own is used.
    pub path: Option<OsString>,
    /// Values of the other variables that are set.
    pub values: HashMap<String, String>,
}

/// Returns the shell to ask; `None` if this process was started by a shell or from a terminal.
pub(super) fn login_shell() -> Option<PathBuf> {
    // Shells set `SHLVL`. A process that was started by a shell has the shell's variables already.
    if env::var_os("SHLVL").is_some() || io::stdin().is_terminal() {
        return None;
    }
    let shell = PathBuf::from(env::var_os("SHELL")?);
    let known = shell.file_name()?.to_str().is_some_and(|name| KNOWN_SHELLS.contains(&name));
    (known && shell.is_absolute()).then_some(shell)
}

/// Returns whether this process's `PATH` has only the system's directories.
pub(super) fn has_bare_path() -> bool {
    is_bare(&env::var_os("PATH").unwrap_or_default())
}

/// Returns whether a `PATH` has no directory of the user's.
fn is_bare(path: &OsStr) -> bool {
    env::split_paths(path).all(|dir| {
        dir.as_os_str().is_empty() || SYSTEM_DIRECTORIES.iter().any(|known| dir == Path::new(known))
    })
}

/// Returns `true` if a shell can expand a variable of this name. Any other name in [`arguments`] could be a command.
pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the arguments with which a shell prints its `PATH` and these variables.
pub(super) fn arguments(names: &[String]) -> Vec<String> {
    let values: String = names.iter().flat_map(|name| [" \"$", name.as_str(), "\""]).collect();
    // The values are printed by an inner `sh`, so that the format is the same for every login shell.
    let print = format!(
        "/bin/sh -c 'printf \"%s\\0\" \"{OUTPUT_FENCE}\" \"$PATH\"{values} \"{OUTPUT_FENCE}\"'"
    );
    ["-i", "-l", "-c", &print].map(str::to_owned).to_vec()
}

/// Returns the variables that a shell has printed. This process's own directories are appended to the shell's `PATH`.
pub(super) fn read(written: &[u8], names: &[String]) -> Option<LoginVariables> {
    let (path, values) = fenced(written, names)?;
    let path = path.filter(|_| has_bare_path()).map(|path| with_own(&path));
    Some(LoginVariables { path, values })
}

/// Returns the login shell's `PATH`, followed by the directories that only this process's own `PATH` has.
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

/// Returns the `PATH` and the other variables between the markers; `None` if the output is not complete. An empty
/// variable counts as not set.
fn fenced(said: &[u8], names: &[String]) -> Option<(Option<OsString>, HashMap<String, String>)> {
    let fence = format!("{OUTPUT_FENCE}\0");
    let begin = memchr::memmem::find(said, fence.as_bytes())? + fence.len();
    let mut values = said.get(begin..)?.split(|byte| *byte == 0);
    let path = Some(values.next()?).filter(|path| !path.is_empty());
    let path = path.map(|path| OsString::from_vec(path.to_vec()));
    let mut variables = HashMap::new();
    for name in names {
        let value = values.next()?;
        if let Ok(value) = str::from_utf8(value)
            && !value.is_empty()
        {
            variables.insert(name.clone(), value.to_owned());
        }
    }
    (values.next()? == OUTPUT_FENCE.as_bytes()).then_some((path, variables))
}

#[cfg(test)]
mod tests {
    use super::{fenced, is_bare, is_variable};

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

    #[test]
    fn a_shell_is_asked_for_variables_and_runs_no_command_of_a_name() {
        for name in ["KEY", "_key2"] {
            assert!(is_variable(name), "{name}");
        }
        for name in ["", "2KEY", "A-B", "K\"; touch x; \"", "$(touch x)", "KEY\n", "Ü"] {
            assert!(!is_variable(name), "{name}");
        }
    }

    /// Checks the parsed output. `expected`: the `PATH`, and the value of `KEY`.
    #[track_caller]
    fn check_fenced(said: &str, expected: Option<(Option<&str>, Option<&str>)>) {
        let said = said.replace('#', "--tandem-login-shell--").replace('|', "\0");
        let fenced = fenced(said.as_bytes(), &["KEY".to_owned()]);
        let fenced = fenced.as_ref().map(|(path, values)| {
            (path.as_ref().map(|path| path.to_str().unwrap()), values.get("KEY").map(|it| &**it))
        });
        assert_eq!(fenced, expected, "{said:?}");
    }

    #[test]
    fn what_else_a_shell_says_does_not_count() {
        check_fenced("hi\n#|/a:/b c|k\n1|#|bye", Some((Some("/a:/b c"), Some("k\n1"))));
        check_fenced("# #|/a||#|", Some((Some("/a"), None)));
        check_fenced("#||k|#|", Some((None, Some("k"))));
        check_fenced("#|/a|k|", None);
        check_fenced("#|/a|#|", None);
        check_fenced("#|/a|k|more|#|", None);
        check_fenced("/a:/b", None);
    }
}
