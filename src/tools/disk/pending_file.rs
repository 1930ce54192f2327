//! A file that has no name until it is whole: a process that is killed meanwhile leaves nothing.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file that is being written in a directory.
pub(super) enum PendingFile {
    /// Without a name (Linux, on most file systems).
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// Under a temporary name, which it keeps should the process be killed.
    Named(NamedTempFile),
}

impl PendingFile {
    /// Creates an empty file that can be given a name in `directory`; the umask counts.
    pub(super) fn new(directory: &Path, mode: u32) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::create(directory, mode)? {
            return Ok(Self::Unnamed(file));
        }
        let mut builder = tempfile::Builder::new();
        builder.permissions(Permissions::from_mode(mode)).tempfile_in(directory).map(Self::Named)
    }

    /// Returns the file, to change its owner and its permissions.
    pub(super) fn as_file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Writes the content and waits until the disk has it.
    pub(super) fn fill(self, content: &[u8]) -> io::Result<Self> {
        self.as_file().write_all(content)?;
        self.as_file().sync_all()?;
        Ok(self)
    }

    /// Names the file `path`; fails if there is something already.
    pub(super) fn create(self, path: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => unnamed::link(&file, path),
            Self::Named(file) => file.persist_noclobber(path).map(drop).map_err(|err| err.error),
        }
    }

    /// Puts the file in the place of the one at `path`.
    pub(super) fn replace(self, path: &Path) -> io::Result<()> {
        let named = match self {
            // A link cannot take a file's place, a rename can. Between the two the file has a
            // temporary name, for as long as two system calls take.
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => {
                let directory = path.parent().unwrap_or(path);
                tempfile::Builder::new().make_in(directory, |path| unnamed::link(&file, path))?
            }
            Self::Named(file) => {
                return file.persist(path).map(drop).map_err(|err| err.error);
            }
        };
        named.persist(path).map(drop).map_err(|err| err.error)
    }
}

#[cfg(target_os = "linux")]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::Errno;

    /// Creates a file without a name; `None` where the file system or the system cannot.
    pub(super) fn create(directory: &Path, mode: u32) -> io::Result<Option<File>> {
        // Without it the file could not be given a name.
        if !Path::new("/proc/self/fd").exists() {
            return Ok(None);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match open(directory, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    /// Gives the file a name that is not taken.
    pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn nothing_is_in_the_directory_until_the_file_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = PendingFile::new(dir.path(), 0o600).unwrap().fill(b"new").unwrap();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        file.create(&dir.path().join("file")).unwrap();
        let file = PendingFile::new(dir.path(), 0o640).unwrap().fill(b"newer").unwrap();
        assert_eq!(names(dir.path()), ["file"]);
        file.replace(&dir.path().join("file")).unwrap();
        assert_eq!(names(dir.path()), ["file"]);
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"newer");
        let mode = fs::metadata(dir.path().join("file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_new_file_does_not_take_the_place_of_one_that_came_up_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = PendingFile::new(dir.path(), 0o600).unwrap().fill(b"new").unwrap();
        fs::write(&path, b"theirs").unwrap();
        assert_eq!(file.create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(dir.path()), ["file"]);
    }
}
