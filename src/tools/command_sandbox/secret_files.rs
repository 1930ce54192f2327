//! Files of the workspace that hold secrets: hidden from commands, but for those that git tracks.

mod git_index;
mod tracked;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tandem_sandbox::{RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

use self::tracked::Repositories;
use super::search::INSTALLED_DIRECTORIES;
use crate::secrets::Secrets;

/// Maximum number of entries of the workspace that are looked at, and maximum depth. A directory beyond is
/// hidden as a whole.
const MAX_ENTRIES: usize = 1_000_000;
const MAX_DEPTH: usize = 64;

/// Maximum number of files that are hidden one by one: each costs a command a little time. Of more, the
/// directories are hidden.
const MAX_HIDDEN: usize = 500;

/// Time that a file system may take to notice a change: a listing is kept only if the last change was longer
/// before.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Directory of installed Python packages, which have certificates among their files.
const PYTHON_PACKAGES: &str = "site-packages";

/// Directories of the system, in which no person keeps secrets of a project.
const SYSTEM_DIRECTORIES: [&str; 9] =
    ["/bin", "/dev", "/lib", "/lib64", "/nix/store", "/proc", "/sbin", "/sys", "/usr"];

/// The files with secrets of one workspace, found anew for every command.
#[derive(Default)]
pub(super) struct SecretFiles(Mutex<SecretSearch>);

#[derive(Default)]
struct SecretSearch {
    /// The directories as they were listed, so that those that have not changed are not listed again.
    listings: HashMap<PathBuf, Listing>,
    /// Repositories of the workspace as they were before the first command, which could make others.
    repositories: Option<Repositories>,
}

/// A file with secrets, by its name.
struct Candidate {
    path: PathBuf,
    is_link: bool,
}

impl SecretFiles {
    /// Returns the files and directories to hide, real paths. Blocks. The error is that of a root that cannot be
    /// searched.
    pub(super) fn find(&self, roots: &[PathBuf], secrets: &Secrets) -> io::Result<Vec<PathBuf>> {
        let mut search = self.0.lock();
        let (candidates, mut hidden) = search.candidates(roots, secrets)?;
        let repositories = search.repositories.get_or_insert_with(|| Repositories::of(roots));
        let paths = candidates.iter().map(|candidate| candidate.path.clone()).collect();
        let tracked = repositories.tracked(&paths);
        let mut found = Vec::new();
        for Candidate { path, is_link } in candidates {
            if !is_link {
                found.extend(hidden_but(path, &tracked));
            } else if !tracked.contains(&path) {
                found.extend(target(&path, roots));
            }
        }
        // Files come in the order of their depth: of the deepest, which exceed the limit, the directories are hidden.
        for path in found.drain(found.len().min(MAX_HIDDEN)..) {
            let directory = path.parent().filter(|directory| !is_above_root(directory, roots));
            hidden.push(directory.map_or_else(|| path.clone(), Path::to_owned));
        }
        hidden.extend(found);
        Ok(hidden)
    }
}

/// Returns what of a hidden file or directory stays hidden if these are shown.
pub(super) fn hidden_but(path: PathBuf, shown: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    match shown.range(path.clone()..).next() {
        Some(next) if *next == path => Vec::new(),
        Some(next) if next.starts_with(&path) => {
            // A directory that cannot be listed as a whole is hidden as a whole.
            match fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
                Ok(entries) => {
                    entries.iter().flat_map(|entry| hidden_but(entry.path(), shown)).collect()
                }
                Err(_) => vec![path],
            }
        }
        _ => vec![path],
    }
}

/// Returns what is hidden in the place of a link: the file, wherever it is, or the directory that it leads to.
fn target(link: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    // A command could make a link named `.env` to `/usr`: hiding its target would leave later commands without
    // programs.
    let mut replaced = RUN_DIRECTORIES.iter().chain(&TEMPORARY_DIRECTORIES);
    let mut is_replaced = || replaced.any(|path| Path::new(path).starts_with(&target));
    let is_needed = is_system(&target) || is_above_root(&target, roots) || is_replaced();
    (!is_needed).then_some(target)
}

fn is_system(path: &Path) -> bool {
    SYSTEM_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

fn is_above_root(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| root.starts_with(path))
}

impl SecretSearch {
    /// Returns the files with secrets by their names, the nearest to the roots first, and the directories that
    /// are not searched.
    fn candidates(
        &mut self,
        roots: &[PathBuf],
        secrets: &Secrets,
    ) -> io::Result<(Vec<Candidate>, Vec<PathBuf>)> {
        let mut earlier = std::mem::take(&mut self.listings);
        let (mut candidates, mut unsearched) = (Vec::new(), Vec::new());
        let mut left = MAX_ENTRIES;
        let mut waiting: VecDeque<_> = roots.iter().map(|root| (root.clone(), 0)).collect();
        while let Some((directory, depth)) = waiting.pop_front() {
            if depth == MAX_DEPTH || self.listings.contains_key(&directory) {
                unsearched.extend((depth == MAX_DEPTH).then_some(directory));
                continue;
            }
            let listed = Listing::of(&directory, earlier.remove(&directory), left, secrets);
            let listing = match listed {
                Ok(listing) => listing,
                Err(error) if depth == 0 => {
                    let why = format!("{} cannot be searched: {error}", directory.display());
                    return Err(io::Error::new(error.kind(), why));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => {
                    unsearched.push(directory);
                    continue;
                }
            };
            left -= listing.count;
            let found = listing.secrets.iter();
            candidates.extend(found.map(|(name, is_link)| Candidate {
                path: directory.join(name),
                is_link: *is_link,
            }));
            let below = listing.directories.iter();
            waiting.extend(below.map(|name| (directory.join(name), depth + 1)));
            self.listings.insert(directory, listing);
        }
        Ok((candidates, unsearched))
    }
}

/// State of a directory: another one, or a change of its entries, makes another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct DirectoryState {
    device: u64,
    number: u64,
    /// Time of the last change, which no program can set.
    changed: (i64, i64),
}

impl DirectoryState {
    fn of(data: &Metadata) -> Self {
        let changed = (data.ctime(), data.ctime_nsec());
        Self { device: data.dev(), number: data.ino(), changed }
    }

    /// Returns whether a change after `now` has another time.
    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        let changed = changed.map(|(seconds, rest)| UNIX_EPOCH + Duration::new(seconds, rest));
        let passed = changed.and_then(|changed| now.duration_since(changed).ok());
        passed.is_some_and(|passed| passed > CLOCK_STEP)
    }
}

/// Entries of a directory that matter to the search.
struct Listing {
    /// State in which the directory was listed, unless it may have changed meanwhile.
    state: Option<DirectoryState>,
    /// Number of entries.
    count: usize,
    /// Directories to search.
    directories: Vec<OsString>,
    /// Names of secrets, and whether each is a link.
    secrets: Vec<(OsString, bool)>,
}

impl Listing {
    /// Returns the listing of a directory of at most `most` entries: an earlier one, unless the directory has
    /// changed.
    fn of(
        directory: &Path,
        earlier: Option<Self>,
        most: usize,
        secrets: &Secrets,
    ) -> io::Result<Self> {
        let now = SystemTime::now();
        let data = directory.symlink_metadata()?;
        if !data.is_dir() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let state = DirectoryState::of(&data);
        let listing = match earlier {
            Some(listing) if listing.state == Some(state) => listing,
            _ => Self::read(directory, most, secrets)?,
        };
        if listing.count > most {
            return Err(io::Error::other("there are too many files"));
        }
        Ok(Self { state: Some(state).filter(|state| state.is_settled(now)), ..listing })
    }

    fn read(directory: &Path, most: usize, secrets: &Secrets) -> io::Result<Self> {
        let mut listing =
            Self { state: None, count: 0, directories: Vec::new(), secrets: Vec::new() };
        for entry in fs::read_dir(directory)?.take(most.saturating_add(1)) {
            let entry = entry?;
            listing.count += 1;
            let (path, name, kind) = (entry.path(), entry.file_name(), entry.file_type()?);
            let is_secret = |is_directory| secrets.hides(&path, is_directory);
            let is_dir = kind.is_dir();
            if is_secret(is_dir) || kind.is_symlink() && is_secret(true) {
                listing.secrets.push((name, kind.is_symlink()));
            } else if is_searched(&path, &name, kind) {
                listing.directories.push(name);
            }
        }
        Ok(listing)
    }
}

fn is_searched(path: &Path, name: &OsStr, kind: FileType) -> bool {
    let is_skipped = name == ".git"
        || name == PYTHON_PACKAGES
        || INSTALLED_DIRECTORIES.iter().any(|installed| name == *installed);
    kind.is_dir() && !is_skipped && !is_system(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A workspace with these files; a name that ends with `/` is a directory.
    fn workspace(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if file.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::write(path, "x").unwrap();
            }
        }
        (directory, root)
    }

    /// Returns what is hidden, as seen from the root.
    #[track_caller]
    fn hidden(files: &SecretFiles, root: &Path) -> Vec<String> {
        let hidden = files.find(&[root.to_owned()], &Secrets::default()).unwrap();
        let inside = |path: &PathBuf| path.strip_prefix(root).map_or(path.clone(), Path::to_owned);
        let mut hidden: Vec<_> =
            hidden.iter().map(|path| inside(path).display().to_string()).collect();
        hidden.sort();
        hidden
    }

    #[test]
    fn secrets_are_found_in_all_directories_but_those_that_are_installed() {
        let (_directory, root) = workspace(&[
            ".env",
            ".env.example",
            "a/b/c/d/e/f/g/h/.env.local",
            ".ssh/config",
            "node_modules/x/test.pem",
            "env/lib/python3/site-packages/certifi/cacert.pem",
            ".git/key.pem",
            "src/main.rs",
        ]);
        let expected = [".env", ".ssh", "a/b/c/d/e/f/g/h/.env.local"];
        assert_eq!(hidden(&SecretFiles::default(), &root), expected);
    }

    #[test]
    fn a_file_that_has_come_up_is_found_at_once() {
        let (_directory, root) = workspace(&["a/b/x"]);
        let files = SecretFiles::default();
        for name in ["a/b/.env", ".env", "a/key.pem", "c/.env"] {
            hidden(&files, &root);
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "x").unwrap();
            assert!(hidden(&files, &root).contains(&name.to_owned()), "{name}");
        }
        fs::rename(root.join("a"), root.join("d")).unwrap();
        assert_eq!(hidden(&files, &root), [".env", "c/.env", "d/b/.env", "d/key.pem"]);
    }

    #[test]
    fn a_listing_is_used_again_until_the_directory_has_changed() {
        let (_directory, root) = workspace(&["a/x"]);
        let data = root.symlink_metadata().unwrap();
        let state = DirectoryState::of(&data);
        let now = SystemTime::now() + Duration::from_secs(1);
        assert!(state.is_settled(now) && !state.is_settled(now - Duration::from_secs(2)));
        let earlier = || Listing {
            state: Some(state),
            count: 1,
            directories: Vec::new(),
            secrets: vec![("earlier".into(), false)],
        };
        let listed = Listing::of(&root, Some(earlier()), 10, &Secrets::default()).unwrap();
        assert_eq!(listed.secrets.len(), 1);
        fs::write(root.join("y"), "").unwrap();
        let other = DirectoryState { changed: (0, 0), ..state };
        let changed = Listing { state: Some(other), ..earlier() };
        let listed = Listing::of(&root, Some(changed), 10, &Secrets::default()).unwrap();
        assert_eq!((listed.secrets.len(), listed.count), (0, 2));
    }

    #[test]
    fn of_a_link_the_file_is_hidden_but_nothing_that_commands_need() {
        let (directory, root) = workspace(&["real", "dir/x", "src/main.rs"]);
        let outside = directory.path().canonicalize().unwrap().join("outside");
        fs::write(&outside, "x").unwrap();
        symlink("real", root.join(".env")).unwrap();
        symlink(&outside, root.join("a.pem")).unwrap();
        symlink("dir", root.join(".ssh")).unwrap();
        symlink("/usr/bin/env", root.join("b.pem")).unwrap();
        symlink("/", root.join("c.pem")).unwrap();
        symlink("..", root.join(".aws")).unwrap();
        symlink("none", root.join("d.pem")).unwrap();
        let outside = outside.display().to_string();
        assert_eq!(hidden(&SecretFiles::default(), &root), [&outside, "dir", "real"]);
    }

    #[test]
    fn a_directory_that_cannot_be_listed_or_is_too_much_is_hidden() {
        let (_directory, root) = workspace(&["a/b/x", "a/b/y"]);
        let list = |most| Listing::of(&root.join("a/b"), None, most, &Secrets::default());
        assert!(list(2).is_ok() && list(1).is_err());
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 2).collect();
        fs::create_dir_all(root.join(&deep)).unwrap();
        let first: PathBuf = std::iter::repeat_n("d", MAX_DEPTH).collect();
        assert_eq!(hidden(&SecretFiles::default(), &root), [first.display().to_string()]);
    }

    #[test]
    fn of_very_many_the_directories_are_hidden() {
        let many: Vec<_> = (0..MAX_HIDDEN + 5).map(|number| format!("keys/{number}.pem")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).chain([".env"]).collect();
        let (_directory, root) = workspace(&many);
        let hidden = hidden(&SecretFiles::default(), &root);
        assert!(hidden.contains(&"keys".to_owned()) && hidden.contains(&".env".to_owned()));
    }

    #[test]
    fn what_is_shown_of_a_directory_leaves_the_rest_hidden() {
        let (_directory, root) = workspace(&[".ssh/config", ".ssh/id", ".ssh/d/a", ".ssh/d/b"]);
        let shown = |names: &[&str]| {
            let shown = names.iter().map(|name| root.join(name)).collect();
            let hidden = hidden_but(root.join(".ssh"), &shown);
            let mut hidden: Vec<_> = hidden
                .iter()
                .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
                .collect();
            hidden.sort();
            hidden
        };
        assert_eq!(shown(&["other"]), [".ssh"]);
        assert!(shown(&[".ssh"]).is_empty());
        assert_eq!(shown(&[".ssh/config"]), [".ssh/d", ".ssh/id"]);
        assert_eq!(shown(&[".ssh/d/a", ".ssh/id"]), [".ssh/config", ".ssh/d/b"]);
    }
}
