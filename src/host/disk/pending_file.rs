//! Files that get their name only when they are complete, so that a process that is killed leaves no partial file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

/// Maximum number of attempts to find a free temporary name.
const MAX_NAMES: usize = 100;

/// A file that is being written, and has no final name yet.
pub(super) enum PendingFile<'d> {
    /// A file without a name (on Linux, with most file systems).
    #[cfg(target_os = "linux")]
    Unnamed(&'d OwnedFd, File),
    /// A file with a temporary name, which stays behind if the process is killed.
    Named(TemporaryName<'d>, File),
}

impl<'d> PendingFile<'d> {
    /// Creates an empty file in `directory`. The umask applies to `mode`.
    pub(super) fn new(directory: &'d OwnedFd, mode: Mode) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::create(directory, mode)? {
            return Ok(Self::Unnamed(directory, file));
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let create = |name: &str| openat(directory, name, flags, mode);
        TemporaryName::find(directory, create).map(|(name, file)| Self::Named(name, file.into()))
    }

    /// Returns the file, to change its owner and its permissions.
    pub(super) fn as_file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(_, file) => file,
            Self::Named(_, file) => file,
        }
    }

    /// Writes the content and waits until it is on the disk.
    pub(super) fn write_synced(self, content: &[u8]) -> io::Result<Self> {
        self.as_file().write_all(content)?;
        self.as_file().sync_all()?;
        Ok(self)
    }

    /// Gives the file its name. Fails if the name is taken.
    pub(super) fn create(self, name: &OsStr) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(directory, file) => Ok(unnamed::link(&file, directory, name)?),
            Self::Named(temporary, _) => temporary.create(name),
        }
    }

    /// Gives the file a name in place of the file that has it.
    pub(super) fn replace(self, name: &OsStr) -> io::Result<()> {
        let temporary = match self {
            // `linkat` cannot replace a file, but a rename can. So the file has a temporary name in between, for as
            // long as two system calls take.
            #[cfg(target_os = "linux")]
            Self::Unnamed(directory, file) => {
                let link = |name: &str| unnamed::link(&file, directory, name.as_ref());
                TemporaryName::find(directory, link)?.0
            }
            Self::Named(temporary, _) => temporary,
        };
        temporary.replace(name)
    }
}

/// A temporary name of a file in a directory. The name is removed when this value is dropped.
pub(super) struct TemporaryName<'d> {
    directory: &'d OwnedFd,
    name: String,
    is_gone: bool,
}

impl<'d> TemporaryName<'d> {
    /// Calls `create` with random names until one is free.
    fn find<T>(
        directory: &'d OwnedFd,
        create: impl Fn(&str) -> rustix::io::Result<T>,
    ) -> io::Result<(Self, T)> {
        for _ in 0..MAX_NAMES {
            let name = format!(".tmp{:016x}", fastrand::u64(..));
            match create(&name) {
                Err(Errno::EXIST) => {}
                made => return Ok((Self { directory, name, is_gone: false }, made?)),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn create(mut self, name: &OsStr) -> io::Result<()> {
        let (directory, flags) = (self.directory, RenameFlags::NOREPLACE);
        match renameat_with(directory, &*self.name, directory, name, flags) {
            // Some file systems do not support `NOREPLACE`. Making a hard link fails on a taken name as well.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let empty = AtFlags::empty();
                Ok(rustix::fs::linkat(directory, &*self.name, directory, name, empty)?)
            }
            renamed => {
                renamed?;
                self.is_gone = true;
                Ok(())
            }
        }
    }

    fn replace(mut self, name: &OsStr) -> io::Result<()> {
        renameat(self.directory, &*self.name, self.directory, name)?;
        self.is_gone = true;
        Ok(())
    }
}

impl Drop for TemporaryName<'_> {
    fn drop(&mut self) {
        if !self.is_gone {
            let _ = unlinkat(self.directory, &*self.name, AtFlags::empty());
        }
    }
}

#[cfg(target_os = "linux")]
mod unnamed {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
    use rustix::io::Errno;

    /// Creates a file without a name; `None` if the file system or the kernel cannot.
    pub(super) fn create(directory: &OwnedFd, mode: Mode) -> io::Result<Option<File>> {
        // `/proc` is needed to give the file a name later.
        if !Path::new("/proc/self/fd").exists() {
            return Ok(None);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(directory, ".", flags, mode) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    /// Gives the file a name. Fails if the name is taken.
    pub(super) fn link(file: &File, directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, unnamed, directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn opened(directory: &Path) -> OwnedFd {
        File::open(directory).unwrap().into()
    }

    fn names(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn nothing_is_in_the_directory_until_the_file_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let directory = opened(dir.path());
        let file = PendingFile::new(&directory, Mode::RUSR).unwrap().write_synced(b"new").unwrap();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        file.create(OsStr::new("file")).unwrap();
        let file = PendingFile::new(&directory, Mode::RUSR | Mode::WUSR | Mode::RGRP)
            .unwrap()
            .write_synced(b"newer")
            .unwrap();
        assert_eq!(names(dir.path()), ["file"]);
        file.replace(OsStr::new("file")).unwrap();
        assert_eq!(names(dir.path()), ["file"]);
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"newer");
        let mode = fs::metadata(dir.path().join("file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_new_file_does_not_take_the_place_of_one_that_came_up_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let directory = opened(dir.path());
        let file = PendingFile::new(&directory, Mode::RUSR).unwrap().write_synced(b"new").unwrap();
        fs::write(&path, b"theirs").unwrap();
        assert_eq!(
            file.create(OsStr::new("file")).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(dir.path()), ["file"]);
    }
}
