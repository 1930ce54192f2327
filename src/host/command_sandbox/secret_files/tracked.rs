//! Files that git tracks, according to its index, which is read without running git.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tandem_content::bounded;

use super::git_index::{self, EntryKind};

/// Maximum sizes in bytes: of an index, as no file of a larger one counts as tracked, and of a file in which git names
/// a directory.
const MAX_INDEX_BYTES: u64 = 256 << 20;
const MAX_POINTER_BYTES: u64 = 4096;

/// Maximum depth of repositories in repositories.
const MAX_NESTING: usize = 8;

/// The repositories of a workspace.
pub(super) struct Repositories(Vec<(Repository, Option<IndexAnswer>)>);

/// A repository: the directory with its working files, and its git directory.
struct Repository {
    files: PathBuf,
    git: PathBuf,
}

/// Cached answer of a repository, valid while its index is unchanged.
struct IndexAnswer {
    index: IndexState,
    asked: BTreeSet<PathBuf>,
    tracked: BTreeSet<PathBuf>,
}

/// State of an index file. Git writes a new file for every change, so the state differs after one.
type IndexState = (u64, u64, u64, [i64; 4]);

impl Repositories {
    /// Returns the repositories that contain these directories. Repositories below them do not count, as a command may
    /// have made them.
    pub(super) fn containing(roots: &[PathBuf]) -> Self {
        let mut repositories: Vec<(Repository, _)> = Vec::new();
        for root in roots {
            let found = root.ancestors().find(|path| path.join(".git").symlink_metadata().is_ok());
            let Some(repository) = found.and_then(|path| Repository::at(path, roots)) else {
                continue;
            };
            if repositories.iter().all(|(known, _)| known.files != repository.files) {
                repositories.push((repository, None));
            }
        }
        Self(repositories)
    }

    /// Returns the given files that are tracked, and all tracked files below the given directories.
    pub(super) fn tracked(&mut self, files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let mut tracked = BTreeSet::new();
        for (repository, known) in &mut self.0 {
            let asked = files.iter().filter(|path| path.starts_with(&repository.files));
            let asked: BTreeSet<_> = asked.cloned().collect();
            let index = repository.index().metadata().ok().map(|data| index_state(&data));
            let Some(index) = index.filter(|_| !asked.is_empty()) else { continue };
            let is_same = |known: &IndexAnswer| known.index == index && known.asked == asked;
            if !known.as_ref().is_some_and(is_same) {
                let tracked = repository.tracked(&asked, 0);
                *known = Some(IndexAnswer { index, asked, tracked });
            }
            tracked.extend(known.iter().flat_map(|known| known.tracked.iter().cloned()));
        }
        tracked
    }
}

impl Repository {
    /// Returns the repository in a directory; `None` if its git directory lies where a command could write.
    fn at(directory: &Path, roots: &[PathBuf]) -> Option<Self> {
        let pointer = directory.join(".git");
        let data = pointer.symlink_metadata().ok()?;
        let git = if data.is_dir() { pointer } else { pointed_to(&pointer)? };
        let inside = roots.iter().find_map(|root| git.strip_prefix(root).ok());
        let is_kept = inside.is_none_or(|inside| inside.starts_with(".git"));
        is_kept.then(|| Self { files: directory.to_owned(), git })
    }

    fn index(&self) -> PathBuf {
        self.git.join("index")
    }

    /// Returns the given files that are tracked, and all tracked files below the given directories.
    fn tracked(&self, asked: &BTreeSet<PathBuf>, nesting: usize) -> BTreeSet<PathBuf> {
        let (mut tracked, mut repositories) = (BTreeSet::new(), Vec::new());
        let Ok(index) = bounded::read(&self.index(), MAX_INDEX_BYTES) else { return tracked };
        let names: Vec<_> =
            asked.iter().filter_map(|path| path.strip_prefix(&self.files).ok()).collect();
        let read = git_index::read(&index, |name, kind| {
            let name = Path::new(OsStr::from_bytes(name));
            match kind {
                EntryKind::File if names.iter().any(|asked| name.starts_with(asked)) => {
                    tracked.insert(self.files.join(name));
                }
                EntryKind::Repository if names.iter().any(|asked| asked.starts_with(name)) => {
                    repositories.push(self.files.join(name));
                }
                _ => {}
            }
        });
        if read.is_none() {
            return BTreeSet::new();
        }
        for files in repositories.into_iter().filter(|_| nesting < MAX_NESTING) {
            // Only git directories below `.git/modules`, those of submodules, are read: no command can write there, so
            // no command can add files to their index.
            let git = pointed_to(&files.join(".git"));
            let git = git.filter(|git| git.starts_with(self.git.join("modules")));
            if let Some(git) = git {
                tracked.extend(Self { files, git }.tracked(asked, nesting + 1));
            }
        }
        tracked
    }
}

fn index_state(data: &Metadata) -> IndexState {
    let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
    (data.dev(), data.ino(), data.len(), times)
}

/// Returns the directory that a `.git` file names.
fn pointed_to(pointer: &Path) -> Option<PathBuf> {
    if pointer.is_symlink() {
        return None;
    }
    let text = bounded::read(pointer, MAX_POINTER_BYTES).ok()?;
    let path = text.strip_prefix(b"gitdir:")?.trim_ascii();
    pointer.parent()?.join(OsStr::from_bytes(path)).canonicalize().ok()
}
