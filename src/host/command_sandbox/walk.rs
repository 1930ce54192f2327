//! The walk through a workspace before a command. One walk finds protected files, secrets and sockets.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat, lstat};

use crate::root::{Entries, is_moved};
use crate::secrets::Secrets;

/// Maximum number of entries that a walk looks at, and its maximum depth.
const MAX_ENTRIES: usize = 1_000_000;
const MAX_DEPTH: usize = 64;

/// Granularity of a file system's clock: a listing is reused only if the directory had last changed longer than this
/// before it was listed. A later change would otherwise have the same time and go unnoticed.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Directories that package managers and builds fill and empty again. Files in them are neither protected nor hidden.
const INSTALLED_DIRECTORIES: [&str; 4] = ["node_modules", "target", ".venv", "venv"];

/// Directory of installed Python packages. The search for secrets leaves this directory out, because certificates in
/// packages look like secrets.
const PYTHON_PACKAGES: &str = "site-packages";

/// Directories of the operating system, in which no person keeps secrets of a project.
const SYSTEM_DIRECTORIES: [&str; 9] =
    ["/bin", "/dev", "/lib", "/lib64", "/nix/store", "/proc", "/sbin", "/sys", "/usr"];

/// Rules for the names that a walk looks for.
pub(super) struct NameRules<'w> {
    /// Test of whether a path is that of a protected file.
    pub(super) is_protected: &'w dyn Fn(&Path) -> bool,
    pub(super) secrets: &'w Secrets,
}

/// Results of a walk. Each list begins with the paths that are nearest to the roots.
#[derive(Default)]
pub(super) struct WalkResult {
    /// Protected files.
    pub(super) protected: Vec<PathBuf>,
    /// Directories that were searched for protected files, and directories that could not be searched for them.
    pub(super) directories: HashSet<PathBuf>,
    pub(super) unclear: BTreeSet<PathBuf>,
    /// Files that have names of secrets.
    pub(super) secrets: Vec<Candidate>,
    /// Directories that could not be searched for secrets.
    pub(super) unsearched: Vec<PathBuf>,
    /// Unix sockets.
    pub(super) sockets: Vec<PathBuf>,
}

/// A file or directory that has the name of a secret.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) is_link: bool,
}

/// The walk through one workspace, with the listings of the last walk. A directory that has not changed since then is
/// not listed again.
#[derive(Default)]
pub(super) struct WorkspaceWalk(HashMap<PathBuf, Listing>);

/// Kinds of files that are looked for in a directory and below it.
#[derive(Clone, Copy)]
struct SoughtKinds {
    protected: bool,
    secret: bool,
}

impl SoughtKinds {
    fn and(self, other: Self) -> Self {
        Self { protected: self.protected && other.protected, secret: self.secret && other.secret }
    }

    fn is_any(self) -> bool {
        self.protected || self.secret
    }
}

impl WorkspaceWalk {
    /// Walks through directories, breadth first. Blocks. Fails only if a root cannot be listed.
    pub(super) fn walk(
        &mut self,
        roots: &[PathBuf],
        wanted: &NameRules<'_>,
    ) -> io::Result<WalkResult> {
        let mut earlier = std::mem::take(&mut self.0);
        let (mut found, mut left) = (WalkResult::default(), MAX_ENTRIES);
        let all = SoughtKinds { protected: true, secret: true };
        let mut waiting: VecDeque<_> = roots.iter().map(|root| (root.clone(), 0, all)).collect();
        while let Some((directory, depth, sought)) = waiting.pop_front() {
            if self.0.contains_key(&directory) {
                continue;
            }
            let listed = if depth < MAX_DEPTH {
                Listing::read_directory(&directory, earlier.remove(&directory), left, wanted)
            } else {
                Err(too_much())
            };
            let listing = match listed {
                Ok(listing) => listing,
                Err(error) if depth == 0 => {
                    let why = format!("{} cannot be searched: {error}", directory.display());
                    return Err(io::Error::new(error.kind(), why));
                }
                Err(error) if is_gone(&error) => continue,
                Err(_) => {
                    found.unsearched.extend(sought.secret.then(|| directory.clone()));
                    found.unclear.extend(sought.protected.then_some(directory));
                    continue;
                }
            };
            left -= listing.count;
            found.sockets.extend(listing.sockets.iter().map(|name| directory.join(name)));
            if sought.protected {
                found.directories.insert(directory.clone());
                found.protected.extend(listing.protected.iter().map(|name| directory.join(name)));
            }
            if sought.secret {
                let secrets = listing.secrets.iter().map(|(name, is_link)| Candidate {
                    path: directory.join(name),
                    is_link: *is_link,
                });
                found.secrets.extend(secrets);
            }
            let below = listing.directories.iter().map(|(name, below)| (name, below.and(sought)));
            let below = below.filter(|(_, sought)| sought.is_any());
            waiting.extend(below.map(|(name, sought)| (directory.join(name), depth + 1, sought)));
            self.0.insert(directory, listing);
        }
        Ok(found)
    }
}

/// Returns whether a path is in a directory of the operating system.
pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

/// Returns `true` if an error means that a directory no longer exists, or that a link has replaced it.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || is_moved(error)
}

fn too_much() -> io::Error {
    io::Error::other("there are too many files")
}

/// State of a directory. It differs if another directory has taken the path or if the entries have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct DirectoryState {
    device: u64,
    number: u64,
    /// Time of the last change of status (`ctime`), which no program can set.
    changed: (i64, i64),
}

impl DirectoryState {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_possible_wrap,
        reason = "the types of these fields depend on the system; there are less than 10^9 nanoseconds"
    )]
    fn from_stat(data: &Stat) -> Self {
        let changed = (data.st_ctime as i64, data.st_ctime_nsec as i64);
        Self { device: data.st_dev as u64, number: data.st_ino as u64, changed }
    }

    /// Returns whether a change after `now` would get another time than the last change.
    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        let changed = changed.map(|(seconds, rest)| UNIX_EPOCH + Duration::new(seconds, rest));
        let passed = changed.and_then(|changed| now.duration_since(changed).ok());
        passed.is_some_and(|passed| passed > CLOCK_STEP)
    }
}

/// Entries of a directory that matter to a walk.
struct Listing {
    /// State of the directory when it was listed; `None` if it may have changed meanwhile.
    state: Option<DirectoryState>,
    /// Number of entries.
    count: usize,
    /// Directories to search.
    directories: Vec<(OsString, SoughtKinds)>,
    /// Names of protected files.
    protected: Vec<OsString>,
    /// Names of secrets, each with `true` if it is a link.
    secrets: Vec<(OsString, bool)>,
    /// Names of sockets.
    sockets: Vec<OsString>,
}

impl Listing {
    /// Returns the listing of a directory, or `earlier` if the directory has not changed. Fails if it has more than
    /// `most` entries.
    fn read_directory(
        directory: &Path,
        earlier: Option<Self>,
        most: usize,
        wanted: &NameRules<'_>,
    ) -> io::Result<Self> {
        let now = SystemTime::now();
        let data = lstat(directory)?;
        let state = DirectoryState::from_stat(&data);
        let listing = match earlier {
            Some(listing) if listing.state == Some(state) => listing,
            _ => Self::read(directory, most, wanted)?,
        };
        if listing.count > most {
            return Err(too_much());
        }
        Ok(Self { state: listing.state.filter(|state| state.is_settled(now)), ..listing })
    }

    fn read(directory: &Path, most: usize, wanted: &NameRules<'_>) -> io::Result<Self> {
        // The state is read from the open descriptor, so that it belongs to the directory that is listed. `Entries::at`
        // follows no link that may have taken the directory's place.
        let entries = Entries::at(directory)?;
        let mut listing = Self {
            state: Some(DirectoryState::from_stat(&fstat(entries.directory()?)?)),
            count: 0,
            directories: Vec::new(),
            protected: Vec::new(),
            secrets: Vec::new(),
            sockets: Vec::new(),
        };
        for entry in entries.take(most.saturating_add(1)) {
            let (name, kind) = entry?;
            listing.count += 1;
            if kind.is_socket() {
                listing.sockets.push(name.clone());
            }
            let path = directory.join(&name);
            let is_protected = (wanted.is_protected)(&path);
            let hides = |is_directory| wanted.secrets.hides(&path, is_directory);
            let is_secret = hides(kind.is_dir()) || kind.is_symlink() && hides(true);
            let is_installed = INSTALLED_DIRECTORIES.iter().any(|installed| name == *installed);
            let below = SoughtKinds {
                protected: !is_protected && !is_installed,
                secret: !is_secret && !is_installed && may_have_secrets(&path, &name),
            };
            if kind.is_dir() && below.is_any() {
                listing.directories.push((name.clone(), below));
            }
            if is_protected {
                listing.protected.push(name.clone());
            }
            if is_secret {
                listing.secrets.push((name, kind.is_symlink()));
            }
        }
        Ok(listing)
    }
}

fn may_have_secrets(path: &Path, name: &OsStr) -> bool {
    name != ".git" && name != PYTHON_PACKAGES && !is_system(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn walk(root: &Path) -> WalkResult {
        let is_protected = |path: &Path| path.ends_with(".git");
        let wanted = NameRules { is_protected: &is_protected, secrets: &Secrets::default() };
        WorkspaceWalk::default().walk(&[root.to_owned()], &wanted).unwrap()
    }

    #[test]
    fn what_is_too_deep_is_not_searched() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let deep: PathBuf =
            [root.clone()].into_iter().chain((0..MAX_DEPTH).map(|_| "a".into())).collect();
        fs::create_dir_all(deep.join(".git")).unwrap();
        fs::create_dir_all(root.join("a/.git")).unwrap();
        let found = walk(&root);
        assert_eq!(found.protected, [root.join("a/.git")]);
        assert_eq!(found.unclear, BTreeSet::from([deep.clone()]));
        assert_eq!(found.unsearched, [deep]);
    }

    #[test]
    fn what_is_protected_may_have_secrets_and_what_is_secret_may_have_protected_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in [".ssh/.git", ".git/b", "site-packages/.git", "node_modules/.git"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("site-packages/.env"), "").unwrap();
        let mut found = walk(&root);
        found.protected.sort();
        let protected = [".git", ".ssh/.git", "site-packages/.git"].map(|name| root.join(name));
        assert_eq!(found.protected, protected);
        let secrets: Vec<_> = found.secrets.into_iter().map(|it| it.path).collect();
        assert_eq!(secrets, [root.join(".ssh")]);
    }

    #[test]
    fn what_comes_up_is_found_though_most_listings_are_earlier_ones() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        let is_protected = |path: &Path| path.ends_with(".git");
        let wanted = NameRules { is_protected: &is_protected, secrets: &Secrets::default() };
        let mut walking = WorkspaceWalk::default();
        for name in ["a/b/.git", "a/.git", "c/.git"] {
            walking.walk(std::slice::from_ref(&root), &wanted).unwrap();
            fs::create_dir_all(root.join(name)).unwrap();
            let found = walking.walk(std::slice::from_ref(&root), &wanted).unwrap();
            assert!(found.protected.contains(&root.join(name)), "{name}");
        }
        fs::rename(root.join("a"), root.join("d")).unwrap();
        let found = walking.walk(std::slice::from_ref(&root), &wanted).unwrap();
        let expected = ["c/.git", "d/.git", "d/b/.git"].map(|name| root.join(name));
        assert_eq!(BTreeSet::from_iter(found.protected), BTreeSet::from(expected));
    }

    #[test]
    fn a_listing_is_used_again_until_the_directory_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("a")).unwrap();
        let state = DirectoryState::from_stat(&lstat(&root).unwrap());
        let now = SystemTime::now() + Duration::from_secs(1);
        assert!(state.is_settled(now) && !state.is_settled(now - Duration::from_secs(2)));
        let earlier = || Listing {
            state: Some(state),
            count: 1,
            directories: Vec::new(),
            protected: Vec::new(),
            secrets: vec![("earlier".into(), false)],
            sockets: Vec::new(),
        };
        let wanted = NameRules { is_protected: &|_| false, secrets: &Secrets::default() };
        let listed = Listing::read_directory(&root, Some(earlier()), 10, &wanted).unwrap();
        assert_eq!(listed.secrets.len(), 1);
        fs::write(root.join("y"), "").unwrap();
        let other = DirectoryState { changed: (0, 0), ..state };
        let changed = Listing { state: Some(other), ..earlier() };
        let listed = Listing::read_directory(&root, Some(changed), 10, &wanted).unwrap();
        assert_eq!((listed.secrets.len(), listed.count), (0, 2));
        assert!(Listing::read_directory(&root, None, 1, &wanted).is_err());
    }
}
