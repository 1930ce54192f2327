//! Files on the disk of this machine. The only place that opens, writes and removes files of the workspace.

mod pending_file;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::{Access, Gid, OFlags, Uid, access, fchown, getxattr_query};
use tokio_util::sync::CancellationToken;

use self::pending_file::PendingFile;
use super::files::{FileKind, Files, changed, too_large};
use super::off_thread::off_thread;
use super::output::ToolError;

/// The disk of this machine.
pub struct Disk;

#[async_trait]
impl Files for Disk {
    async fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let path = path.to_owned();
        off_thread(move || fs::metadata(path).map(|found| kind(&found))).await
    }

    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
        let path = path.to_owned();
        off_thread(move || read(&path, max)).await
    }

    async fn check_writable(&self, path: &Path) -> Result<(), ToolError> {
        let path = path.to_owned();
        off_thread(move || check_writable(&path)).await
    }

    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        let path = path.to_owned();
        off_thread(move || Ok(missing_directories(&path))).await
    }

    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let (path, cancel) = (path.to_owned(), cancel.clone());
        let (old, new) = (old.map(<[u8]>::to_vec), new.to_vec());
        off_thread(move || write(&path, old.as_deref(), &new, &cancel).map(|()| None)).await
    }

    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool> {
        let (path, expected) = (path.to_owned(), expected.to_vec());
        off_thread(move || {
            if !read(&path, expected.len() as u64).is_ok_and(|now| now == expected) {
                return Ok(false);
            }
            fs::remove_file(path).map(|()| true)
        })
        .await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        off_thread(move || fs::remove_dir(path)).await
    }
}

fn kind(found: &fs::Metadata) -> FileKind {
    match () {
        () if found.is_dir() => FileKind::Directory,
        () if found.is_file() => FileKind::File,
        () => FileKind::Other,
    }
}

/// Returns all bytes of a regular file of at most `max` bytes. Blocks.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
    let unreadable = |err: io::Error| match err.kind() {
        ErrorKind::NotFound => not_found(path),
        _ => ToolError::new(
            "read_content_failure",
            format!("{} cannot be read: {err}", path.display()),
        ),
    };
    // Looked at before it is opened, because opening a device can do things.
    let found = fs::metadata(path).map_err(unreadable)?;
    regular(path, &found)?;
    // Should it have become a FIFO since, opening it must not wait for a writer.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    regular(path, &found)?;
    if found.len() > max {
        return Err(too_large(path, found.len(), max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // It may grow meanwhile, and some files do not say their size.
    let read = file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if read as u64 > max {
        return Err(too_large(path, read as u64, max));
    }
    Ok(bytes)
}

fn check_writable(path: &Path) -> Result<(), ToolError> {
    let read_only = fs::metadata(path).is_ok_and(|found| found.permissions().readonly());
    if !read_only && access(path, Access::WRITE_OK).is_ok() {
        return Ok(());
    }
    Err(ToolError::new(
        "permission_denied",
        format!("{} is read-only; nothing was written.", path.display()),
    ))
}

/// Returns the directories that there are not yet on the way to a file, those above the others
/// last.
fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    above.take_while(|dir| !dir.exists()).map(Path::to_owned).collect()
}

/// Makes the directories that there are not yet on the way to a file, and returns them.
pub(super) async fn make_directories(path: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let path = path.to_owned();
    off_thread(move || {
        let missing = missing_directories(&path);
        let made = fs::create_dir_all(path.parent().unwrap_or(&path));
        made.map(|()| missing).map_err(|err| unwritable(&path, &err))
    })
    .await
}

/// Removes directories that are empty, those above the others last.
pub(super) async fn remove_directories(directories: Vec<PathBuf>) {
    let removed = off_thread(move || directories.into_iter().try_for_each(fs::remove_dir));
    // One that is not empty holds what somebody else has put there.
    let _: io::Result<()> = removed.await;
}

/// Writes `new` where `old` is (`None`: where no file is yet; directories on the way are made, and
/// removed if the write fails). Blocks.
///
/// Nobody sees half of it: a new file is written and then takes the place of the old one. Only
/// what a new file could not be (one of several hard links, somebody else's, one with an access
/// list, in a directory that takes no new files) is written in place.
pub fn write(
    path: &Path,
    old: Option<&[u8]>,
    new: &[u8],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let made = if old.is_none() { missing_directories(path) } else { Vec::new() };
    write_whole(path, old, new, cancel).inspect_err(|_| {
        for directory in made {
            // It may not have been made yet, or hold what somebody else has put there.
            let _ = fs::remove_dir(directory);
        }
    })
}

fn write_whole(
    path: &Path,
    old: Option<&[u8]>,
    new: &[u8],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let failed = |err: io::Error| unwritable(path, &err);
    if cancel.is_cancelled() {
        return Err(ToolError::cancelled());
    }
    check_same(path, old)?;
    let directory = path.parent().unwrap_or(path);
    let successor = if old.is_some() {
        check_writable(path)?;
        successor(path, directory, new).map_err(failed)?
    } else {
        fs::create_dir_all(directory).map_err(failed)?;
        // The umask takes from these what the user wants taken.
        let file =
            PendingFile::new(directory, 0o666).and_then(|file| file.fill(new)).map_err(failed)?;
        Some(file)
    };
    // Writing took its time.
    check_same(path, old)?;
    if cancel.is_cancelled() {
        return Err(ToolError::cancelled());
    }
    let persisted = match (successor, old) {
        (Some(file), None) => match file.create(path) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => return Err(changed(path)),
            created => created,
        },
        // The rename fails where the file itself is a mount point.
        (Some(file), Some(old)) => file.replace(path).or_else(|_| overwrite(path, old, new)),
        (None, old) => overwrite(path, old.unwrap_or_default(), new),
    };
    persisted.map_err(failed)
}

/// Returns the error for a file that is not there.
pub(super) fn not_found(path: &Path) -> ToolError {
    let message = format!("{} does not exist. Look for it with glob.", path.display());
    ToolError::new("file_not_found", message)
}

fn regular(path: &Path, found: &fs::Metadata) -> Result<(), ToolError> {
    let path = path.display();
    match kind(found) {
        FileKind::File => Ok(()),
        FileKind::Directory => {
            let message = format!("{path} is a directory; name a file in it.");
            Err(ToolError::new("is_directory", message))
        }
        FileKind::Other => {
            let message = format!("{path} is no regular file (but a device, a pipe or a socket).");
            Err(ToolError::new("not_a_regular_file", message))
        }
    }
}

/// A file with the new content that can take the place of the old one, if one can be made.
fn successor(path: &Path, directory: &Path, new: &[u8]) -> io::Result<Option<PendingFile>> {
    let old = fs::metadata(path)?;
    let has_access_list = getxattr_query(path, "system.posix_acl_access").is_ok();
    if old.nlink() > 1 || has_access_list {
        return Ok(None);
    }
    // Nobody else reads it before it has the owner and the permissions of the old one.
    let file = match PendingFile::new(directory, 0o600) {
        Err(err) if err.kind() == ErrorKind::PermissionDenied => return Ok(None),
        file => file?,
    };
    let made = file.as_file().metadata()?;
    let (uid, gid) = (old.uid(), old.gid());
    if (made.uid(), made.gid()) != (uid, gid)
        && fchown(file.as_file(), Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).is_err()
    {
        return Ok(None);
    }
    // After the owner: a change of that takes bits away.
    file.as_file().set_permissions(old.permissions())?;
    file.fill(new).map(Some)
}

/// Checks that a file is still what it was.
fn check_same(path: &Path, old: Option<&[u8]>) -> Result<(), ToolError> {
    let same = match old {
        Some(old) => read(path, old.len() as u64).is_ok_and(|now| now == old),
        None => fs::symlink_metadata(path).is_err(),
    };
    if same { Ok(()) } else { Err(changed(path)) }
}

/// Writes in place, and puts the old content back should that fail.
fn overwrite(path: &Path, old: &[u8], new: &[u8]) -> io::Result<()> {
    let put = |bytes: &[u8]| {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut file: File = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    };
    put(new).inspect_err(|_| {
        if let Err(err) = put(old) {
            tracing::error!(path = %path.display(), %err, "a half-written file is left behind");
        }
    })
}

fn unwritable(path: &Path, err: &io::Error) -> ToolError {
    let kind = match err.kind() {
        ErrorKind::PermissionDenied => "permission_denied",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "no_space_left",
        _ => "file_write_failure",
    };
    ToolError::new(kind, format!("{} cannot be written: {err}", path.display()))
}
