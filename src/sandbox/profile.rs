//! What a command may do.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Directories for temporary files. Mechanisms that mount put the session's own in their place.
pub const TEMPORARY_DIRECTORIES: [&str; 2] = ["/tmp", "/var/tmp"];

/// Directories with sockets of the machine's and the user's services. Mechanisms that mount put empty ones in
/// their place.
pub const RUN_DIRECTORIES: [&str; 2] = ["/run", "/var/run"];

/// A file or directory that was looked up once: another one that takes its name later is not it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPath {
    /// Absolute path, no part of which was a link.
    path: PathBuf,
    device: u64,
    number: u64,
}

impl KnownPath {
    /// Looks up the file that a path leads to now.
    pub fn at(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let data = path.symlink_metadata()?;
        Ok(Self { path, device: data.dev(), number: data.ino() })
    }

    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn new(path: &Path, device: u64, number: u64) -> Self {
        Self { path: path.to_owned(), device, number }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether its path still leads to it, and not by a link at its end.
    pub fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|data| self.is(data.dev(), data.ino()))
    }

    /// Returns whether it is the file with these numbers.
    pub fn is(&self, device: u64, number: u64) -> bool {
        (self.device, self.number) == (device, number)
    }
}

/// Permissions of a command in the sandbox. Paths are absolute and real: no directory above one is a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The directories that are worked in.
    pub roots: Vec<KnownPath>,
    /// `true` if the roots can be written.
    pub writes_roots: bool,
    /// The place of temporary files, which can always be written.
    pub temporary: Option<Temporary>,
    /// Files and directories outside the roots that can be written, such as caches. One whose path
    /// leads to another one now counts for nothing.
    pub writable: Vec<KnownPath>,
    /// Files, directories and links that cannot be written or replaced. One that does not exist, or that
    /// no command can write anyway, counts for nothing.
    pub protected: Vec<PathBuf>,
    /// Files and directories whose content cannot be read. One that does not exist counts for
    /// nothing.
    pub hidden: Vec<PathBuf>,
    /// The user's home directory, if it is hidden but for a part.
    pub home: Option<Home>,
    /// Sockets of programs outside that the command cannot connect to, and directories of such. Mechanisms that mount
    /// hold them; the others refuse all connections, or none.
    pub foreign_sockets: Vec<PathBuf>,
    /// Sockets of programs outside that the command can connect to, wherever they are. One whose path leads to another
    /// one now counts for nothing.
    pub reachable_sockets: Vec<KnownPath>,
    /// `true` if the command can use the machine's network.
    pub network: bool,
    /// `true` if the command and those that are not apart see nothing of each other's processes.
    pub apart: bool,
    /// Bounds of what the command takes.
    pub limits: Limits,
}

impl Profile {
    /// Returns whether a place is among those that the command can write.
    #[cfg(target_os = "linux")]
    pub(crate) fn writes(&self, place: &KnownPath) -> bool {
        (self.writes_roots && self.roots.contains(place)) || self.writable.contains(place)
    }

    /// Returns the directory of temporary files on the disk, if they are there.
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

/// A home directory of which a command sees, besides roots and writable paths, only a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Its path, a real one.
    pub path: PathBuf,
    /// Files and directories in it that can be read. One that does not exist counts for nothing.
    pub readable: Vec<PathBuf>,
    /// Links in it that lead to what can be read.
    pub links: Vec<HomeLink>,
}

/// A link in a home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeLink {
    /// Its path; no directory above it is a link.
    pub path: PathBuf,
    /// The text of the link.
    pub target: PathBuf,
}

impl Home {
    /// Adds files and directories in it, real paths, to those that can be read.
    pub fn show(&mut self, paths: Vec<PathBuf>) {
        self.readable.extend(paths);
        self.readable.sort();
        self.readable.dedup_by(|path, above| path.starts_with(above));
    }

    /// Returns whether a path, a real one, lies in the home and in nothing of it that can be read.
    pub fn hides(&self, path: &Path) -> bool {
        path.starts_with(&self.path) && !self.readable.iter().any(|place| path.starts_with(place))
    }
}

impl Profile {
    /// Returns whether a path, a real one, lies in the part of the home that is hidden.
    pub fn hides_in_home(&self, path: &Path) -> bool {
        let mut places = self.roots.iter().chain(&self.writable).map(KnownPath::path);
        let is_hidden = self.home.as_ref().is_some_and(|home| home.hides(path));
        is_hidden && !places.any(|place| path.starts_with(place))
    }

    /// Returns what of the home can be read, and is in no root and no writable path.
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

/// What a command may do with files: the terms that people and settings use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Only the session's temporary directory can be written.
    ReadOnly,
    /// The workspace can be written, except for what is protected.
    WorkspaceWrite,
    /// There is no sandbox.
    DangerFullAccess,
}

impl SandboxMode {
    /// All of them, the strictest first.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::WorkspaceWrite, Self::DangerFullAccess];

    /// Returns its name.
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

/// Bounds of what a command takes. `None`: the system's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of processes and threads in the session's sandbox; with bubblewrap, of each
    /// command. With Landlock, all of the user's count that are started after the command. The system does
    /// not hold root to it.
    pub processes: Option<u64>,
    /// Maximum memory for the data of each process, in bytes. For the sum the agent looks itself.
    pub memory_bytes: Option<u64>,
    /// Maximum size of the session's temporary files where they are in memory, and of a command's `/dev/shm`, in
    /// bytes.
    pub temporary_bytes: Option<u64>,
}
