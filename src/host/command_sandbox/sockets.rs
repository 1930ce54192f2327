//! Sockets of programs outside that commands would see: neither a network of their own nor a read-only mount keeps
//! commands from connecting to them.
//!
//! In the workspace the walk finds them, whatever their paths were when they were bound. Elsewhere there are too many
//! files to look through before each command: there the kernel's lists of bound sockets say which directories to look
//! at. The lists of other network namespaces, the directories that programs work in and what else lies beside a socket
//! are looked at as well, as a socket can be bound in one, by a relative path, and be renamed.
//!
//! A session's own sockets keep working. A socket is the session's own if it lies where commands write, has come up
//! since the first command that could have made it, and is on no list of the machine's own network.

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

/// Maximum number of sockets that are masked one by one: each costs a command a little time. Of more, the directories
/// are.
const MAX_MASKED: usize = 500;

/// Directories in which commands see other files than those of the machine, besides those for temporary files and
/// for services.
const OTHERS_REPLACED: [&str; 2] = ["/dev", "/proc"];

/// A socket as it came up: another one at the same path has another number, or was made at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SocketId {
    device: u64,
    number: u64,
    made: Option<SystemTime>,
}

/// Files that matter to a search for sockets.
pub(super) struct SocketScope<'s> {
    /// Real paths of the directories that commands may write.
    pub(super) written: &'s [&'s Path],
    /// Sockets that commands may connect to.
    pub(super) reachable: &'s [PathBuf],
    /// `true` if commands use the machine's network: its list has their sockets, too.
    pub(super) shares_network: bool,
}

impl SocketScope<'_> {
    /// Returns `true` if commands see the machine's files in a directory.
    fn sees(&self, directory: &Path) -> bool {
        let mut replaced =
            RUN_DIRECTORIES.iter().chain(&TEMPORARY_DIRECTORIES).chain(&OTHERS_REPLACED);
        !replaced.any(|it| directory.starts_with(it)) || is_below_any(directory, self.written)
    }
}

/// The sockets that one session has seen.
#[derive(Default)]
pub(super) struct ForeignSockets(Mutex<SocketsSeen>);

#[derive(Default)]
struct SocketsSeen {
    /// `true` for the session's own.
    known: HashMap<SocketId, bool>,
    /// `true` if a command that may write has begun.
    has_begun: bool,
}

impl ForeignSockets {
    /// Takes note that a command begins that can make sockets where others look for them.
    pub(super) fn begin(&self) {
        self.0.lock().has_begun = true;
    }

    /// Returns the sockets, and directories, to mask: real paths. `walked`: the sockets that walks through the workspace
    /// and through what is shown of the home have found. Blocks.
    pub(super) fn masked(&self, walked: Vec<PathBuf>, scope: &SocketScope<'_>) -> Vec<PathBuf> {
        let bound = BoundNames::read();
        let mut found: BTreeSet<_> = walked.into_iter().collect();
        let directories = bound.directories().into_iter().filter(|it| scope.sees(it));
        found.extend(directories.flat_map(|it| sockets_in(&it)));
        // A directory that cannot be listed has no other sockets that are known.
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
                // A server that starts again removes the file of its last run, which it could not if the file were masked.
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

/// Returns the sockets in a directory; none if it cannot be listed.
fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = Entries::at(directory).into_iter().flatten().flatten();
    let sockets = entries.filter(|(_, kind)| kind.is_socket());
    sockets.map(|(name, _)| directory.join(name)).collect()
}

fn socket_id(path: &Path) -> Option<SocketId> {
    let data = path.symlink_metadata().ok().filter(|data| data.file_type().is_socket())?;
    Some(SocketId { device: data.dev(), number: data.ino(), made: data.created().ok() })
}

/// Returns whether a program listens at a socket. The program does not notice: a datagram socket that is connected sends
/// nothing, and a socket of another kind refuses it.
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
        // The path itself may be longer than the address of a socket.
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        connect(&socket, &address)
    };
    // A socket that the agent may not connect to is closed to its commands, too.
    !matches!(connected(), Err(Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS))
}

/// Other systems cannot tell.
#[cfg(not(target_os = "linux"))]
fn is_listened_at(_path: &Path) -> bool {
    true
}

/// Paths at which programs have bound sockets, as far as the kernel says.
#[derive(Default)]
struct BoundNames {
    /// Those in the machine's own network.
    machine: BTreeSet<PathBuf>,
    /// Those in others.
    others: BTreeSet<PathBuf>,
}

/// Names of one network namespace.
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
            // Processes of other users cannot be looked at.
            let Ok(namespace) = fs::read_link(process.join("ns/net")) else { continue };
            let names = namespaces.entry(namespace).or_insert_with(|| NamespaceNames::of(&process));
            names.processes.push(process);
        }
        let mut bound = Self::default();
        for (namespace, names) in namespaces {
            let paths = if namespace == own { &mut bound.machine } else { &mut bound.others };
            paths.extend(names.real_paths());
        }
        bound
    }

    /// Returns the directories of the names: a socket that was renamed may still be in its own.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let all = self.machine.iter().chain(&self.others);
        all.filter_map(|path| path.parent().map(Path::to_owned)).collect()
    }
}

impl NamespaceNames {
    fn of(process: &Path) -> Self {
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

/// Returns the name in a line of the list, which follows seven columns. An abstract one begins with `@`.
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

    /// A directory that is short enough for the address of a socket.
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
        // Sockets are masked in the order of their paths: first the 502 in `a` and `b`, then `c/0`, then `d` in the root.
        let many = (0..MAX_MASKED + 2).map(|number| {
            let directory = if number < MAX_MASKED - 1 { "a" } else { "b" };
            format!("{directory}/{number:03}")
        });
        let names: Vec<_> = many.chain(["c/0".to_owned(), "d".to_owned()]).collect();
        let bound: Vec<_> =
            names.iter().map(|name| UnixDatagram::bind(root.join(name)).unwrap()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut expected: Vec<_> = names[..MAX_MASKED].iter().map(|name| root.join(name)).collect();
        // The root of the workspace is not masked as a whole, or commands could not work in it: the socket `d` is.
        expected.extend(["b", "c", "d"].map(|name| root.join(name)));
        assert_eq!(masked(&sockets, &root, &names), expected);
        // What was there before the first command is foreign for good, also where only the directory was masked.
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
