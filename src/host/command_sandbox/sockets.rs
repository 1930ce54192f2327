//! Unix sockets of programs outside the sandbox. Commands would see them, and neither a network namespace nor a
//! read-only mount keeps a command from connecting to a socket that has a path. So such sockets are masked.
//!
//! In the workspace, the walk finds all sockets, whatever their paths were when they were bound. Elsewhere there are
//! too many files to walk through before each command. There the kernel's lists of bound sockets say which directories
//! to list. A socket can also be bound in another network namespace, by a relative path, or be renamed afterwards. So
//! the lists of all network namespaces are read, relative names are resolved against the working directories of
//! processes, and all sockets of a listed directory are masked.
//!
//! A session's own sockets keep working. A socket is the session's own if all of this is true: it lies where commands
//! can write, it has come up since the first command that could have made it, and it is on no list of the machine's own
//! network.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;
use tandem_sandbox::{RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

use crate::root::Entries;

/// Maximum number of sockets that are masked one by one: each costs a command a little time. In place of further
/// sockets, their directories are masked.
const MAX_MASKED: usize = 500;

/// Further directories in which commands see other files than the machine's. Directories for temporary files and for
/// services are not listed here.
const OTHERS_REPLACED: [&str; 2] = ["/dev", "/proc"];

/// Identity of a socket: another socket at the same path has another inode number or another time of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SocketId {
    device: u64,
    number: u64,
    made: Option<SystemTime>,
}

/// Input to a search for sockets.
pub(super) struct SocketScope<'s> {
    /// Real paths of the directories that commands may write.
    pub(super) written: &'s [&'s Path],
    /// Sockets that commands may connect to.
    pub(super) reachable: &'s [PathBuf],
    /// `true` if commands use the machine's network; the list of that network then has the commands' own sockets, too.
    pub(super) shares_network: bool,
}

impl SocketScope<'_> {
    /// Returns whether commands see the machine's files in a directory.
    fn sees(&self, directory: &Path) -> bool {
        let mut replaced =
            RUN_DIRECTORIES.iter().chain(&TEMPORARY_DIRECTORIES).chain(&OTHERS_REPLACED);
        !replaced.any(|it| directory.starts_with(it)) || is_below_any(directory, self.written)
    }
}

/// The sockets that one session has seen. The lock guards the record of them.
#[derive(Default)]
pub(super) struct ForeignSockets(Mutex<SocketsSeen>);

#[derive(Default)]
struct SocketsSeen {
    /// Sockets seen so far, each with `true` if it is the session's own.
    known: HashMap<SocketId, bool>,
    /// `true` once a command has begun that may write the workspace.
    has_begun: bool,
}

impl ForeignSockets {
    /// Records that a command begins that can make sockets in the workspace or in another writable directory.
    pub(super) fn begin(&self) {
        self.0.lock().has_begun = true;
    }

    /// Returns the real paths of sockets, and of directories with sockets, to mask. `walked`: the sockets that walks
    /// through the workspace and through the shown parts of the home have found. Blocks.
    pub(super) fn masked(&self, walked: Vec<PathBuf>, scope: &SocketScope<'_>) -> Vec<PathBuf> {
        // 1. Collects the sockets that the walks have found and those in the directories of all bound sockets that
        //    commands see.
        // 2. Leaves out sockets that settings let commands connect to, the session's own, and sockets without a
        //    listener.
        // 3. Replaces the sockets beyond the limit by their directories, but not by one of `written` or a directory
        //    above it.
        let bound = BoundNames::read();
        let mut found: BTreeSet<_> = walked.into_iter().collect();
        let directories = bound.directories().into_iter().filter(|it| scope.sees(it));
        found.extend(directories.flat_map(|it| sockets_in(&it)));
        // The names themselves are added as well: they are the only known sockets of a directory that cannot be listed.
        let is_seen = |path: &&PathBuf| path.parent().is_some_and(|it| scope.sees(it));
        found.extend(bound.machine.iter().chain(&bound.others).filter(is_seen).cloned());
        let mut seen = self.0.lock();
        let mut masked = Vec::new();
        for path in found {
            let Some(id) = socket_id(&path).filter(|_| !scope.reachable.contains(&path)) else {
                continue;
            };
            let may_be_own = seen.has_begun
                && is_below_any(&path, scope.written)
                && (scope.shares_network || !bound.machine.contains(&path));
            if !is_listened_at(&path) {
                // A socket without a listener is not masked: a server that starts again removes the socket file of its
                // last run, and could not remove a masked file.
                seen.known.remove(&id);
            } else if !*seen.known.entry(id).or_insert(may_be_own) {
                masked.push(path);
            }
        }
        let many = masked.split_off(masked.len().min(MAX_MASKED));
        let above = |path: PathBuf| {
            let directory =
                path.parent().filter(|it| !scope.written.iter().any(|w| w.starts_with(it)));
            directory.map_or_else(|| path.clone(), Path::to_owned)
        };
        masked.extend(many.into_iter().map(above).collect::<BTreeSet<_>>());
        masked
    }
}

fn is_below_any(path: &Path, directories: &[&Path]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

/// Returns the sockets in a directory; an empty list if the directory cannot be listed.
fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = Entries::at(directory).into_iter().flatten().flatten();
    let sockets = entries.filter(|(_, kind)| kind.is_socket());
    sockets.map(|(name, _)| directory.join(name)).collect()
}

fn socket_id(path: &Path) -> Option<SocketId> {
    let data = path.symlink_metadata().ok().filter(|data| data.file_type().is_socket())?;
    Some(SocketId { device: data.dev(), number: data.ino(), made: data.created().ok() })
}

/// Returns `true` if a program listens at a socket. The test does not disturb the program: it connects a datagram
/// socket. If the program's socket is a datagram socket, too, nothing is sent; otherwise the connection is refused
/// with another error.
#[cfg(target_os = "linux")]
fn is_listened_at(path: &Path) -> bool {
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::Errno;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };

    let connected = || -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty())?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        // The socket is named through its descriptor, as its path may be longer than a socket address can be.
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        connect(&socket, &address)
    };
    // If the agent itself may not connect, its commands may not either, so the socket counts as having no listener.
    !matches!(connected(), Err(Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS))
}

/// Returns `true`, because this cannot be found out on other systems.
#[cfg(not(target_os = "linux"))]
fn is_listened_at(_path: &Path) -> bool {
    true
}

/// Paths at which programs have bound sockets, according to the kernel.
#[derive(Default)]
struct BoundNames {
    /// Paths of sockets in this process's own network namespace.
    machine: BTreeSet<PathBuf>,
    /// Paths of sockets in other network namespaces.
    others: BTreeSet<PathBuf>,
}

/// Names of the sockets of one network namespace, and the processes in it.
#[derive(Default)]
struct NamespaceNames {
    absolute: BTreeSet<PathBuf>,
    relative: BTreeSet<PathBuf>,
    processes: Vec<PathBuf>,
}

impl BoundNames {
    fn read() -> Self {
        let own = fs::read_link("/proc/self/ns/net").unwrap_or_default();
        let mut namespaces: BTreeMap<PathBuf, NamespaceNames> = BTreeMap::new();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let processes = processes.filter(|entry| is_number(&entry.file_name()));
        for process in processes.map(|entry| entry.path()).chain([PathBuf::from("/proc/self")]) {
            // The namespaces of other users' processes cannot be read.
            let Ok(namespace) = fs::read_link(process.join("ns/net")) else { continue };
            let names = namespaces
                .entry(namespace)
                .or_insert_with(|| NamespaceNames::from_process(&process));
            names.processes.push(process);
        }
        let mut bound = Self::default();
        for (namespace, names) in namespaces {
            let paths = if namespace == own { &mut bound.machine } else { &mut bound.others };
            paths.extend(names.real_paths());
        }
        bound
    }

    /// Returns the directories of the bound paths: a socket that was renamed may still be in the directory where it was
    /// bound.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let all = self.machine.iter().chain(&self.others);
        all.filter_map(|path| path.parent().map(Path::to_owned)).collect()
    }
}

impl NamespaceNames {
    fn from_process(process: &Path) -> Self {
        let mut names = Self::default();
        let list = fs::read(process.join("net/unix")).unwrap_or_default();
        for name in list.split(|byte| *byte == b'\n').skip(1).filter_map(name) {
            let path = PathBuf::from(OsStr::from_bytes(name));
            if path.is_absolute() { &mut names.absolute } else { &mut names.relative }.insert(path);
        }
        names
    }

    fn real_paths(self) -> BTreeSet<PathBuf> {
        let mut paths = self.absolute;
        if !self.relative.is_empty() {
            let directories =
                self.processes.iter().filter_map(|it| fs::read_link(it.join("cwd")).ok());
            let directories: BTreeSet<_> = directories.collect();
            for name in &self.relative {
                let there = directories.iter().map(|directory| directory.join(name));
                paths.extend(there.filter(|path| path.symlink_metadata().is_ok()));
            }
        }
        let real =
            |path: PathBuf| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        paths.into_iter().filter_map(real).collect()
    }
}

/// Returns the socket name in a line of `/proc/net/unix`, which follows seven columns; `None` for an abstract name,
/// which begins with `@`.
fn name(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        rest = &rest[rest.iter().position(|byte| *byte == b' ')?..];
    }
    rest.strip_prefix(b" ").filter(|name| !name.is_empty() && !name.starts_with(b"@"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    /// Makes a directory whose path is short enough for the address of a socket.
    fn directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    fn masked(sockets: &ForeignSockets, root: &Path, found: &[&str]) -> Vec<PathBuf> {
        let scope = SocketScope { written: &[root], reachable: &[], shares_network: true };
        sockets.masked(found.iter().map(|name| root.join(name)).collect(), &scope)
    }

    #[test]
    fn a_socket_that_was_there_before_the_first_command_is_masked_and_a_later_one_is_not() {
        let (_directory, root) = directory();
        let sockets = ForeignSockets::default();
        let _foreign = UnixListener::bind(root.join("foreign")).unwrap();
        assert_eq!(masked(&sockets, &root, &["foreign"]), [root.join("foreign")]);
        sockets.begin();
        let _own = UnixListener::bind(root.join("own")).unwrap();
        fs::rename(root.join("foreign"), root.join("renamed")).unwrap();
        assert_eq!(masked(&sockets, &root, &["renamed", "own"]), [root.join("renamed")]);
    }

    #[test]
    fn of_very_many_the_directories_are_masked_but_for_the_roots_that_commands_write() {
        let (_directory, root) = directory();
        let sockets = ForeignSockets::default();
        for name in ["a", "b", "c"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        // Sockets are masked in the order of their paths: first the 502 in `a` and `b`, then `c/0`, then `d` in the
        // root.
        let many = (0..MAX_MASKED + 2).map(|number| {
            let directory = if number < MAX_MASKED - 1 { "a" } else { "b" };
            format!("{directory}/{number:03}")
        });
        let names: Vec<_> = many.chain(["c/0".to_owned(), "d".to_owned()]).collect();
        let bound: Vec<_> =
            names.iter().map(|name| UnixDatagram::bind(root.join(name)).unwrap()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut expected: Vec<_> = names[..MAX_MASKED].iter().map(|name| root.join(name)).collect();
        // The root of the workspace is not masked as a whole, or commands could not work in it. Instead the socket `d`
        // itself is masked.
        expected.extend(["b", "c", "d"].map(|name| root.join(name)));
        assert_eq!(masked(&sockets, &root, &names), expected);
        // Sockets from before the first command stay foreign, also those of which only the directory was masked.
        sockets.begin();
        assert_eq!(masked(&sockets, &root, &names), expected);
        drop(bound);
    }

    #[test]
    fn a_socket_on_the_list_of_the_machines_network_is_not_the_sessions_own() {
        let (_directory, root) = directory();
        let sockets = ForeignSockets::default();
        sockets.begin();
        let _foreign = UnixListener::bind(root.join("foreign")).unwrap();
        let scope = SocketScope { written: &[&root], reachable: &[], shares_network: false };
        assert_eq!(sockets.masked(Vec::new(), &scope), [root.join("foreign")]);
        let reachable = [root.join("foreign")];
        let scope = SocketScope { reachable: &reachable, ..scope };
        assert!(sockets.masked(Vec::new(), &scope).is_empty());
    }

    #[test]
    fn a_socket_is_listened_at_until_its_program_has_closed_it() {
        let (_directory, root) = directory();
        let stream = UnixListener::bind(root.join("stream")).unwrap();
        let datagrams = UnixDatagram::bind(root.join("datagrams")).unwrap();
        assert!(is_listened_at(&root.join("stream")) && is_listened_at(&root.join("datagrams")));
        stream.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        assert!(stream.accept().is_err() && datagrams.recv(&mut [0]).is_err(), "it was touched");
        drop((stream, datagrams));
        assert!(!is_listened_at(&root.join("stream")) && !is_listened_at(&root.join("datagrams")));
    }

    #[test]
    fn a_name_follows_seven_columns() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01    12 /a b/c";
        assert_eq!(name(line), Some(&b"/a b/c"[..]));
        assert_eq!(name(b"0000000000000000: 00000003 00000000 00000000 0001 03 381845"), None);
        assert_eq!(name(b"0000000000000000: 00000003 00000000 00000000 0001 03 38 @x"), None);
    }
}
