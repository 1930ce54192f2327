//! Bubblewrap (`bwrap`): a program that makes namespaces where this program may not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::{Errno, dup};

use super::beneath::{Guard, Guarded, Root};
use super::plan::{
    Layout, drop_held, guards, outermost_hidden, replaced_home, run_directories,
    temporary_directories,
};
use super::sys::bounded_memory_bytes;
use super::{Naming as _, privileges, seccomp, sys};
use crate::order::{Expected, HELPER_ARGUMENT, Order};
use crate::profile::{HomeLink, KnownPath, Profile};
use crate::report::{self, Report};

/// Directories in which `bwrap` is looked for. `PATH` is not used, as it may lead into the workspace.
const SEARCHED_DIRECTORIES: [&str; 5] =
    ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/run/wrappers/bin"];

/// Maximum size of the file system that replaces a directory of sockets, in bytes.
const RUN_BYTES: &str = "1048576";

/// Maximum number of attempts to make a sandbox for one command, in case files are renamed or removed during each
/// attempt.
// While a large directory with sockets was removed elsewhere on a busy machine, each of five attempts met another file
// that had just gone.
const MAX_ATTEMPTS: u32 = 20;

/// Arguments of a test run of `bwrap`: old versions do not have all options.
const PROBE_ARGUMENTS: [&str; 16] = [
    "--unshare-all",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--size",
    RUN_BYTES,
    "--perms",
    "0700",
    "--tmpfs",
    "/tmp",
    "--",
    "/bin/true",
];

/// Returns the path of `bwrap` if it works here; the error says why it does not.
pub(crate) fn program() -> Result<PathBuf, String> {
    let paths = SEARCHED_DIRECTORIES.map(|directory| Path::new(directory).join("bwrap"));
    let Some(program) = paths.into_iter().find(|path| path.exists()) else {
        return Err("`bwrap` is not installed".to_owned());
    };
    let tried = Command::new(&program)
        .args(PROBE_ARGUMENTS)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => {
            Root::open().map(|_| program).map_err(|error| error.to_string())
        }
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(words.lines().next().unwrap_or("`bwrap` failed without a word").to_owned())
        }
        Err(error) => Err(format!("{}: {error}", program.display())),
    }
}

/// Prepares this process for running the command of [`command`]: sets limits, gives up the terminal, and forks. Returns
/// in the copy that is to become the command; the original process waits for the copy and ends in the same way.
///
/// If `bwrap` has made no sandbox, forks and returns once more, in at most `MAX_ATTEMPTS` attempts: `bwrap` works by
/// names and fails if a file has been removed meanwhile. The result is the file for the messages of `bwrap`; people see
/// the messages of the last attempt.
pub(crate) fn confine(profile: &Profile, report: &File) -> io::Result<File> {
    // `no_new_privs` is not set here: where users may not make namespaces, `bwrap` is a set-user-id program.
    privileges::limit(privileges::beside_others(profile.limits)).naming("limits")?;
    sys::leave_terminal();
    let mut messages = File::from(memfd_create("messages", MemfdFlags::CLOEXEC)?);
    let (report, mut left) = (Report::new(report.try_clone()?), MAX_ATTEMPTS);
    // `--die-with-parent` ends `bwrap` when the parent thread ends. So its parent must be this process and not a thread
    // of the agent.
    sys::continue_in_copies(|| {
        left -= 1;
        if !report.is_without_sandbox() {
            return false;
        }
        let is_tried_again = left > 0 && messages.set_len(0).is_ok();
        if messages.rewind().is_ok() && !is_tried_again {
            // If standard error is closed, the messages have no reader.
            let _ = io::copy(&mut messages, &mut io::stderr());
        }
        is_tried_again
    })?;
    Ok(messages)
}

/// Parts of a command, and files that are open for it.
pub(crate) struct CommandParts<'p> {
    pub(crate) words: &'p [OsString],
    /// Environment variables of the command that must not be set when this program starts.
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) report: &'p File,
    /// The file for the messages of `bwrap`.
    pub(crate) messages: &'p File,
}

/// Arguments of `bwrap` for the mounts, and the mounts that must result from them.
struct Arguments {
    root: Root,
    words: Vec<OsString>,
    expected: Vec<Expected>,
}

impl Arguments {
    /// Adds a mount of a file that the agent has judged.
    fn bind(&mut self, option: &str, place: KnownPath, to: &Path) {
        self.words.extend([option.into(), place.path().into(), to.into()]);
        self.expected.push(Expected { path: to.to_owned(), place: Some(place) });
    }

    /// Adds a mount that has no judged file: `bwrap` makes it, or it is the null device.
    fn add_own_mount(&mut self, words: &[&str], path: &Path) {
        self.words.extend(words.iter().map(OsString::from));
        self.words.push(path.into());
        self.expected.push(Expected { path: path.to_owned(), place: None });
    }

    fn guard(&mut self, guards: BTreeMap<PathBuf, Guard>) -> io::Result<()> {
        let mut found: BTreeMap<PathBuf, Guarded> = BTreeMap::new();
        for (path, guard) in guards {
            let guarded = self.root.find_guarded(&path, guard).naming(path.to_string_lossy())?;
            // `bwrap` would mount the target of a link, so links get no guard. A link that a command has replaced is
            // restored when the command has ended.
            let guarded = guarded.filter(|it| it.opened.kind != FileType::Symlink);
            if let Some(guarded) = guarded
                && found.get(&guarded.path).is_none_or(|it| it.guard == Guard::Pinned)
            {
                found.insert(guarded.path.clone(), guarded);
            }
        }
        // A later `--bind` would make a part of a read-only directory writable again.
        drop_held(&mut found, |guarded| guarded.guard == Guard::ReadOnly);
        for (path, Guarded { opened, guard, .. }) in found {
            let option = if guard == Guard::ReadOnly { "--ro-bind" } else { "--bind" };
            self.bind(option, opened.to_known_path(&path), &path);
        }
        Ok(())
    }

    /// Replaces the home by an empty directory, and mounts its readable parts in it.
    fn home(&mut self, path: &Path, profile: &Profile) {
        self.add_own_mount(&["--tmpfs"], path);
        for path in profile.readable_in_home() {
            // Files that have been removed, or that now lie behind a link, are left out.
            if let Ok(found) = self.root.find(path) {
                self.bind("--ro-bind", found.to_known_path(path), path);
            }
        }
        for HomeLink { path, target } in profile.links_in_home() {
            self.words.extend(["--symlink".into(), target.into(), path.into()]);
        }
    }

    /// Covers a directory with an empty one without permissions, and a file with the null device.
    fn hide(&mut self, path: &Path) {
        match self.root.find(path) {
            Ok(found) if found.kind == FileType::Directory => {
                self.add_own_mount(&["--perms", "0000", "--tmpfs"], path);
                self.words.extend(["--remount-ro".into(), path.into()]);
            }
            Ok(_) => self.add_own_mount(&["--ro-bind", "/dev/null"], path),
            Err(_) => {}
        }
    }
}

fn arguments(profile: &Profile) -> io::Result<Arguments> {
    let mut made = Arguments { root: Root::open()?, words: Vec::new(), expected: Vec::new() };
    let Layout { seen, unseen } = Layout::from_profile(profile);
    let option = |place: &KnownPath| if profile.writes(place) { "--bind" } else { "--ro-bind" };
    for place in seen {
        made.bind(option(place), place.clone(), place.path());
    }
    let home = replaced_home(profile).map(|home| home.path.as_path());
    if let Some(path) = home {
        made.home(path, profile);
    }
    // `/dev`, `/proc`, `/run` and `/tmp` come after the workspace: otherwise a project could choose a path that covers
    // the replacements with the machine's own directories.
    for (option, path) in [("--dev", "/dev"), ("--proc", "/proc")] {
        made.add_own_mount(&[option], Path::new(path));
    }
    let shared = bounded_memory_bytes(profile.limits).to_string();
    made.add_own_mount(&["--size", &shared, "--tmpfs"], Path::new("/dev/shm"));
    for path in run_directories() {
        made.add_own_mount(&["--size", RUN_BYTES, "--tmpfs"], &path);
    }
    if let Some(place) = profile.temporary_directory() {
        for path in temporary_directories() {
            made.bind("--bind", place.clone(), &path);
        }
    }
    for place in unseen {
        made.bind(option(place), place.clone(), place.path());
    }
    made.guard(guards(profile))?;
    for path in outermost_hidden(profile) {
        made.hide(path);
    }
    // The home, `/proc` and `/dev` itself are made read-only at the end, when no more mount points have to be made in
    // them. `/dev` would otherwise be a place without a limit of size.
    for path in home.into_iter().chain(["/proc", "/dev"].map(Path::new)) {
        made.words.extend(["--remount-ro".into(), path.into()]);
    }
    Ok(made)
}

/// Checks that each path now has the file that the agent had judged, or a file system that `bwrap` made for it. `bwrap`
/// works by names, which may have led to other files by the time it mounted them. As each mount is found at its own
/// path, none has ended up at another.
pub(crate) fn check(expected: &[Expected]) -> io::Result<()> {
    let root = Root::open()?;
    for Expected { path, place } in expected {
        let found = match root.find(path) {
            // A file that was to be hidden, and that no longer exists, needs no mask.
            Err(Errno::NOENT | Errno::NOTDIR) if place.is_none() => continue,
            found => found.naming(path.to_string_lossy())?,
        };
        let is_judged = place.as_ref().is_none_or(|place| found.is(place));
        if !found.is_mount() || !is_judged {
            let why = "the file was changed while the sandbox was made; try again";
            return Err(io::Error::other(format!("{}: {why}", path.display())));
        }
    }
    Ok(())
}

/// Returns the command that starts `bwrap` to make a sandbox, and the descriptors that must stay open for it. In the
/// sandbox, this program runs again, [checks](check) the mounts and becomes the command.
pub(crate) fn command(
    program: &Path,
    profile: &Profile,
    parts: CommandParts<'_>,
) -> io::Result<(Command, Vec<OwnedFd>)> {
    let CommandParts { words, variables, report, messages } = parts;
    let mut command = Command::new(program);
    command.stderr(messages.try_clone()?);
    let (continued, errors) = (report::shared(report)?, dup(io::stderr())?);
    // Without this, commands that root runs would keep all capabilities, and could write the machine's settings in
    // `/proc`.
    command.args(["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/", "/"]);
    if profile.network {
        command.arg("--share-net");
    }
    let Arguments { words: arguments, expected, .. } = arguments(profile)?;
    command.args(arguments);
    let mut open = Vec::new();
    for program in seccomp::exported(seccomp::SharedSurroundings::Own)? {
        let filter = left_open(&program)?;
        command.arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
        open.push(filter);
    }
    command.arg("--chdir").arg(std::env::current_dir()?);
    // The helper is started by its descriptor, as the directory of its file may be hidden in the sandbox.
    let own = rustix::fs::open("/proc/self/exe", OFlags::RDONLY, Mode::empty())?;
    let order = left_open(&serde_json::to_vec(&Order::Check {
        expected,
        variables,
        report: continued.as_raw_fd(),
        errors: errors.as_raw_fd(),
    })?)?;
    command.arg("--").arg(format!("/proc/self/fd/{}", own.as_raw_fd()));
    command.arg(HELPER_ARGUMENT).arg(order.as_raw_fd().to_string()).args(words);
    open.extend([own, order, continued, errors]);
    // From here on, a failure is one of `bwrap`.
    report::begin_bubblewrap(report)?;
    Ok((command, open))
}

/// Returns a descriptor that stays open in programs that this process becomes, and from which they read these bytes.
fn left_open(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("sandbox", MemfdFlags::empty())?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
