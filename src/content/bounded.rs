//! Bounded reading of files that other programs control: such a file may be a pipe, a device, or endless.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat};

/// Reads a regular file of at most `most` bytes. Any other kind of file, and a longer file, is an error.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at(CWD, path, most, OFlags::empty())
}

/// Reads a regular file of at most `most` bytes, by a path relative to an open directory, opened with additional flags.
pub fn read_at(
    directory: impl AsFd,
    path: impl AsRef<Path>,
    most: u64,
    flags: OFlags,
) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let follow =
        if flags.contains(OFlags::NOFOLLOW) { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    // The kind of the file is looked at before the file is opened, because opening a device can have effects.
    let found = statat(&directory, path, follow)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(wrong("it is not a file"));
    }
    // The file may be replaced after the check. Without `NONBLOCK`, opening a pipe would wait for its other end;
    // without `NOCTTY`, opening a terminal could make it this process's controlling terminal.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(directory, path, flags, Mode::empty())?);
    contents(&file, most).map_err(|unread| match unread {
        Unread::NoFile(_) => wrong("it is not a file"),
        Unread::TooLong(_) => wrong("it is too long"),
        Unread::Failed(error) => error,
    })
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Reason why the content of an open file is not returned.
#[derive(Debug)]
pub enum Unread {
    /// The file is no regular file, but of this kind.
    NoFile(FileType),
    /// The file is too long: its length in bytes, as far as it is known.
    TooLong(u64),
    /// Reading the file failed.
    Failed(io::Error),
}

/// Returns all bytes of an open regular file of at most `most` bytes.
pub fn contents(mut file: &File, most: u64) -> Result<Vec<u8>, Unread> {
    let found = fstat(file).map_err(|error| Unread::Failed(error.into()))?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind != FileType::RegularFile {
        return Err(Unread::NoFile(kind));
    }
    let size = u64::try_from(found.st_size).unwrap_or_default();
    // The size is checked before reading, although a sparse file may occupy little on the disk: its holes are read as
    // zeros, and cost as much memory as data.
    if size > most {
        return Err(Unread::TooLong(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // The file may grow while it is read, and some files do not tell their size.
    let read = file.by_ref().take(most.saturating_add(1)).read_to_end(&mut bytes);
    match read.map_err(Unread::Failed)? as u64 {
        read if read > most => Err(Unread::TooLong(read)),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::mknodat;

    use super::*;

    #[test]
    fn a_regular_file_is_read_up_to_its_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert_eq!(read(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        File::create(&path).unwrap().set_len(1 << 41).unwrap();
        assert_eq!(read(&path, 1 << 12).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let missing = read(&directory.path().join("missing"), 4).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn nothing_but_a_regular_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&fifo, Path::new("/dev/zero"), Path::new("/dev/tty"), directory.path()] {
            read(path, 4).unwrap_err();
        }
    }
}
