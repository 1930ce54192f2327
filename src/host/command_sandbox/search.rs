//! The protected files of a workspace. A directory that cannot be searched for them counts as protected itself.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use tandem_content::bounded;

use super::walk::is_gone;

/// Maximum number of protected files that a profile lists one by one: each costs a command a little time.
const MAX_HELD: usize = 500;

/// Maximum number of directories that are made read-only as a whole in place of the files in them.
const MAX_HELD_DIRECTORIES: usize = 200;

/// Maximum number of links that are followed for one path: the limit of Linux.
const MAX_LINKS: usize = 40;

/// Maximum size of a file in which git names a directory, in bytes.
const MAX_POINTER_BYTES: u64 = 4096;

/// Result of a search.
#[derive(Debug, Default)]
pub(super) struct SearchResult {
    /// Protected files, the nearest to the roots first.
    pub(super) files: Vec<PathBuf>,
    /// Directories that were searched.
    pub(super) directories: HashSet<PathBuf>,
    /// Directories that could not be searched.
    pub(super) unclear: BTreeSet<PathBuf>,
}

/// Protected paths for a command's profile: single files, and whole directories.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeldFiles {
    pub(super) files: BTreeSet<PathBuf>,
    /// Directories that are protected as a whole: they contain more protected files, or could not be searched.
    pub(super) unclear: BTreeSet<PathBuf>,
}

impl SearchResult {
    /// Adds files that an earlier search has found and that still exist. Their directories may not be searchable any
    /// more.
    pub(super) fn merge_earlier(&mut self, earlier: &Self) {
        let is_there =
            |path: &&PathBuf| !path.symlink_metadata().is_err_and(|error| is_gone(&error));
        let known: HashSet<_> = self.files.iter().collect();
        let kept = earlier.files.iter().filter(|path| !known.contains(path));
        let kept: Vec<_> = kept.filter(is_there).cloned().collect();
        self.files.extend(kept);
    }

    /// Returns a limited number of files and directories that together cover all protected files.
    pub(super) fn to_held_files(&self, roots: &[PathBuf]) -> HeldFiles {
        let (each, beyond) = self.files.split_at(self.files.len().min(MAX_HELD));
        let beyond = beyond.iter().filter_map(|path| path.parent().map(Path::to_owned));
        let unclear = self.unclear.iter().cloned().chain(beyond).collect();
        HeldFiles { files: each.iter().cloned().collect(), unclear: gathered(unclear, roots) }
    }

    /// Returns whether a path lies in a directory that could not be searched.
    pub(super) fn is_unclear(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.unclear.contains(above))
    }
}

/// Replaces the deepest directories by their parents until at most `MAX_HELD_DIRECTORIES` are left. Roots are never
/// replaced.
fn gathered(mut directories: BTreeSet<PathBuf>, roots: &[PathBuf]) -> BTreeSet<PathBuf> {
    while directories.len() > MAX_HELD_DIRECTORIES {
        let depth =
            |path: &Path| if roots.iter().any(|it| it == path) { 0 } else { path.iter().count() };
        let deepest = directories.iter().map(|path| depth(path)).max().unwrap_or_default();
        if deepest == 0 {
            break;
        }
        let above = directories.into_iter().map(|path| match path.parent() {
            Some(parent) if depth(&path) == deepest => parent.to_owned(),
            _ => path,
        });
        directories = above.collect();
    }
    directories
}

/// Returns the files and everything that is protected with them: the links that they lead through, the targets of those
/// links, and the git directories that a `.git` file names.
pub(super) fn with_targets(files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut all = files.clone();
    for path in files {
        if path.is_symlink() {
            all.extend(led_through(path));
        }
        if path.file_name().is_some_and(|name| name == ".git") {
            all.extend(git_directories(path));
        }
    }
    all
}

/// Returns every link that a path leads through, followed by its final target. Gives up after `MAX_LINKS` links.
fn led_through(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut at) = (Vec::new(), PathBuf::from("/"));
    let names =
        |path: &Path| -> Vec<OsString> { path.iter().rev().map(ToOwned::to_owned).collect() };
    let mut rest = names(path);
    while let Some(name) = rest.pop() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(_)) => {
                let next = at.join(&name);
                match fs::read_link(&next) {
                    Ok(target) => {
                        rest.extend(names(&target));
                        found.push(next);
                    }
                    Err(_) => at = next,
                }
            }
            _ => {}
        }
        if found.len() > MAX_LINKS {
            return found;
        }
    }
    found.push(at);
    found
}

/// Returns the git directory of a repository whose `.git` is a file, as in a worktree, and the common directory that
/// all its worktrees share.
fn git_directories(path: &Path) -> Vec<PathBuf> {
    let pointed_to = |file: &Path, prefix: &str| {
        let text = String::from_utf8(bounded::read(file, MAX_POINTER_BYTES).ok()?).ok()?;
        let target = text.strip_prefix(prefix)?.trim_end_matches(['\n', '\r']);
        let target = file.parent()?.join(target.trim_start()).canonicalize().ok()?;
        is_git_directory(&target).then_some(target)
    };
    let Some(directory) = pointed_to(path, "gitdir:") else { return Vec::new() };
    let common = pointed_to(&directory.join("commondir"), "");
    common.into_iter().chain([directory]).collect()
}

/// Returns whether git would accept a directory as a git directory.
fn is_git_directory(path: &Path) -> bool {
    let has = |name: &str| path.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has("objects") || has("commondir"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_too_many_is_held_with_the_directories_above() {
        let root = PathBuf::from("/w");
        let directories = (0..300).map(|number| root.join(format!("a/{number}/b")));
        let gathered = gathered(directories.collect(), std::slice::from_ref(&root));
        assert_eq!(gathered, BTreeSet::from([root.join("a")]));
        let roots: BTreeSet<_> =
            (0..300).map(|number| PathBuf::from(format!("/{number}"))).collect();
        let all: Vec<_> = roots.iter().cloned().collect();
        assert_eq!(super::gathered(roots.clone(), &all), roots);
    }

    #[test]
    fn the_directories_of_more_files_than_are_held_are_unclear() {
        let root = PathBuf::from("/w");
        let files = (0..=MAX_HELD).map(|number| root.join(format!("{number}/.git")));
        let result = SearchResult { files: files.collect(), ..SearchResult::default() };
        let held = result.to_held_files(&[root]);
        assert_eq!((held.files.len(), held.unclear.len()), (MAX_HELD, 1));
        let unclear = held.unclear.first().unwrap().join(".git");
        assert!(!held.files.contains(&unclear));
    }

    #[test]
    fn what_was_found_is_kept_while_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let (kept, gone) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&kept, "").unwrap();
        let earlier = SearchResult { files: vec![kept.clone(), gone], ..SearchResult::default() };
        let mut found = SearchResult::default();
        found.merge_earlier(&earlier);
        assert_eq!(found.files, [kept]);
    }

    #[test]
    fn a_link_leads_through_others() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        symlink("b/../c", root.join("a")).unwrap();
        symlink("d", root.join("b")).unwrap();
        fs::create_dir_all(root.join("d/e")).unwrap();
        symlink(root.join("d/e"), root.join("c")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let expected = ["a", "b", "c", "d/e"].map(|name| root.join(name));
        assert_eq!(led_through(&root.join("a")), expected);
        assert_eq!(led_through(&root.join("loop")).len(), MAX_LINKS + 1);
    }

    #[test]
    fn a_directory_of_git_has_what_git_looks_for() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["tree", "git", "objects"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("tree/.git"), "gitdir: ../git\n").unwrap();
        fs::write(root.join("git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert!(git_directories(&root.join("tree/.git")).is_empty());
        fs::write(root.join("git/commondir"), "..\n").unwrap();
        assert_eq!(git_directories(&root.join("tree/.git")), [root.join("git")]);
        fs::write(root.join("HEAD"), "").unwrap();
        assert_eq!(git_directories(&root.join("tree/.git")), [root.clone(), root.join("git")]);
    }
}
