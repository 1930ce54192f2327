//! Files of others, of which no more is read than is meant: they may be pipes, devices, or have no end.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// Reads a file. One that is no regular file, or longer than `most` bytes, is an error.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_at(CWD, path, most, OFlags::empty())
}

/// The same for a path from an open directory, opened with more flags.
pub fn read_at(
    directory: impl AsFd,
    path: impl AsRef<Path>,
    most: u64,
    flags: OFlags,
) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end; a terminal would become this process's own.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, path.as_ref(), flags, Mode::empty())?;
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(wrong("it is no file"));
    }
    let too_long = || wrong("it is too long");
    // A file that is mostly holes costs its reader as much memory as any other.
    if u64::try_from(found.st_size).is_ok_and(|size| size > most) {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
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
