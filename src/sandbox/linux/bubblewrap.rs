//! Bubblewrap: a program that makes namespaces where this one may not.

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
use crate::order::{Expected, HELPER, Order};
use crate::profile::{HomeLink, KnownPath, Profile};
use crate::report::{self, Report};

/// Directories that the program is looked for in. `PATH` may lead into the workspace.
const DIRECTORIES: [&str; 5] =
    ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/run/wrappers/bin"];

/// Maximum size of a directory for sockets, in bytes.
const RUN_BYTES: &str = "1048576";

/// Number of times that a sandbox is made for one command, if a name changes each time while it is made.
const MAX_ATTEMPTS: u32 = 5;

/// Arguments of a look at whether the program works: old versions do not have all options.
const TRIED: [&str; 16] = [
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

/// Returns the path of the program if it works here; the error says why not.
pub(crate) fn program() -> Result<PathBuf, String> {
    let paths = DIRECTORIES.map(|directory| Path::new(directory).join("bwrap"));
    let Some(program) = paths.into_iter().find(|path| path.exists()) else {
        return Err("`bwrap` is not installed".to_owned());
    };
    let tried =
        Command::new(&program).args(TRIED).stdin(Stdio::null()).stdout(Stdio::null()).output();
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

/// Confines what [`command`] returns, as far as that is not the other program's to do. Returns in the
/// process that is to become the command; the one that was called ends as it does. Returns once more when the program
/// has made no sandbox: it works by names, and fails where a file has gone since. The result is the file for the
/// program's messages, which people see of the last attempt.
pub(crate) fn confine(profile: &Profile, report: &File) -> io::Result<File> {
    // Not `no new privileges`: where users may not make namespaces, bwrap is a set-user-id program.
    privileges::limit(privileges::beside_others(profile.limits)).naming("limits")?;
    sys::leave_terminal();
    let mut messages = File::from(memfd_create("messages", MemfdFlags::CLOEXEC)?);
    let (report, mut left) = (Report::new(report.try_clone()?), MAX_ATTEMPTS);
    // It ends with its parent, which must therefore not be a thread of the agent's.
    sys::continue_in_copies(|| {
        left -= 1;
        if !report.is_without_sandbox() {
            return false;
        }
        let is_tried_again = left > 0 && messages.set_len(0).is_ok();
        if messages.rewind().is_ok() && !is_tried_again {
            // If standard error is closed there is nobody to tell.
            let _ = io::copy(&mut messages, &mut io::stderr());
        }
        is_tried_again
    })?;
    Ok(messages)
}

/// Parts of a command, and files that are open for it.
pub(crate) struct CommandParts<'p> {
    pub(crate) words: &'p [OsString],
    /// Variables that this program must not be started with itself.
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) report: &'p File,
    /// The file for the program's messages.
    pub(crate) messages: &'p File,
}

/// Arguments of the program that say where files are, and what must have come of them.
struct Arguments {
    root: Root,
    words: Vec<OsString>,
    expected: Vec<Expected>,
}

impl Arguments {
    fn bind(&mut self, option: &str, place: KnownPath, to: &Path) {
        self.words.extend([option.into(), place.path().into(), to.into()]);
        self.expected.push(Expected { path: to.to_owned(), place: Some(place) });
    }

    fn own(&mut self, words: &[&str], path: &Path) {
        self.words.extend(words.iter().map(OsString::from));
        self.words.push(path.into());
        self.expected.push(Expected { path: path.to_owned(), place: None });
    }

    fn guard(&mut self, guards: BTreeMap<PathBuf, Guard>) -> io::Result<()> {
        let mut found: BTreeMap<PathBuf, Guarded> = BTreeMap::new();
        for (path, guard) in guards {
            let guarded = self.root.find_guarded(&path, guard).naming(path.to_string_lossy())?;
            // Bubblewrap would mount the target of a link, so links are left out. A link that the command replaces is
            // put back when the command has ended.
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
            self.bind(option, opened.place(&path), &path);
        }
        Ok(())
    }

    /// Puts an empty directory in the place of the home, and into it what can be read.
    fn home(&mut self, path: &Path, profile: &Profile) {
        self.own(&["--tmpfs"], path);
        for path in profile.readable_in_home() {
            // Files that are not there any more, or lie behind a link by now, are not seen.
            if let Ok(found) = self.root.find(path) {
                self.bind("--ro-bind", found.place(path), path);
            }
        }
        for HomeLink { path, target } in profile.links_in_home() {
            self.words.extend(["--symlink".into(), target.into(), path.into()]);
        }
    }

    fn hide(&mut self, path: &Path) {
        match self.root.find(path) {
            Ok(found) if found.kind == FileType::Directory => {
                self.own(&["--perms", "0000", "--tmpfs"], path);
                self.words.extend(["--remount-ro".into(), path.into()]);
            }
            Ok(_) => self.own(&["--ro-bind", "/dev/null"], path),
            Err(_) => {}
        }
    }
}

fn arguments(profile: &Profile) -> io::Result<Arguments> {
    let mut made = Arguments { root: Root::open()?, words: Vec::new(), expected: Vec::new() };
    let Layout { seen, unseen } = Layout::of(profile);
    let option = |place: &KnownPath| if profile.writes(place) { "--bind" } else { "--ro-bind" };
    for place in seen {
        made.bind(option(place), place.clone(), place.path());
    }
    let home = replaced_home(profile).map(|home| home.path.as_path());
    if let Some(path) = home {
        made.home(path, profile);
    }
    // `/dev`, `/proc`, `/run` and `/tmp` come after the workspace: a path that a project chose would otherwise cover
    // them with the machine's own.
    for (option, path) in [("--dev", "/dev"), ("--proc", "/proc")] {
        made.own(&[option], Path::new(path));
    }
    let shared = bounded_memory_bytes(profile.limits).to_string();
    made.own(&["--size", &shared, "--tmpfs"], Path::new("/dev/shm"));
    for path in run_directories() {
        made.own(&["--size", RUN_BYTES, "--tmpfs"], &path);
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
    // The home, `/proc` and `/dev` itself are made read-only: `/dev` has no limit of size.
    for path in home.into_iter().chain(["/proc", "/dev"].map(Path::new)) {
        made.words.extend(["--remount-ro".into(), path.into()]);
    }
    Ok(made)
}

/// Checks that bubblewrap has mounted every file that was judged at its path: bubblewrap works by names, which may
/// lead to other files by then. Each mount is found at its own path, so none is at another.
pub(crate) fn check(expected: &[Expected]) -> io::Result<()> {
    let root = Root::open()?;
    for Expected { path, place } in expected {
        let found = match root.find(path) {
            // A file that was to be hidden, and that is no longer there, needs no mask.
            Err(Errno::NOENT | Errno::NOTDIR) if place.is_none() => continue,
            found => found.naming(path.to_string_lossy())?,
        };
        let is_judged = place.as_ref().is_none_or(|place| found.is(place));
        if !found.is_mount() || !is_judged {
            let why = "it was changed while the sandbox was made; try again";
            return Err(io::Error::other(format!("{}: {why}", path.display())));
        }
    }
    Ok(())
}

/// Returns the command that has the program make a sandbox, in which this program becomes the command once
/// it has [checked](check) it, and the descriptors that it needs open.
pub(crate) fn command(
    program: &Path,
    profile: &Profile,
    parts: CommandParts<'_>,
) -> io::Result<(Command, Vec<OwnedFd>)> {
    let CommandParts { words, variables, report, messages } = parts;
    let mut command = Command::new(program);
    command.stderr(messages.try_clone()?);
    let (continued, errors) = (report::shared(report)?, dup(io::stderr())?);
    // What root runs would keep all capabilities, and could write the machine's settings in /proc.
    command.args(["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/", "/"]);
    if profile.network {
        command.arg("--share-net");
    }
    let Arguments { words: arguments, expected, .. } = arguments(profile)?;
    command.args(arguments);
    let mut open = Vec::new();
    for program in seccomp::exported(seccomp::Surroundings::Own)? {
        let filter = left_open(&program)?;
        command.arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
        open.push(filter);
    }
    command.arg("--chdir").arg(std::env::current_dir()?);
    // The helper is started by its descriptor: the directory of its file may be hidden in the sandbox.
    let own = rustix::fs::open("/proc/self/exe", OFlags::RDONLY, Mode::empty())?;
    let order = left_open(&serde_json::to_vec(&Order::Check {
        expected,
        variables,
        report: continued.as_raw_fd(),
        errors: errors.as_raw_fd(),
    })?)?;
    command.arg("--").arg(format!("/proc/self/fd/{}", own.as_raw_fd()));
    command.arg(HELPER).arg(order.as_raw_fd().to_string()).args(words);
    open.extend([own, order, continued, errors]);
    // From here on, a failure is bubblewrap's.
    report::begin_bubblewrap(report)?;
    Ok((command, open))
}

/// Returns a descriptor for other programs, from which they read these bytes.
fn left_open(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("sandbox", MemfdFlags::empty())?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
