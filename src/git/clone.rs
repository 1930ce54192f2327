//! Reading of the `.git` of a clone, into which a model can write: as plain files, without following links.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, linkat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use tandem_content::bounded;

use super::name::{is_branch, is_object_id};

/// Maximum size of a small file, such as `HEAD` or a reference, in bytes.
const MAX_SMALL_FILE_BYTES: u64 = 4 << 10;

/// Maximum size of the file of packed references, in bytes.
const MAX_PACKED_REFS_BYTES: u64 = 16 << 20;

/// Maximum number of objects and packs that one call links.
const MOST_OBJECTS: usize = 1 << 20;

/// The commit that a clone is at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CloneHead {
    /// Name of the branch; `None` if a commit is checked out without a branch.
    pub(crate) branch: Option<String>,
    /// Id of the commit; `None` if the branch has no commits.
    pub(crate) commit: Option<String>,
}

/// The `.git` of a clone.
pub(crate) struct CloneGit(OwnedFd);

impl CloneGit {
    /// Opens the `.git` of a clone.
    pub(crate) fn open(clone: &Path) -> io::Result<Self> {
        let clone = directory(CWD, clone)?;
        Ok(Self(directory(&clone, ".git")?))
    }

    /// Reads the commit that the clone is at.
    pub(crate) fn head(&self) -> io::Result<CloneHead> {
        let head = read(&self.0, "HEAD", MAX_SMALL_FILE_BYTES)?;
        let head = String::from_utf8_lossy(&head);
        let head = head.trim_end();
        if is_object_id(head) {
            return Ok(CloneHead { branch: None, commit: Some(head.to_owned()) });
        }
        let branch = head.strip_prefix("ref: refs/heads/").filter(|name| is_branch(name));
        let branch =
            branch.ok_or_else(|| wrong("`.git/HEAD` names neither a branch nor a commit"))?;
        Ok(CloneHead { branch: Some(branch.to_owned()), commit: self.commit(branch)? })
    }

    /// Reads the commit of a branch.
    fn commit(&self, branch: &str) -> io::Result<Option<String>> {
        let parts: Vec<_> = ["refs", "heads"].into_iter().chain(branch.split('/')).collect();
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        let loose = || {
            let mut at = self.0.try_clone()?;
            for parent in parents {
                at = directory(&at, *parent)?;
            }
            read(&at, name, MAX_SMALL_FILE_BYTES)
        };
        let loose = match loose() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            loose => Some(loose?),
        };
        let id = match loose {
            Some(loose) => String::from_utf8_lossy(&loose).trim_end().to_owned(),
            None => match self.packed(branch)? {
                Some(packed) => packed,
                None => return Ok(None),
            },
        };
        if is_object_id(&id) { Ok(Some(id)) } else { Err(wrong("the branch names no commit")) }
    }

    /// Reads the commit of a branch in the file of packed references.
    fn packed(&self, branch: &str) -> io::Result<Option<String>> {
        let packed = match read(&self.0, "packed-refs", MAX_PACKED_REFS_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            packed => packed?,
        };
        let packed = String::from_utf8_lossy(&packed);
        let commit = packed.lines().find_map(|line| {
            let (id, name) = line.split_once(' ')?;
            (name.strip_prefix("refs/heads/") == Some(branch)).then(|| id.to_owned())
        });
        Ok(commit)
    }

    /// Links the objects of the clone into another directory of objects. References of the clone to other object
    /// directories (alternates) are not followed.
    pub(crate) fn link_objects(&self, into: &Path) -> io::Result<()> {
        let (from, into) = (directory(&self.0, "objects")?, directory(CWD, into)?);
        let mut left = MOST_OBJECTS;
        for folder in names(&from)? {
            let is_object = |name: &str| is_object_id(&format!("{folder}{name}"));
            if folder == "pack" {
                link_all(&from, &into, &folder, &mut left, is_pack)?;
            } else if folder.len() == 2 {
                link_all(&from, &into, &folder, &mut left, is_object)?;
            }
        }
        Ok(())
    }
}

/// Links the files of a folder whose names pass the check.
fn link_all(
    from: &OwnedFd,
    into: &OwnedFd,
    folder: &str,
    left: &mut usize,
    fits: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let from = directory(from, folder)?;
    match mkdirat(into, folder, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let into = directory(into, folder)?;
    // Git uses a pack once its index is there, so the index is linked last.
    let mut names = names(&from)?;
    names.retain(|name| fits(name));
    names.sort_by_key(|name| name.strip_suffix(".idx").is_some());
    for name in names {
        *left = left.checked_sub(1).ok_or_else(|| wrong("the clone has too many objects"))?;
        match linkat(&from, &*name, &into, &*name, AtFlags::empty()) {
            // The object was linked before, or has just been packed or removed in the clone.
            Err(Errno::EXIST | Errno::NOENT) => continue,
            linked => linked?,
        }
        // The clone may have a link under the name of an object. Only regular files may come into the directory of
        // objects.
        let linked = statat(&into, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(linked.st_mode) != FileType::RegularFile {
            unlinkat(&into, &*name, AtFlags::empty())?;
            return Err(wrong("an object in `.git/objects` is not a file"));
        }
    }
    Ok(())
}

/// Returns `true` if a name is that of a pack or of a pack's index.
fn is_pack(name: &str) -> bool {
    let id = name.strip_suffix(".pack").or_else(|| name.strip_suffix(".idx"));
    id.and_then(|id| id.strip_prefix("pack-")).is_some_and(is_object_id)
}

/// Opens a directory that is not a link.
fn directory(at: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Returns the names in a directory that are UTF-8 and do not begin with a period. Git uses no others there.
fn names(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        if let Ok(name) = entry?.file_name().to_str()
            && !name.starts_with('.')
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Reads a file that is not a link and has at most `most` bytes.
fn read(at: &OwnedFd, name: &str, most: u64) -> io::Result<Vec<u8>> {
    let read = bounded::read_at(at, name, most, OFlags::NOFOLLOW);
    read.map_err(|error| io::Error::new(error.kind(), format!("`.git/{name}`: {error}")))
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
