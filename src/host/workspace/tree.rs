//! Overview of the files of a workspace.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use super::super::smallest::Smallest;
use super::ignores::Ignores;
use super::{Respect, Workspace};
use tandem_content::shorten::one_line;

/// Maximum number of entries that are listed of one directory, so that a full directory leaves room for others.
const PER_DIRECTORY: usize = 60;

/// Maximum number of entries that are looked at in total: some directories have millions.
const LOOKED_AT: usize = 20_000;

/// Maximum number of characters of a name.
const NAME_CHARS: usize = 100;

impl Workspace {
    /// Lists up to `most` files and directories that are not ignored, those nearest to the roots first. Each has a
    /// line, indented below its directory. `…` marks omitted entries. Entries of a directory for which `shows` returns
    /// `false` are omitted.
    pub fn tree(&self, most: usize, shows: impl Fn(&Path) -> bool) -> String {
        let mut tree = Tree { left: most, look: LOOKED_AT, directories: HashMap::new() };
        tree.list_levels(self, shows);
        let mut text = String::new();
        for root in self.trees() {
            if self.roots.len() > 1 {
                text += &format!("{}:\n", root.display());
            }
            tree.write(root, 0, &mut text);
        }
        text
    }
}

/// Entries of the directories that were listed.
struct Tree {
    /// Number of entries that may still be listed.
    left: usize,
    /// Number of entries that may still be looked at.
    look: usize,
    directories: HashMap<PathBuf, Directory>,
}

struct Directory {
    entries: Vec<TreeEntry>,
    /// `true` if the directory has entries that are not listed.
    more: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TreeEntry {
    path: PathBuf,
    is_dir: bool,
}

impl Tree {
    /// Lists the directories, level by level.
    fn list_levels(&mut self, workspace: &Workspace, shows: impl Fn(&Path) -> bool) {
        let roots =
            workspace.trees().map(|root| (root, workspace.ignores(root, Respect::GIT_AND_OWN)));
        let roots: Vec<_> = roots.collect();
        let mut waiting: VecDeque<_> =
            roots.iter().map(|(root, ignores)| ((*root).clone(), ignores)).collect();
        while let Some((path, ignores)) = waiting.pop_front() {
            if self.left == 0 || self.look == 0 {
                return;
            }
            if !shows(&path) {
                continue;
            }
            let Some(directory) = self.list(workspace, &path, ignores) else { continue };
            let secrets = &workspace.secrets;
            let below = directory.entries.iter().filter(|entry| entry.is_dir);
            let below = below.filter(|entry| !secrets.hides(&entry.path, true));
            waiting.extend(below.map(|entry| (entry.path.clone(), ignores)));
            self.directories.insert(path, directory);
        }
    }

    /// Lists a directory; `None` if it cannot be read.
    fn list(&mut self, workspace: &Workspace, path: &Path, ignores: &Ignores) -> Option<Directory> {
        let mut first = Smallest::new(self.left.min(PER_DIRECTORY));
        let mut entries = workspace.rooted(path).and_then(|it| it.entries()).ok()?.take(self.look);
        for entry in entries.by_ref() {
            self.look -= 1;
            let Ok((name, kind)) = entry else { continue };
            let (path, is_dir) = (path.join(&name), kind.is_dir());
            if name != ".git" && ignores.cover_entry(&path, is_dir).is_none() {
                first.push(TreeEntry { path, is_dir });
            }
        }
        let given = first.offered_count();
        let entries = first.into_sorted();
        self.left -= entries.len();
        Some(Directory { more: given > entries.len() || self.look == 0, entries })
    }

    fn write(&self, path: &Path, depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        let Some(directory) = self.directories.get(path) else {
            *text += &format!("{indent}…\n");
            return;
        };
        for TreeEntry { path, is_dir } in &directory.entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = one_line(&name, NAME_CHARS);
            *text += &format!("{indent}{name}{}\n", if *is_dir { "/" } else { "" });
            if *is_dir {
                self.write(path, depth + 1, text);
            }
        }
        if directory.more {
            *text += &format!("{indent}…\n");
        }
    }
}
