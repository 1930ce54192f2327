//! Permissions of a command in the sandbox.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Directories for temporary files. Mechanisms that mount replace them by the session's own.
pub const TEMPORARY_DIRECTORIES: [&str; 2] = ["/tmp", "/var/tmp"];

/// Directories with sockets of the machine's and the user's services. Mechanisms that mount replace these
/// directories by empty directories.
pub const RUN_DIRECTORIES: [&str; 2] = ["/run", "/var/run"];

/// The identity of a file or directory at the time when it was looked up. Another file that takes its path later is not
/// the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPath {
    /// Absolute path, no component of which was a link.
    path: PathBuf,
    device: u64,
    number: u64,
}

impl KnownPath {
    /// Looks up the file to which a path leads now.
    pub fn at(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let data = path.symlink_metadata()?;
        Ok(Self { path, device: data.dev(), number: data.ino() })
    }

    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn new(path: &Path, device: u64, number: u64) -> Self {
        Self { path: path.to_owned(), device, number }
    }

    /// Returns the path at which the file was looked up.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the path still leads to the same file. A link at the end of the path is not followed.
    pub fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|data| self.is(data.dev(), data.ino()))
    }

    /// Returns whether this is the file with the given device and inode numbers.
    pub fn is(&self, device: u64, number: u64) -> bool {
        (self.device, self.number) == (device, number)
    }
}

/// Permissions of a command in the sandbox. Paths are absolute and real: no directory above one is a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Root directories of the workspace.
    pub roots: Vec<KnownPath>,
    /// `true` if the command can write the roots.
    pub writes_roots: bool,
    /// Place of temporary files, which can always be written.
    pub temporary: Option<Temporary>,
    /// Files and directories outside the roots that can be written, such as caches. An entry whose path leads to
    /// another file by now has no effect.
    pub writable: Vec<KnownPath>,
    /// Files, directories and links that cannot be written or replaced. An entry has no effect if it does not exist or
    /// if no command can write it anyway.
    pub protected: Vec<PathBuf>,
    /// Files and directories whose content cannot be read. An entry that does not exist has no effect.
    pub hidden: Vec<PathBuf>,
    /// The user's home directory, if all of it but a part is hidden.
    pub home: Option<Home>,
    /// Sockets of programs outside the sandbox to which the command cannot connect, and directories of such sockets.
    /// Only mechanisms that mount use this list; the other mechanisms refuse either all connections to sockets or none.
    pub foreign_sockets: Vec<PathBuf>,
    /// Sockets of programs outside the sandbox to which the command can connect, in whatever directory. An entry whose
    /// path leads to another file by now has no effect.
    pub reachable_sockets: Vec<KnownPath>,
    /// `true` if the command can use the machine's network.
    pub network: bool,
    /// `true` if the command and the commands without this flag cannot see each other's processes.
    pub apart: bool,
    /// Limits of the resources that the command uses.
    pub limits: Limits,
}

impl Profile {
    /// Returns whether the command can write a root or a writable path.
    #[cfg(target_os = "linux")]
    pub(crate) fn writes(&self, place: &KnownPath) -> bool {
        (self.writes_roots && self.roots.contains(place)) || self.writable.contains(place)
    }

    /// Returns the directory of temporary files, if they are on the disk.
    pub fn temporary_directory(&self) -> Option<&KnownPath> {
        match self.temporary.as_ref()? {
            Temporary::Directory(directory) => Some(directory),
            Temporary::Memory => None,
        }
    }
}

/// The place of temporary files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Temporary {
    /// The session's file system in memory, see [`Sandbox::temporary`](crate::Sandbox::temporary).
    Memory,
    /// A directory on the disk.
    Directory(KnownPath),
}

/// A home directory of which a command sees only a part, in addition to roots and writable paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Real path of the home directory.
    pub path: PathBuf,
    /// Files and directories of the home that can be read. An entry that does not exist has no effect.
    pub readable: Vec<PathBuf>,
    /// Links in the home that lead to readable files.
    pub links: Vec<HomeLink>,
}

/// A link in a home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeLink {
    /// Path of the link; no directory above it is a link.
    pub path: PathBuf,
    /// The text of the link.
    pub target: PathBuf,
}

impl Home {
    /// Makes files and directories of the home readable, given by their real paths.
    pub fn show(&mut self, paths: Vec<PathBuf>) {
        self.readable.extend(paths);
        self.readable.sort();
        self.readable.dedup_by(|path, above| path.starts_with(above));
    }

    /// Returns whether a real path lies in the home but in none of its readable parts.
    pub fn hides(&self, path: &Path) -> bool {
        path.starts_with(&self.path) && !self.readable.iter().any(|place| path.starts_with(place))
    }
}

impl Profile {
    /// Returns whether a real path lies in the hidden part of the home.
    pub fn hides_in_home(&self, path: &Path) -> bool {
        let mut places = self.roots.iter().chain(&self.writable).map(KnownPath::path);
        let is_hidden = self.home.as_ref().is_some_and(|home| home.hides(path));
        is_hidden && !places.any(|place| path.starts_with(place))
    }

    /// Returns the readable paths of the home that lie in no root and no writable path.
    pub(crate) fn readable_in_home(&self) -> impl Iterator<Item = &Path> {
        let others: Vec<_> = self.roots.iter().chain(&self.writable).map(KnownPath::path).collect();
        let readable = self.home.iter().flat_map(|home| &home.readable).map(PathBuf::as_path);
        readable.filter(move |path| !others.iter().any(|place| path.starts_with(place)))
    }

    /// Returns the links in the hidden part of the home.
    pub(crate) fn links_in_home(&self) -> impl Iterator<Item = &HomeLink> {
        let links = self.home.iter().flat_map(|home| &home.links);
        links.filter(|link| self.hides_in_home(&link.path))
    }
}

/// Sandbox mode: the files that a command may write, in the terms that people and settings use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Only the session's temporary directory can be written.
    ReadOnly,
    /// The workspace can be written too, except for protected files.
    WorkspaceWrite,
    /// There is no sandbox.
    DangerFullAccess,
}

impl SandboxMode {
    /// All modes, the strictest first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::WorkspaceWrite, Self::DangerFullAccess];

    /// Returns the name that settings use.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SandboxMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|mode| mode.name() == name);
        named.ok_or_else(|| {
            format!("`{name}` is not one of: {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Limits of the resources that a command uses. `None`: the system's own limit applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of processes and threads in the session's sandbox. With bubblewrap, the limit is for each
    /// command. With Landlock, all processes of the user count that are started after the command. The kernel does not
    /// apply the limit to root.
    pub processes: Option<u64>,
    /// Maximum memory for the data of each process, in bytes. The agent itself watches the sum over all processes.
    pub memory_bytes: Option<u64>,
    /// Maximum size of the session's temporary files if they are in memory, and of a command's `/dev/shm`, in bytes.
    pub temporary_bytes: Option<u64>,
}
