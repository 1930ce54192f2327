//! Possible working directories of a line's commands, and the paths that lead out of the workspace.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::repository::{self, is_bare};
use tandem_shell::Word;
use tandem_shell::options::glued;

/// Maximum length of a path that is looked up, in bytes.
const MAX_PATH: usize = 4096;
/// Maximum number of directory entries that one pattern is compared with. Beyond it, the matches count as unknown.
const MAX_ENTRIES: usize = 5_000;

/// Possible working directories of the next command of a line.
#[derive(Clone)]
pub(super) struct Cwd<'a> {
    /// Directories of the workspace, as real paths.
    roots: &'a [PathBuf],
    /// Directories that may be the working directory, as real paths; empty if any directory may be.
    here: Vec<PathBuf>,
}

impl<'a> Cwd<'a> {
    pub(super) fn new(directory: &Path, roots: &'a [PathBuf]) -> Self {
        Self { roots, here: fs::canonicalize(directory).into_iter().collect() }
    }

    pub(super) fn here(&self) -> &[PathBuf] {
        &self.here
    }

    pub(super) fn roots(&self) -> &[PathBuf] {
        self.roots
    }

    /// Restores the directories from before a subshell.
    pub(super) fn back(&mut self, here: Vec<PathBuf>) {
        self.here = here;
    }

    /// Follows a `cd` to `path`. Unless the `cd` is `certain` to succeed, the earlier directories stay possible. After
    /// a `cd` without a known path or through a link, any directory is possible: below a link, `..` leads `cd` to
    /// another directory than other programs.
    pub(super) fn change_directory(&mut self, path: Option<&str>, certain: bool) {
        let straight = |path: &&str| {
            self.here.iter().all(|dir| real(dir, path).is_some_and(|real| real == plain(dir, path)))
        };
        let there = path.filter(straight).and_then(|path| self.reached(path)).unwrap_or_default();
        let known = !there.is_empty();
        let before = std::mem::replace(&mut self.here, there);
        if known && !(certain && self.here.iter().all(|dir| dir.is_dir())) {
            self.here.extend(before);
            self.here.sort();
            self.here.dedup();
        }
        // Each uncertain `cd` may double the directories, and every path is looked up from each.
        if self.here.len() > 16 {
            self.here.clear();
        }
    }

    /// Returns the working directory of a command that an option sends to another directory: `git -C path`.
    pub(super) fn moved(&self, path: Option<&str>) -> Self {
        let mut moved = self.clone();
        if path.is_some() {
            moved.change_directory(path, true);
        }
        moved
    }

    /// Returns whether every possible working directory is inside the workspace; `false` if any directory is possible.
    pub(super) fn inside(&self) -> bool {
        !self.here.is_empty() && self.here.iter().all(|dir| self.contains(dir))
    }

    /// Returns whether a path leads into the workspace from every possible working directory, whether or not the file
    /// exists.
    pub(super) fn reaches_inside(&self, path: &str) -> bool {
        self.reached(path).is_some_and(|reached| reached.iter().all(|path| self.contains(path)))
    }

    /// Returns whether all existing files whose names may be glued to a one-letter option are inside the workspace. A
    /// name with a slash is skipped: it is a text, or is refused elsewhere.
    pub(super) fn has_glued(&self, text: &str) -> bool {
        glued(text).is_some_and(|names| {
            names.into_iter().all(|path| {
                let exists = |dir: &PathBuf| fs::symlink_metadata(dir.join(path)).is_ok();
                path.contains('/') || !self.here.iter().any(exists) || self.reaches_inside(path)
            })
        })
    }

    /// Returns whether a word may name an existing executable file.
    pub(super) fn can_run(&self, word: &Word) -> bool {
        self.paths_of(word).is_some_and(|named| named.iter().any(|path| can_run(path)))
    }

    /// Returns the repository that git would work in, as seen from the workspace's directory, if it is not the
    /// repository of the workspace itself. Anything may have written the configuration of such a repository, which
    /// names commands that git runs.
    pub(super) fn other_repository(&self) -> Option<PathBuf> {
        let from_root = |dir: &Path| {
            let root = self.roots.iter().find(|root| dir.starts_with(root));
            let inside = root.and_then(|root| dir.strip_prefix(root).ok()).unwrap_or(dir);
            if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_owned() }
        };
        let is_other = |dir: &Path| {
            let is_repository = fs::symlink_metadata(dir.join(".git")).is_ok();
            let is_root = self.roots.iter().any(|root| root == dir);
            is_bare(dir) || (is_repository && !is_root && self.contains(dir))
        };
        let other = |dir: &PathBuf| {
            let root = self.roots.iter().filter(|root| dir.starts_with(root));
            let root = root.max_by_key(|root| root.as_os_str().len());
            let up_to = |above: &&Path| root.is_none_or(|root| above.starts_with(root));
            dir.ancestors().take_while(up_to).find(|dir| is_other(dir)).map(from_root)
        };
        self.here.iter().find_map(other)
    }

    /// Returns whether a file of this name may be in a working directory, or in a directory above it.
    pub(super) fn has_above(&self, name: &str) -> bool {
        let has = |dir: &Path| fs::symlink_metadata(dir.join(name)).is_ok();
        self.here.is_empty() || self.here.iter().any(|dir| dir.ancestors().any(has))
    }

    /// Returns whether a word may name a directory.
    pub(super) fn may_be_directory(&self, word: &Word) -> bool {
        self.paths_of(word).is_none_or(|named| {
            // The paths of a pattern include the pattern's own directory, so a look at the paths would tell nothing.
            word.glob.is_some() || named.iter().any(|path| path.is_dir())
        })
    }

    /// Checks that git only reads in the repositories of the working directory. An error says why git may do more.
    pub(super) fn repositories_only_read(&self) -> Result<(), String> {
        repository::check(&self.here, self.roots)
    }

    /// Returns a hook that git may run while it reads the repositories of the working directory.
    pub(super) fn hook(&self) -> Option<PathBuf> {
        repository::hook(&self.here)
    }

    /// Returns whether every path that a word may name is inside the workspace.
    pub(super) fn has(&self, word: &Word) -> bool {
        self.paths_of(word).is_some_and(|named| named.iter().all(|path| self.contains(path)))
    }

    /// Returns the paths that a word may name, relative to the directory of the workspace that holds each. `None` if a
    /// path is outside, or not known.
    pub(super) fn inside_root(&self, word: &Word) -> Option<Vec<PathBuf>> {
        let from_root = |path: PathBuf| {
            let root = self.roots.iter().find(|root| path.starts_with(root));
            root.and_then(|root| path.strip_prefix(root).ok()).map(Path::to_owned)
        };
        self.paths_of(word)?.into_iter().map(from_root).collect()
    }

    /// Returns the real paths that a word may name, and the directory of its pattern. `None` if the paths are not
    /// known, if the pattern matches `..`, or if it matches a file whose name looks like an option.
    pub(super) fn paths_of(&self, word: &Word) -> Option<Vec<PathBuf>> {
        let looks_like_option = |name: &[u8]| name.starts_with(b"-");
        if word.glob.is_some() && word.text.split('/').any(is_pattern_of_hidden) {
            return None;
        }
        self.matching(word, looks_like_option)
    }

    /// Returns the real paths that a word may name, and the directory of its pattern, without `..` but with matches
    /// that look like options. `None` if the paths are not known.
    pub(super) fn matched(&self, word: &Word) -> Option<Vec<PathBuf>> {
        self.matching(word, |_| false)
    }

    /// Returns the real paths that a word may name, and the directory of its pattern. `None` if the paths are not
    /// known, or if a match in the working directory has a name that `refuses` accepts.
    fn matching(&self, word: &Word, refuses: impl Fn(&[u8]) -> bool) -> Option<Vec<PathBuf>> {
        let Some(glob) = word.glob else { return self.reached(&word.text) };
        let dir = word.text[..glob].rfind('/').map_or(0, |slash| slash + 1);
        let (dir, pattern) = word.text.split_at(dir);
        let dirs = self.reached(if dir.is_empty() { "." } else { dir })?;
        let refuses = |name: &[u8]| dir.is_empty() && refuses(name);
        let found = matching(dirs.clone(), pattern, refuses)?;
        Some(dirs.into_iter().chain(found).collect())
    }

    /// Returns the real paths that a path leads to from the possible working directories, whether or not the files
    /// exist. `None` if any directory is possible, or a path cannot be looked up.
    pub(super) fn reached(&self, path: &str) -> Option<Vec<PathBuf>> {
        let reached: Option<Vec<_>> = self.here.iter().map(|dir| real(dir, path)).collect();
        reached.filter(|reached| !reached.is_empty())
    }

    /// Returns whether a real path is inside the workspace.
    pub(super) fn contains(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| real.starts_with(root))
    }
}

/// Returns whether a path leads to an executable file.
pub(super) fn can_run(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the real path that `path` leads to from the real directory `dir`. A file that does not exist counts as being
/// where it would be. `None` for a path that is too long or cannot be looked up.
fn real(dir: &Path, path: &str) -> Option<PathBuf> {
    if path.len() > MAX_PATH {
        return None;
    }
    let mut real = if path.starts_with('/') { PathBuf::from("/") } else { dir.to_owned() };
    for component in Path::new(path).components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir => drop(real.pop()),
            Component::Prefix(_) => return None,
            Component::Normal(name) => real = follow(real.join(name))?,
        }
    }
    Some(real)
}

/// Returns the path that `path` leads to from `dir` if there are no links on the way.
fn plain(dir: &Path, path: &str) -> PathBuf {
    let mut plain = dir.to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            component => plain.push(component),
        }
    }
    plain
}

/// Returns the real target of a link, or the path itself if it is none. `None` if the path cannot be looked up, or if
/// the link leads nowhere.
fn follow(path: PathBuf) -> Option<PathBuf> {
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_symlink() => fs::canonicalize(&path).ok(),
        Ok(_) => Some(path),
        Err(err) => match err.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some(path),
            _ => None,
        },
    }
}

/// Returns whether a pattern also matches `..`, as `.*` does.
fn is_pattern_of_hidden(part: &str) -> bool {
    part.starts_with('.') && part.contains(['*', '?', '['])
}

/// Returns the paths that a pattern matches below `dirs`, except `..`. There may be too many of them, but never too
/// few: of each part, only the beginning and the end are compared. `None` if a path cannot be looked up, if there are
/// too many entries, or if the first part of the pattern matches a name that `refuses` accepts.
fn matching(
    mut dirs: Vec<PathBuf>,
    pattern: &str,
    refuses: impl Fn(&[u8]) -> bool,
) -> Option<Vec<PathBuf>> {
    let mut budget = MAX_ENTRIES;
    for (at, part) in pattern.split('/').enumerate() {
        let mut next = Vec::new();
        for dir in &dirs {
            let Some(glob) = part.find(['*', '?', '[']) else {
                next.push(real(dir, part)?);
                continue;
            };
            let (start, end) = (&part[..glob], part.rsplit(['*', '?', ']']).next().unwrap_or(""));
            for entry in fs::read_dir(dir).into_iter().flatten() {
                budget = budget.checked_sub(1)?;
                let name = entry.ok()?.file_name();
                let bytes = name.as_encoded_bytes();
                if !bytes.starts_with(start.as_bytes()) || !bytes.ends_with(end.as_bytes()) {
                    continue;
                }
                if at == 0 && refuses(bytes) {
                    return None;
                }
                next.push(follow(dir.join(name))?);
            }
        }
        dirs = next;
    }
    Some(dirs)
}
