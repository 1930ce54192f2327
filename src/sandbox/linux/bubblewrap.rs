//! Bubblewrap: a program that makes namespaces where this one may not.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use super::{
    Naming as _, existing, pinned, privileges, run_directories, seccomp, sys, temporary_directories,
};
use crate::profile::Profile;

/// Directories that the program is looked for in. `PATH` may lead into the workspace.
const DIRECTORIES: [&str; 5] =
    ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/run/wrappers/bin"];

/// Returns the path of the program if it works here; the error says why not.
pub(crate) fn program() -> Result<PathBuf, String> {
    let paths = DIRECTORIES.map(|directory| Path::new(directory).join("bwrap"));
    let Some(program) = paths.into_iter().find(|path| path.exists()) else {
        return Err("`bwrap` is not installed".to_owned());
    };
    let tried = Command::new(&program)
        .args([
            "--unshare-all",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "/bin/true",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(words.lines().next().unwrap_or("`bwrap` failed without a word").to_owned())
        }
        Err(error) => Err(format!("{}: {error}", program.display())),
    }
}

/// Confines what [`command`] returns, as far as that is not the other program's to do. Returns in the
/// process that is to become the command; the one that was called ends as it does.
pub(crate) fn confine(profile: &Profile) -> io::Result<()> {
    // Not `no new privileges`: where users may not make namespaces, bwrap is a set-user-id program.
    privileges::limit(privileges::beside_others(profile.limits)).naming("limits")?;
    sys::leave_terminal();
    // It ends with its parent, which must therefore not be a thread of the agent's.
    sys::continue_in_copy()
}

/// Returns the command that runs `words` in the sandbox of a program, and the descriptors that it
/// needs open.
pub(crate) fn command(
    program: &Path,
    profile: &Profile,
    words: &[OsString],
    variables: &[(OsString, OsString)],
) -> io::Result<(Command, Vec<OwnedFd>)> {
    let mut command = Command::new(program);
    // What root runs would keep all capabilities, and could write the machine's settings in /proc.
    command.args(["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/", "/"]);
    if profile.network {
        command.arg("--share-net");
    }
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/dev/shm"]);
    for path in run_directories() {
        command.arg("--tmpfs").arg(path);
    }
    if let Some(temporary) = &profile.temporary {
        for path in temporary_directories() {
            command.arg("--bind").args([temporary, &path]);
        }
    }
    let bind = if profile.writes_roots { "--bind" } else { "--ro-bind" };
    let mut roots = profile.roots.clone();
    roots.sort();
    for root in &roots {
        command.arg(bind).args([root, root]);
    }
    for path in existing(&profile.writable).into_iter().chain(pinned(profile)) {
        command.arg("--bind").args([&path, &path]);
    }
    let mut protected = existing(&profile.protected);
    protected.sort();
    for path in protected {
        command.arg("--ro-bind").args([&path, &path]);
    }
    for path in existing(&profile.hidden) {
        if path.is_dir() {
            command.args(["--perms", "0000", "--tmpfs"]).arg(&path);
            command.arg("--remount-ro").arg(&path);
        } else {
            command.args(["--ro-bind", "/dev/null"]).arg(&path);
        }
    }
    command.args(["--remount-ro", "/proc"]);
    let mut open = Vec::new();
    for program in seccomp::exported(seccomp::Surroundings::Own)? {
        let mut filter = File::from(memfd_create("filter", MemfdFlags::empty())?);
        filter.write_all(&program)?;
        filter.rewind()?;
        command.arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
        open.push(OwnedFd::from(filter));
    }
    for (name, value) in variables {
        command.arg("--setenv").args([name, value]);
    }
    command.arg("--chdir").arg(std::env::current_dir()?);
    command.arg("--").args(words);
    Ok((command, open))
}
