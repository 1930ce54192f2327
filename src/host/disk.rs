//! Files on the disk of this machine. Only this module opens, writes and removes files of the workspace.

mod pending_file;

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Uid, accessat, fchown, fgetxattr_query,
};
use tandem_content::bounded::{self, Unread};
use tokio_util::sync::CancellationToken;

use self::pending_file::PendingFile;
use super::files::{FileKind, Files, changed, moved, too_large};
use super::off_thread::off_thread;
use super::output::ToolError;
use super::outputs::Outputs;
use super::root::{Parent, Root, RootedPath, UNBLOCKED_FLAGS, is_moved};
use super::workspace::Workspace;

/// Access to the disk of this machine, limited to a session's workspace and its stored outputs.
#[derive(Clone)]
pub struct Disk {
    workspace: Arc<Workspace>,
    outputs: Arc<Outputs>,
}

impl Disk {
    /// Returns the disk of a session.
    pub(super) fn new(workspace: Arc<Workspace>, outputs: Arc<Outputs>) -> Self {
        Self { workspace, outputs }
    }

    /// Opens a file at a real path for reading. Blocks.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.rooted(path)?.open(OFlags::RDONLY)
    }

    /// Creates a file that only its owner may read, at a real path where no file is yet. Blocks.
    pub fn create_private(&self, path: &Path) -> io::Result<File> {
        self.rooted(path)?.parent()?.create_private()
    }

    fn rooted(&self, path: &Path) -> io::Result<RootedPath> {
        if self.outputs.contains(path) {
            RootedPath::of_own(path)
        } else {
            self.workspace.rooted(path)
        }
    }

    /// Makes the missing directories above a file. Returns them, the innermost first.
    pub(super) async fn make_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || {
            let made = disk.rooted(&path).and_then(|place| {
                let (_, made) = place.make_parent()?;
                Ok(made.iter().map(|place| place.path().to_owned()).collect())
            });
            made.map_err(|err| unwritable(&path, &err))
        })
        .await
    }

    /// Removes directories, given the innermost first, up to the first that is not empty.
    pub(super) async fn remove_directories(&self, directories: Vec<PathBuf>) {
        for directory in directories {
            // A directory that is not empty holds files of other programs, and stays.
            if self.remove_directory(&directory).await.is_err() {
                return;
            }
        }
    }
}

#[async_trait]
impl Files for Disk {
    async fn kind(&self, path: &Path) -> io::Result<FileKind> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || Ok(kind(disk.rooted(&path)?.metadata()?.kind()))).await
    }

    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || {
            let place = disk.rooted(&path).map_err(|err| unreadable(&path, &err))?;
            read_at(&place, &path, max)
        })
        .await
    }

    async fn check_writable(&self, path: &Path) -> Result<(), ToolError> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || {
            let place = disk.rooted(&path).map_err(|err| unwritable(&path, &err))?;
            check_writable(&place.parent().map_err(|err| unwritable(&path, &err))?, &path)
        })
        .await
    }

    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || {
            let missing = disk.rooted(&path).and_then(|place| place.missing());
            missing.map_err(|err| unwritable(&path, &err))
        })
        .await
    }

    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let (disk, path, cancel) = (self.clone(), path.to_owned(), cancel.clone());
        let (old, new) = (old.map(<[u8]>::to_vec), new.to_vec());
        off_thread(move || {
            let place = disk.rooted(&path).map_err(|err| unwritable(&path, &err))?;
            write_at(&place, old.as_deref(), &new, &cancel).map(|()| None)
        })
        .await
    }

    async fn create(
        &self,
        path: &Path,
        content: &[u8],
        permissions: Permissions,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let (disk, path, cancel) = (self.clone(), path.to_owned(), cancel.clone());
        let content = content.to_vec();
        off_thread(move || {
            let place = disk.rooted(&path).map_err(|err| unwritable(&path, &err))?;
            create_at(&place, &content, Some(permissions), &cancel)
        })
        .await
    }

    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool> {
        let (disk, path, expected) = (self.clone(), path.to_owned(), expected.to_vec());
        off_thread(move || {
            let place = disk.rooted(&path)?;
            let parent = place.parent()?;
            let is_same = is_same(&parent, &path, &expected);
            if is_same { parent.remove().map(|()| true) } else { Ok(false) }
        })
        .await
    }

    async fn permissions(&self, path: &Path) -> io::Result<Permissions> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || Ok(disk.open(&path)?.metadata()?.permissions())).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let (disk, path) = (self.clone(), path.to_owned());
        off_thread(move || disk.rooted(&path)?.remove_directory()).await
    }
}

fn kind(found: FileType) -> FileKind {
    match found {
        FileType::Directory => FileKind::Directory,
        FileType::RegularFile => FileKind::File,
        _ => FileKind::Other,
    }
}

fn kind_of(found: &Metadata) -> FileKind {
    match () {
        () if found.is_dir() => FileKind::Directory,
        () if found.is_file() => FileKind::File,
        () => FileKind::Other,
    }
}

/// Returns the content of a regular file of at most `max` bytes, named by the agent's own user. Links are followed.
/// Blocks.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
    let unreadable = |err| unreadable(path, &err);
    // The kind is checked before the file is opened, because opening a device can have effects.
    let found = fs::metadata(path).map_err(unreadable)?;
    regular(path, kind_of(&found))?;
    let flags = UNBLOCKED_FLAGS.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    contents(&file, path, max)
}

/// Returns the content of a regular file of at most `max` bytes, named by a project: at a real path below a directory.
/// A link in the path is an error, so the file that is read is the file that was checked. Blocks.
pub fn read_below(directory: &Path, real: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
    let root = Root::open(directory).map_err(|err| unreadable(real, &err))?;
    read_at(&RootedPath::new(Arc::new(root), real), real, max)
}

/// Returns the content of a regular file of at most `max` bytes.
fn read_at(place: &RootedPath, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
    let parent = place.parent().map_err(|err| unreadable(path, &err))?;
    contents(&open(&parent, OFlags::RDONLY, path)?, path, max)
}

/// Opens a regular file.
fn open(parent: &Parent<'_>, flags: OFlags, path: &Path) -> Result<File, ToolError> {
    let unreadable = |err| unreadable(path, &err);
    // The kind is checked before the file is opened, because opening a device can have effects.
    let found = parent.metadata().map_err(unreadable)?;
    regular(path, kind(found.kind()))?;
    parent.open(flags).map_err(unreadable)
}

/// Returns the content of an open file, if it is a regular file of at most `max` bytes.
fn contents(file: &File, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
    bounded::contents(file, max).map_err(|unread| match unread {
        Unread::NoFile(found) => irregular(path, kind(found)),
        Unread::TooLong(size) => too_large(path, size, max),
        Unread::Failed(err) => unreadable(path, &err),
    })
}

fn check_writable(parent: &Parent<'_>, path: &Path) -> Result<(), ToolError> {
    let read_only = parent.metadata().is_ok_and(|found| found.is_read_only());
    let access =
        || accessat(&parent.directory, parent.name, Access::WRITE_OK, AtFlags::empty()).is_ok();
    if !read_only && access() {
        return Ok(());
    }
    Err(ToolError::new(
        "permission_denied",
        format!("{} is read-only; nothing was written.", path.display()),
    ))
}

/// Writes a file which the agent's own user has named; see [`write_at`]. Blocks.
pub(super) fn write(
    path: &Path,
    old: Option<&[u8]>,
    new: &[u8],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let place = RootedPath::of_own(path).map_err(|err| unwritable(path, &err))?;
    write_at(&place, old, new, cancel)
}

/// Replaces the content `old` of a file by `new`. With `None` for `old`, no file must exist yet; missing directories
/// are made, and are removed again if the write fails.
///
/// No program sees half of the content: it is written to a new file, which then takes the place of the old one. A file
/// is written in place only if a new file could not be equal to it: if it has several hard links, belongs to another
/// user, has an access list, or is in a directory in which no files can be made.
fn write_at(
    place: &RootedPath,
    old: Option<&[u8]>,
    new: &[u8],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let path = place.path();
    if cancel.is_cancelled() {
        return Err(ToolError::cancelled());
    }
    let Some(old) = old else { return create_at(place, new, None, cancel) };
    match place.parent() {
        Err(err) if err.kind() == ErrorKind::NotFound => Err(changed(path)),
        parent => {
            let parent = parent.map_err(|err| unwritable(path, &err))?;
            replace(&parent, path, old, new, cancel)
        }
    }
}

/// Creates a file that must not exist yet, and the missing directories above the file. If the write fails, the
/// directories are removed again. Without `permissions`, the umask decides.
fn create_at(
    place: &RootedPath,
    new: &[u8],
    permissions: Option<Permissions>,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let path = place.path();
    let (parent, made) = place.make_parent().map_err(|err| unwritable(path, &err))?;
    create(&parent, path, new, permissions, cancel).inspect_err(|_| {
        for directory in made {
            // A directory in which another program has put a file meanwhile is not empty, and stays.
            let _ = directory.remove_directory();
        }
    })
}

/// Creates a file that must not exist yet.
fn create(
    parent: &Parent<'_>,
    path: &Path,
    new: &[u8],
    permissions: Option<Permissions>,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let failed = |err: io::Error| unwritable(path, &err);
    let check_free = || if parent.is_free() { Ok(()) } else { Err(changed(path)) };
    check_free()?;
    // The umask removes permissions from these as the user wants. A file with permissions of its own is first its
    // owner's alone, so that no other user can read the content before.
    let mode = if permissions.is_some() { 0o600 } else { 0o666 };
    let file = PendingFile::new(&parent.directory, Mode::from_raw_mode(mode)).and_then(|file| {
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.write_synced(new)
    });
    let file = file.map_err(failed)?;
    // The file may have been changed while the new content was written beside it.
    check_free()?;
    if cancel.is_cancelled() {
        return Err(ToolError::cancelled());
    }
    match file.create(parent.name) {
        Err(err) if err.kind() == ErrorKind::AlreadyExists => Err(changed(path)),
        created => created.map_err(failed),
    }
}

/// Replaces the content of a file.
fn replace(
    parent: &Parent<'_>,
    path: &Path,
    old: &[u8],
    new: &[u8],
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let failed = |err: io::Error| unwritable(path, &err);
    let check_same = || if is_same(parent, path, old) { Ok(()) } else { Err(changed(path)) };
    check_same()?;
    check_writable(parent, path)?;
    let successor = successor(parent, new).map_err(failed)?;
    // The file may have been changed while the new content was written beside it.
    check_same()?;
    if cancel.is_cancelled() {
        return Err(ToolError::cancelled());
    }
    // The rename fails if the file itself is a mount point; then the file is written in place.
    let replaced = successor.is_some_and(|file| file.replace(parent.name).is_ok());
    if replaced { Ok(()) } else { overwrite(parent, path, old, new) }
}

/// Returns the error for a file that does not exist.
pub(super) fn not_found(path: &Path) -> ToolError {
    let message = format!("{} does not exist. Look for it with glob.", path.display());
    ToolError::file_not_found(message)
}

/// Returns the error for a file that cannot be read.
fn unreadable(path: &Path, err: &io::Error) -> ToolError {
    match err.kind() {
        ErrorKind::NotFound => not_found(path),
        _ if is_moved(err) => moved(path),
        _ => ToolError::new(
            "read_content_failure",
            format!("{} cannot be read: {err}", path.display()),
        ),
    }
}

fn regular(path: &Path, found: FileKind) -> Result<(), ToolError> {
    if found == FileKind::File { Ok(()) } else { Err(irregular(path, found)) }
}

/// Returns the error for a path that leads to no regular file.
fn irregular(path: &Path, found: FileKind) -> ToolError {
    let path = path.display();
    if found == FileKind::Directory {
        return ToolError::new(
            "is_directory",
            format!("{path} is a directory; name a file in it."),
        );
    }
    let message = format!("{path} is not a regular file, but a device, a pipe or a socket.");
    ToolError::new("not_a_regular_file", message)
}

/// Returns a file with the new content that can replace the old file; `None` if no new file could be equal to the
/// old one.
fn successor<'p>(parent: &'p Parent<'_>, new: &[u8]) -> io::Result<Option<PendingFile<'p>>> {
    let file = parent.open(OFlags::RDONLY)?;
    let old = file.metadata()?;
    let has_access_list = fgetxattr_query(&file, "system.posix_acl_access").is_ok();
    if old.nlink() > 1 || has_access_list {
        return Ok(None);
    }
    // No other user can read the new file before it has the owner and the permissions of the old one.
    let file = match PendingFile::new(&parent.directory, Mode::RUSR | Mode::WUSR) {
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
    // Permissions are set after the owner, because a change of the owner clears some of their bits.
    file.as_file().set_permissions(old.permissions())?;
    file.write_synced(new).map(Some)
}

/// Returns whether a file has this content.
fn is_same(parent: &Parent<'_>, path: &Path, expected: &[u8]) -> bool {
    let file = open(parent, OFlags::RDONLY, path);
    let now = file.and_then(|file| contents(&file, path, expected.len() as u64));
    now.is_ok_and(|now| now == expected)
}

/// Writes a file in place. If that fails, the old content is written back.
fn overwrite(parent: &Parent<'_>, path: &Path, old: &[u8], new: &[u8]) -> Result<(), ToolError> {
    let mut file = parent.open(OFlags::RDWR).map_err(|err| unwritable(path, &err))?;
    // Another file may have taken the name since the content was compared.
    if !contents(&file, path, old.len() as u64).is_ok_and(|now| now == old) {
        return Err(changed(path));
    }
    let mut put = |bytes: &[u8]| {
        file.rewind()?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    };
    put(new).map_err(|err| {
        if let Err(err) = put(old) {
            tracing::error!(path = %path.display(), %err, "a half-written file is left behind");
        }
        unwritable(path, &err)
    })
}

fn unwritable(path: &Path, err: &io::Error) -> ToolError {
    let kind = match err.kind() {
        _ if is_moved(err) => return changed(path),
        ErrorKind::PermissionDenied => "permission_denied",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "no_space_left",
        _ => "file_write_failure",
    };
    ToolError::new(kind, format!("{} cannot be written: {err}", path.display()))
}
