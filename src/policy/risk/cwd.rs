//! Working directory of a line's commands, as far as it is known, and the paths that lead out of the
//! workspace.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::repository::{self, is_bare};
use tandem_shell::Word;

/// A longer path is not looked up.
const MAX_PATH: usize = 4096;
/// A longer text behind an option is not looked up, in bytes.
const MAX_GLUED: usize = 256;
/// In directories with more entries than this, patterns are not looked up.
const MAX_ENTRIES: usize = 5_000;

/// Possible working directories of the next command of a line.
#[derive(Clone)]
pub(super) struct Cwd<'a> {
    /// The workspace, real paths.
    roots: &'a [PathBuf],
    /// Every directory that it may be, real paths; none if it may be any.
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

    /// Goes back to earlier directories.
    pub(super) fn back(&mut self, here: Vec<PathBuf>) {
        self.here = here;
    }

    /// Goes to `path`, or, unless that is `certain`, perhaps stays. Without a path, anywhere; and
    /// so through a link: what is above it for `cd` is not what is above it for others.
    pub(super) fn go(&mut self, path: Option<&str>, certain: bool) {
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
        // Each `cd` that is not certain may double them, and every path is looked up from all.
        if self.here.len() > 16 {
            self.here.clear();
        }
    }

    /// Returns the working directory of a command that goes elsewhere itself.
    pub(super) fn moved(&self, path: Option<&str>) -> Self {
        let mut moved = self.clone();
        if path.is_some() {
            moved.go(path, true);
        }
        moved
    }

    /// Returns whether the directory is inside the workspace.
    pub(super) fn inside(&self) -> bool {
        !self.here.is_empty() && self.here.iter().all(|dir| self.contains(dir))
    }

    /// Returns whether a path, seen from here, leads to something inside, whether or not it exists.
    pub(super) fn reaches_inside(&self, path: &str) -> bool {
        self.reached(path).is_some_and(|reached| reached.iter().all(|path| self.contains(path)))
    }

    /// Returns whether what may be glued to options of one letter is inside: of `-vflnk`, the files
    /// `flnk`, `lnk`, `nk` and `k`, if there are such. Names only: with a slash it is a text, or
    /// refused elsewhere.
    pub(super) fn has_glued(&self, text: &str) -> bool {
        let Some(letters) = text.strip_prefix('-').filter(|text| !text.starts_with('-')) else {
            return true;
        };
        letters.len() <= MAX_GLUED
            && letters.char_indices().skip(1).all(|(at, _)| {
                let path = &letters[at..];
                let exists = |dir: &PathBuf| fs::symlink_metadata(dir.join(path)).is_ok();
                path.contains('/') || !self.here.iter().any(exists) || self.reaches_inside(path)
            })
    }

    /// Returns whether a file that a word names is there and can be run.
    pub(super) fn can_run(&self, word: &Word) -> bool {
        let can_run = |path: &PathBuf| {
            let mode = fs::metadata(path).map(|found| found.permissions().mode());
            path.is_file() && mode.is_ok_and(|mode| mode & 0o111 != 0)
        };
        self.named(word).is_some_and(|named| named.iter().any(can_run))
    }

    /// Returns the repository that git would work in, if that is not the one of the workspace itself:
    /// anything may have written its configuration, which names commands. As seen from the root.
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

    /// Returns whether a file of this name may be here or in a directory above.
    pub(super) fn has_above(&self, name: &str) -> bool {
        let has = |dir: &Path| fs::symlink_metadata(dir.join(name)).is_ok();
        self.here.is_empty() || self.here.iter().any(|dir| dir.ancestors().any(has))
    }

    /// Returns whether something that a word names may be a directory.
    pub(super) fn may_be_directory(&self, word: &Word) -> bool {
        self.named(word).is_none_or(|named| {
            // The directory of a pattern is among them.
            word.glob.is_some() || named.iter().any(|path| path.is_dir())
        })
    }

    /// Returns the reason why git may do more than read in the repositories of this directory.
    pub(super) fn repositories_only_read(&self) -> Result<(), String> {
        repository::check(&self.here, self.roots)
    }

    /// Returns a hook that git may run while it reads the repositories of this directory.
    pub(super) fn hook(&self) -> Option<PathBuf> {
        repository::hook(&self.here)
    }

    /// Returns whether everything that a word names is inside.
    pub(super) fn has(&self, word: &Word) -> bool {
        self.named(word).is_some_and(|named| named.iter().all(|path| self.contains(path)))
    }

    /// Returns the paths that a word names, seen from the root that they are in. None if not all of
    /// them are inside.
    pub(super) fn inside_root(&self, word: &Word) -> Option<Vec<PathBuf>> {
        let from_root = |path: PathBuf| {
            let root = self.roots.iter().find(|root| path.starts_with(root));
            root.and_then(|root| path.strip_prefix(root).ok()).map(Path::to_owned)
        };
        self.named(word)?.into_iter().map(from_root).collect()
    }

    /// Returns the real paths of all that a word may name, and of the directory of its pattern. None if
    /// that is not known, or if something that its pattern names looks like an option.
    pub(super) fn named(&self, word: &Word) -> Option<Vec<PathBuf>> {
        let looks_like_option = |name: &[u8]| name.starts_with(b"-");
        if word.glob.is_some() && word.text.split('/').any(is_pattern_of_hidden) {
            return None;
        }
        self.matching(word, looks_like_option)
    }

    /// Returns the real paths of all that a word may name, and of the directory of its pattern, also if some of
    /// them look like options. `..` is not among them. None if that is not known.
    pub(super) fn matched(&self, word: &Word) -> Option<Vec<PathBuf>> {
        self.matching(word, |_| false)
    }

    /// `refuses`: names of the working directory for which the answer is `None`.
    fn matching(&self, word: &Word, refuses: impl Fn(&[u8]) -> bool) -> Option<Vec<PathBuf>> {
        let Some(glob) = word.glob else { return self.reached(&word.text) };
        let dir = word.text[..glob].rfind('/').map_or(0, |slash| slash + 1);
        let (dir, pattern) = word.text.split_at(dir);
        let dirs = self.reached(if dir.is_empty() { "." } else { dir })?;
        let refuses = |name: &[u8]| dir.is_empty() && refuses(name);
        let found = matching(dirs.clone(), pattern, refuses)?;
        Some(dirs.into_iter().chain(found).collect())
    }

    /// Returns the real paths that a path leads to, seen from here, whether or not they exist.
    pub(super) fn reached(&self, path: &str) -> Option<Vec<PathBuf>> {
        let reached: Option<Vec<_>> = self.here.iter().map(|dir| real(dir, path)).collect();
        reached.filter(|reached| !reached.is_empty())
    }

    /// Returns whether a real path is inside the workspace.
    pub(super) fn contains(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| real.starts_with(root))
    }
}

/// Returns the real path that `path` leads to from the real directory `dir`; what does not exist leads
/// to where it would be.
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

/// Returns the path itself, or the target of the link that it is.
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

/// Returns whether a pattern names `..`, too: `.*`.
fn is_pattern_of_hidden(part: &str) -> bool {
    part.starts_with('.') && part.contains(['*', '?', '['])
}

/// Returns at least every path that a pattern names below `dirs`, but for `..`. None if that cannot be said, or
/// if the first part of the pattern names what is refused.
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
