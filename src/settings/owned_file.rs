//! Reading and writing of small files that must belong to this user or to root.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Maximum size in KiB of a file that has a few lines.
pub(super) const MAX_SMALL_FILE_KIB: u64 = 64;

/// Content and permissions of a file.
pub(super) struct OwnedFile {
    pub text: String,
    mode: u32,
    /// `true` if the file's group has the same number as the file's owner. By convention, such a group has no other
    /// members.
    private_group: bool,
}

impl OwnedFile {
    /// Returns `true` if other users may write the file, directly or through a group that is not the user's alone.
    pub(super) fn others_may_write(&self) -> bool {
        self.mode & if self.private_group { 0o002 } else { 0o022 } != 0
    }

    /// Returns `true` if the group or others have any access to the file.
    pub(super) fn others_may_touch(&self) -> bool {
        self.mode & 0o077 != 0
    }
}

/// Reads a regular file of at most `max_kib` KiB that belongs to this user or to root; `None` if there is no file. The
/// error is the rest of a sentence that begins with the file's name: `is not a regular file`.
pub(super) fn read(path: &Path, max_kib: u64) -> Result<Option<OwnedFile>, String> {
    // Without this flag, opening a named pipe would wait for the pipe's writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(err) => return Err(format!("cannot be opened: {err}")),
    };
    // The metadata is that of the open file: the path may lead to another file by now.
    let metadata = file.metadata().map_err(|err| format!("cannot be looked at: {err}"))?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if metadata.uid() != 0 && metadata.uid() != geteuid().as_raw() {
        return Err("belongs to another user".to_owned());
    }
    let mut bytes = Vec::new();
    let read = file.take(max_kib * 1024 + 1).read_to_end(&mut bytes);
    read.map_err(|err| format!("cannot be read: {err}"))?;
    if bytes.len() as u64 > max_kib * 1024 {
        return Err(format!("is larger than {max_kib} KiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let private_group = metadata.gid() == metadata.uid();
    Ok(Some(OwnedFile { text, mode: metadata.mode(), private_group }))
}

/// Writes a file that only this user may read and write, completely or not at all. Creates the directory if it is
/// missing. The error names the file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    replace(path, text).map_err(|err| format!("{} cannot be written: {err}", path.display()))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let dir = path.parent().ok_or(ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // `tempfile` creates files that only this user may read and write. The new file then replaces the old one at once.
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
