//! Files of the workspace that hold secrets. They are hidden from commands, unless git tracks them.

mod git_index;
mod tracked;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tandem_sandbox::{RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

use self::tracked::Repositories;
use super::walk::{Candidate, is_system};

/// Maximum number of files that are hidden one by one: each costs a command a little time. In place of further files,
/// their directories are hidden.
const MAX_HIDDEN: usize = 500;

/// The files with secrets of one workspace, determined anew for every command.
#[derive(Default)]
pub(super) struct SecretFiles {
    /// Repositories of the workspace as they were before the first command: a command could make others.
    repositories: Mutex<Option<Repositories>>,
}

impl SecretFiles {
    /// Returns the real paths of the files and directories to hide, from the results of a walk through the workspace.
    /// Blocks.
    pub(super) fn hidden(
        &self,
        roots: &[PathBuf],
        candidates: Vec<Candidate>,
        unsearched: Vec<PathBuf>,
    ) -> Vec<PathBuf> {
        let mut repositories = self.repositories.lock();
        let repositories = repositories.get_or_insert_with(|| Repositories::containing(roots));
        let paths = candidates.iter().map(|candidate| candidate.path.clone()).collect();
        let tracked = repositories.tracked(&paths);
        hidden_of(roots, candidates, unsearched, &tracked)
    }
}

/// Returns the files and directories to hide, from the results of a walk through other directories. Files that git
/// tracks are hidden, too. Blocks.
pub(super) fn files_to_hide(
    directories: &[PathBuf],
    candidates: Vec<Candidate>,
    unsearched: Vec<PathBuf>,
) -> Vec<PathBuf> {
    hidden_of(directories, candidates, unsearched, &BTreeSet::new())
}

/// Returns the files and directories to hide, from the results of a walk, without the tracked files.
fn hidden_of(
    roots: &[PathBuf],
    candidates: Vec<Candidate>,
    unsearched: Vec<PathBuf>,
    tracked: &BTreeSet<PathBuf>,
) -> Vec<PathBuf> {
    let (mut found, mut hidden) = (Vec::new(), unsearched);
    for Candidate { path, is_link } in candidates {
        if !is_link {
            found.extend(hidden_but(path, tracked));
        } else if !tracked.contains(&path) {
            found.extend(target(&path, roots));
        }
    }
    // The files are sorted by depth. In place of the files beyond the limit, the deepest ones, their directories are
    // hidden.
    for path in found.drain(found.len().min(MAX_HIDDEN)..) {
        let directory = path.parent().filter(|directory| !is_above_root(directory, roots));
        hidden.push(directory.map_or_else(|| path.clone(), Path::to_owned));
    }
    hidden.extend(found);
    hidden
}

/// Returns the parts of a hidden file or directory that stay hidden if the files of `shown` become visible.
pub(super) fn hidden_but(path: PathBuf, shown: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    // A directory that a person has agreed to show is shown with all of its files.
    if path.ancestors().any(|above| shown.contains(above)) {
        return Vec::new();
    }
    match shown.range(path.clone()..).next() {
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

/// Returns the path to hide in place of a link: the file or directory that it leads to, which may be outside the
/// workspace. `None` if commands need that directory.
fn target(link: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    // Without this check, a command could make a link named `.env` to `/usr`, and later commands would find no
    // programs.
    let mut replaced = RUN_DIRECTORIES.iter().chain(&TEMPORARY_DIRECTORIES);
    let mut is_replaced = || replaced.any(|path| Path::new(path).starts_with(&target));
    let is_needed = is_system(&target) || is_above_root(&target, roots) || is_replaced();
    (!is_needed).then_some(target)
}

fn is_above_root(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| root.starts_with(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::walk::{NameRules, WorkspaceWalk};
    use super::*;
    use crate::secrets::Secrets;

    /// Makes a workspace with these files. A name that ends with `/` is a directory.
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
    fn hidden(root: &Path) -> Vec<String> {
        let roots = [root.to_owned()];
        let wanted = NameRules { is_protected: &|_| false, secrets: &Secrets::default() };
        let found = WorkspaceWalk::default().walk(&roots, &wanted).unwrap();
        let hidden = SecretFiles::default().hidden(&roots, found.secrets, found.unsearched);
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
        assert_eq!(hidden(&root), expected);
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
        assert_eq!(hidden(&root), [&outside, "dir", "real"]);
    }

    #[test]
    fn a_directory_that_is_too_deep_is_hidden() {
        let (_directory, root) = workspace(&[]);
        fs::create_dir_all(root.join("d/".repeat(66))).unwrap();
        assert_eq!(hidden(&root), [vec!["d"; 64].join("/")]);
    }

    #[test]
    fn of_very_many_the_directories_are_hidden() {
        let many: Vec<_> = (0..MAX_HIDDEN + 5).map(|number| format!("keys/{number}.pem")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).chain([".env"]).collect();
        let (_directory, root) = workspace(&many);
        let hidden = hidden(&root);
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
