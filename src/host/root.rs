//! Directories that are opened once. Files below such a directory are opened from its descriptor and through no link.
//! So a path that was checked still leads to the same file when it is used, even if another program replaces
//! directories by links meanwhile.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat,
};
#[cfg(target_os = "linux")]
use rustix::fs::{ResolveFlags, openat2};
use rustix::io::Errno;
use tandem_sandbox::KnownPath;

/// Flags for opening a directory to look up names in it. `O_PATH`, where it exists, does not need the permission to
/// list the directory.
#[cfg(target_os = "linux")]
const DIRECTORY_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Flags for opening a directory to list it.
const LISTING_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Flags for opening a file of unknown kind: opening a FIFO must not wait for a writer, and opening a terminal must not
/// make it this process's controlling terminal.
pub(super) const UNBLOCKED_FLAGS: OFlags =
    OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A directory that was opened once.
#[derive(Debug)]
pub(super) struct Root {
    /// Real path of the directory when it was opened.
    path: PathBuf,
    directory: OwnedFd,
}

impl Root {
    /// Opens a directory. Links in the path are followed, this once.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let top = rustix::fs::open("/", DIRECTORY_FLAGS, Mode::empty())?;
        let below = path.strip_prefix("/").unwrap_or(&path);
        let directory = open_below(top.as_fd(), below, DIRECTORY_FLAGS)?;
        Ok(Self { path, directory })
    }

    /// Returns a root for an open directory that has no path in this process. The root's path is that of the descriptor
    /// in `/proc`.
    pub(super) fn from_descriptor(directory: OwnedFd) -> Self {
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        Self { path, directory }
    }

    /// Returns the real path of the directory when it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether this is the directory that was looked up as `known`.
    pub(super) fn is(&self, known: &KnownPath) -> bool {
        fstat(&self.directory).is_ok_and(|opened| known.is(opened.st_dev, opened.st_ino))
    }

    /// Returns whether the path still leads to this directory, for code that has to use the path, such as for the
    /// working directory of a command.
    pub(super) fn is_in_place(&self) -> bool {
        let named = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        let opened = fstat(&self.directory);
        let identity = |found: Stat| (found.st_dev, found.st_ino);
        named.map(identity).is_ok_and(|named| opened.map(identity) == Ok(named))
    }

    fn relative<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        let below = path.strip_prefix(&self.path).ok();
        let is_plain = |below: &&Path| {
            below.components().all(|component| matches!(component, Component::Normal(_)))
        };
        below.filter(is_plain).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// A real path below a root. If a link has replaced a directory of the path, or the file, every operation fails.
/// [`is_moved`] returns `true` for the error.
#[derive(Debug, Clone)]
pub struct RootedPath {
    root: Arc<Root>,
    /// Absolute path.
    path: PathBuf,
}

impl RootedPath {
    /// Returns a real path below a root.
    pub(super) fn new(root: Arc<Root>, path: &Path) -> Self {
        Self { root, path: path.to_owned() }
    }

    /// Returns the path of a file of the agent's own, which no project or model has named. The file need not exist.
    /// Links are followed, this once, except for a link at the end.
    pub(super) fn of_own(path: &Path) -> io::Result<Self> {
        for above in path.ancestors().skip(1) {
            match Root::open(above) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                root => {
                    let root = root?;
                    let below = path.strip_prefix(above).unwrap_or(path);
                    let path = root.path.join(below);
                    return Ok(Self { root: Arc::new(root), path });
                }
            }
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Returns another path below the same root.
    pub(super) fn at(&self, path: &Path) -> Self {
        Self::new(Arc::clone(&self.root), path)
    }

    /// Returns the absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file with these flags.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        let below = self.root.relative(&self.path)?;
        open_below(self.root.directory.as_fd(), below, flags | UNBLOCKED_FLAGS).map(File::from)
    }

    /// Opens the directory as a root of its own.
    pub(super) fn open_root(&self) -> io::Result<Root> {
        let below = self.root.relative(&self.path)?;
        let directory = open_below(self.root.directory.as_fd(), below, DIRECTORY_FLAGS)?;
        Ok(Root { path: self.path.clone(), directory })
    }

    /// Opens the parent directory of the path.
    pub(super) fn parent(&self) -> io::Result<Parent<'_>> {
        let below = self.root.relative(&self.path)?;
        let name = below.file_name().unwrap_or(OsStr::new("."));
        let above = below.parent().unwrap_or(below);
        let directory = open_below(self.root.directory.as_fd(), above, DIRECTORY_FLAGS)?;
        Ok(Parent { directory, name })
    }

    /// Opens the parent directory, and makes missing directories above the path. Returns also the directories that were
    /// made, the innermost first. If this fails, the made directories are removed again.
    pub(super) fn make_parent(&self) -> io::Result<(Parent<'_>, Vec<Self>)> {
        let mut made = Vec::new();
        let parent = self.make_parent_into(&mut made);
        made.reverse();
        parent
            .inspect_err(|_| made.iter().for_each(|place| _ = place.remove_directory()))
            .map(|parent| (parent, made.clone()))
    }

    fn make_parent_into(&self, made: &mut Vec<Self>) -> io::Result<Parent<'_>> {
        for missing in self.missing()?.into_iter().rev() {
            let place = self.at(&missing);
            let Parent { directory, name } = place.parent()?;
            match mkdirat(directory, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => made.push(place),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.parent()
    }

    /// Returns the missing directories above the path, the innermost first.
    pub(super) fn missing(&self) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        for above in self.path.ancestors().skip(1).take_while(|above| *above != self.root.path) {
            match self.at(above).metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing.push(above.to_owned());
                }
                Ok(_) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(missing)
    }

    /// Returns the metadata of the file.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.parent()?.metadata()
    }

    /// Lists the directory.
    pub fn entries(&self) -> io::Result<Entries> {
        let below = self.root.relative(&self.path)?;
        Entries::new(open_below(self.root.directory.as_fd(), below, LISTING_FLAGS)?)
    }

    /// Removes the directory, which must be empty.
    pub(super) fn remove_directory(&self) -> io::Result<()> {
        let Parent { directory, name } = self.parent()?;
        Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
    }
}

/// An open directory, and a name in it.
pub(super) struct Parent<'p> {
    pub(super) directory: OwnedFd,
    pub(super) name: &'p OsStr,
}

impl Parent<'_> {
    /// Opens the file, if it is no link.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | UNBLOCKED_FLAGS | OFlags::NOFOLLOW;
        Ok(openat(&self.directory, self.name, flags, Mode::empty())?.into())
    }

    /// Creates a file that only its owner may read. Fails if the name is taken.
    pub(super) fn create_private(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.directory, self.name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Returns the metadata of the file, if it is no link.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        metadata(self.directory.as_fd(), self.name)
    }

    /// Returns whether the name is free.
    pub(super) fn is_free(&self) -> bool {
        statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW).is_err()
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, self.name, AtFlags::empty())?)
    }
}

/// Metadata of a file.
pub struct Metadata(Stat);

impl Metadata {
    /// Returns the kind of the file.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.0.st_mode)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.0.st_size.try_into().unwrap_or_default()
    }

    /// Returns whether no user has the permission to write the file (root can still write it).
    pub(super) fn is_read_only(&self) -> bool {
        self.0.st_mode & 0o222 == 0
    }

    /// Returns the time of the last change of the content.
    pub fn modified(&self) -> SystemTime {
        let seconds = u64::try_from(self.0.st_mtime).unwrap_or_default();
        let nanos = u32::try_from(self.0.st_mtime_nsec).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
    }
}

/// Iterator over the entries of a directory, in no order, without `.` and `..`.
pub struct Entries(Dir);

impl Iterator for Entries {
    type Item = io::Result<(OsString, FileType)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.0.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.look_up(name),
                kind => Ok(kind),
            };
            return Some(kind.map(|kind| (OsStr::from_bytes(name.to_bytes()).to_owned(), kind)));
        }
    }
}

impl Entries {
    /// Lists an open directory.
    pub(super) fn new(directory: OwnedFd) -> io::Result<Self> {
        Ok(Self(Dir::new(directory)?))
    }

    /// Lists the directory at a real path. A link on the way is an error.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let top = rustix::fs::open("/", DIRECTORY_FLAGS, Mode::empty())?;
        let below = path.strip_prefix("/").unwrap_or(path);
        Self::new(open_below(top.as_fd(), below, LISTING_FLAGS)?)
    }

    /// Returns the descriptor of the directory.
    pub(super) fn directory(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.0.fd()?)
    }

    /// Returns the metadata of an entry, if it is no link.
    pub(super) fn metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        metadata(self.0.fd()?, name)
    }

    /// Returns the kind of an entry, on a file system whose directories do not record kinds.
    fn look_up(&self, name: &CStr) -> io::Result<FileType> {
        let found = statat(self.0.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }
}

/// Returns the metadata of a file, if it is no link; for a link, the error `ELOOP`.
fn metadata(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Metadata> {
    match Metadata(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?) {
        found if found.kind() == FileType::Symlink => Err(Errno::LOOP.into()),
        found => Ok(found),
    }
}

/// Returns `true` if an error means that a link has replaced a part of a path, or that a directory was moved away
/// meanwhile.
pub fn is_moved(error: &io::Error) -> bool {
    let moved = [Errno::LOOP, Errno::XDEV].map(|it| Some(it.raw_os_error()));
    moved.contains(&error.raw_os_error())
}

/// Opens a file below a directory. A link in the path is an error. An empty path opens the directory itself.
fn open_below(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(directory, path, flags, Mode::empty(), resolve) {
            // Older kernels lack `openat2`, and some filters of system calls deny it. In that case the names are opened
            // one by one.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return Ok(opened?),
        }
    }
    open_step_by_step(directory, path, flags)
}

/// Opens a file below a directory with one `openat` for each name of the path.
fn open_step_by_step(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let open = |directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags| {
        let opened = openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
        // The system reports a link in place of a directory as `NOTDIR`. Callers recognize a link by `LOOP`, which
        // `openat2` reports.
        let is_link = || {
            statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
        };
        match opened {
            Err(Errno::NOTDIR) if is_link() => Err(Errno::LOOP),
            opened => opened,
        }
    };
    let above = path.parent().into_iter().flat_map(Path::iter);
    let mut reached: Option<OwnedFd> = None;
    for name in above {
        let from = reached.as_ref().map_or(directory, AsFd::as_fd);
        reached = Some(open(from, name, DIRECTORY_FLAGS)?);
    }
    let from = reached.as_ref().map_or(directory, AsFd::as_fd);
    Ok(open(from, path.file_name().unwrap_or(OsStr::new(".")), flags)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(BorrowedFd<'_>, &Path, OFlags) -> io::Result<OwnedFd>;

    /// Both implementations of opening a file below a directory.
    const OPEN_METHODS: [Open; 2] = [open_below, open_step_by_step];

    fn check(path: &str, flags: OFlags, expected: Result<(), Errno>) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        symlink("b", root.join("a/inside")).unwrap();
        symlink("../..", root.join("a/outside")).unwrap();
        symlink("nowhere", root.join("a/dangling")).unwrap();
        symlink("file", root.join("a/b/link")).unwrap();
        let root = Root::open(&root).unwrap();
        for open in OPEN_METHODS {
            let opened = open(root.directory.as_fd(), Path::new(path), flags);
            let error = |error: io::Error| Errno::from_io_error(&error).unwrap();
            assert_eq!(opened.map(drop).map_err(error), expected, "{path}");
        }
    }

    #[test]
    fn what_is_below_is_opened_through_directories_alone() {
        check("a/b/file", UNBLOCKED_FLAGS, Ok(()));
        check("a/b", DIRECTORY_FLAGS, Ok(()));
        check("", DIRECTORY_FLAGS, Ok(()));
        check("", LISTING_FLAGS, Ok(()));
        check("a/none", UNBLOCKED_FLAGS, Err(Errno::NOENT));
        check("a/none/file", UNBLOCKED_FLAGS, Err(Errno::NOENT));
        check("a/b/file/x", UNBLOCKED_FLAGS, Err(Errno::NOTDIR));
        check("a/b/file", DIRECTORY_FLAGS, Err(Errno::NOTDIR));
        for link in ["a/inside/file", "a/outside/root", "a/dangling", "a/b/link", "a/b/link/x"] {
            check(link, UNBLOCKED_FLAGS, Err(Errno::LOOP));
        }
        for link in ["a/inside", "a/outside", "a/dangling", "a/b/link"] {
            check(link, DIRECTORY_FLAGS, Err(Errno::LOOP));
        }
    }

    #[test]
    fn a_root_is_the_directory_that_was_opened_whatever_its_name_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), "mine").unwrap();
        let opened = Arc::new(Root::open(&root).unwrap());
        fs::rename(&root, dir.path().join("elsewhere")).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), "another's").unwrap();
        let place = RootedPath::new(Arc::clone(&opened), &opened.path().join("file"));
        assert_eq!(io::read_to_string(place.open(OFlags::RDONLY).unwrap()).unwrap(), "mine");
        let above = RootedPath::new(Arc::clone(&opened), &opened.path().join("../root/file"));
        assert_eq!(above.metadata().err().unwrap().kind(), io::ErrorKind::InvalidInput);
    }
}
