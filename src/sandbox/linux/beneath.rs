//! Opening of files by paths of which no component may be a link.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, fstat, mkdirat,
    open, openat, openat2, statx, symlinkat,
};
use rustix::io::Errno;

use super::Naming as _;
use crate::profile::{KnownPath, Profile};

/// The root directory of this process, from which paths are opened.
pub(crate) struct Root(OwnedFd);

/// An open file, directory or link.
pub(crate) struct Opened {
    pub(crate) file: OwnedFd,
    pub(crate) kind: FileType,
    device: u64,
    number: u64,
    is_mount: bool,
}

/// Protection of a file or directory, which is mounted on itself so that no command can rename or remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The file or directory can be written but not renamed. Directories between a writable directory and a protected
    /// or hidden path in it are pinned: if a command renamed one, the next command would find nothing to protect at the
    /// old path.
    Pinned,
    /// The file or directory cannot be written.
    ReadOnly,
}

/// An opened file or directory with its guard.
pub(crate) struct Guarded {
    pub(crate) path: PathBuf,
    pub(crate) opened: Opened,
    pub(crate) guard: Guard,
}

impl Root {
    /// Opens the root directory of this process. Fails if the kernel does not have `openat2`.
    pub(crate) fn open() -> io::Result<Self> {
        let root = Self(open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
        root.open_below(Path::new("/")).naming("openat2")?;
        Ok(root)
    }

    /// Opens a file. A link at the end of the path is opened itself; a link before the end is the error `ELOOP`.
    pub(crate) fn find(&self, path: &Path) -> rustix::io::Result<Opened> {
        let file = self.open_below(path)?;
        let found = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        Ok(Opened {
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            number: found.stx_ino,
            is_mount: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            file,
        })
    }

    fn open_below(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&self.0, path, flags, Mode::empty(), resolve)
    }

    /// Opens a file or directory that was looked up before. It is an error if another file has taken its place.
    pub(crate) fn find_place(&self, place: &KnownPath) -> io::Result<Opened> {
        let name = place.path().to_string_lossy();
        match self.find(place.path()) {
            Ok(found) if found.is(place) => Ok(found),
            Ok(_) | Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR) => {
                Err(io::Error::other(format!(
                    "{name} was removed or replaced since the session began; begin a new session"
                )))
            }
            Err(error) => Err(error).naming(name),
        }
    }

    /// Opens a file or directory. If it does not exist, makes an empty file or directory, with the directories above
    /// it.
    pub(crate) fn make(&self, path: &Path, is_directory: bool) -> io::Result<Opened> {
        match self.find(path) {
            Err(Errno::NOENT) => {}
            found => return Ok(found?),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let parent = self.make(parent, true)?.file;
        if is_directory {
            mkdirat(&parent, name, Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH)?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?;
        }
        Ok(self.find(path)?)
    }

    /// Makes a symbolic link, and the directories above it.
    pub(crate) fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        Ok(symlinkat(target, &self.make(parent, true)?.file, name)?)
    }

    /// Opens a path that is to be guarded; `None` if it does not exist. A path that leads through a link, or through a
    /// directory that this process may not search, could name any file: in that case the nearest directory above that
    /// can be opened is returned with a read-only guard.
    pub(crate) fn find_guarded(&self, path: &Path, guard: Guard) -> io::Result<Option<Guarded>> {
        match self.find(path) {
            Ok(opened) => return Ok(Some(Guarded { path: path.to_owned(), opened, guard })),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP | Errno::ACCESS | Errno::NAMETOOLONG) => {}
            Err(error) => return Err(error.into()),
        }
        let above = path.ancestors().skip(1).find_map(|path| {
            let opened = self.find(path).ok().filter(|it| it.kind == FileType::Directory)?;
            Some(Guarded { path: path.to_owned(), opened, guard: Guard::ReadOnly })
        });
        above.map(Some).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Opened {
    /// Returns whether this is the file or directory that was looked up as `place`.
    pub(crate) fn is(&self, place: &KnownPath) -> bool {
        place.is(self.device, self.number)
    }

    /// Returns the identity of this file, with the given path.
    pub(crate) fn to_known_path(&self, path: &Path) -> KnownPath {
        KnownPath::new(path, self.device, self.number)
    }

    /// Returns whether this is the root of a mount.
    pub(crate) fn is_mount(&self) -> bool {
        self.is_mount
    }
}

/// Removes from a profile the writable paths that lead to other files than when the session began, and the sockets that
/// no longer exist or were replaced.
pub(crate) fn drop_replaced(profile: &mut Profile) -> io::Result<()> {
    let root = Root::open()?;
    profile.writable.retain(|place| root.find_place(place).is_ok());
    profile.reachable_sockets.retain(|place| root.find_place(place).is_ok());
    Ok(())
}

/// Returns whether a descriptor refers to a directory.
pub(crate) fn is_directory(file: impl AsFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::Directory)
}
