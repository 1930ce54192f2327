//! Directories and names of memory files.

use std::path::{Path, PathBuf};

use tandem_host::workspace::Workspace;

/// Name of a memory file if the settings name none.
const DEFAULT_NAME: &str = "GEMINI.md";

/// Name that is read besides the first name found: other agents' files have it too.
const ALSO: &str = "AGENTS.md";

/// Names of memory files, and the directories to search.
#[derive(Debug, Clone)]
pub struct Places {
    /// Names of the files. In each directory the first that exists counts, and `AGENTS.md` if that
    /// is among these.
    pub names: Vec<String>,
    /// Names in directories that are not the project's: the user's own, and those above the project. `None`: the same.
    pub own_names: Option<Vec<String>>,
    /// The user's own directories: what is there counts in every project. What the user wants
    /// remembered is added in the first.
    pub user: Vec<PathBuf>,
    /// Directory at which the search upwards ends at the latest.
    pub home: Option<PathBuf>,
    /// Names of files or directories that mark a project's top: the search upwards ends there.
    pub markers: Vec<String>,
    /// `true` if files in the workspace's other roots count like those in the first.
    pub all_roots: bool,
    /// Bytes of a file at most, with what it imports.
    pub file_bytes: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            names: vec![DEFAULT_NAME.to_owned(), ALSO.to_owned()],
            own_names: None,
            user: Vec::new(),
            home: None,
            markers: vec![".git".to_owned()],
            all_roots: false,
            file_bytes: 256 * 1024,
        }
    }
}

impl Places {
    /// Returns the name that a new memory file gets.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or(DEFAULT_NAME, String::as_str)
    }

    /// The file that what the user wants remembered is added to.
    pub(super) fn user_file(&self) -> Option<PathBuf> {
        let name = self.own_names().first().map_or(DEFAULT_NAME, String::as_str);
        Some(self.user.first()?.join(name))
    }

    fn own_names(&self) -> &[String] {
        self.own_names.as_ref().unwrap_or(&self.names)
    }

    /// Returns whether a directory is one of the project that `root` is in, rather than the user's. The home and all
    /// that is above it are nobody's project.
    pub(super) fn is_of_project(&self, directory: &Path, root: &Path) -> bool {
        let top = self.top(root).unwrap_or_else(|| root.to_owned());
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        directory.starts_with(top) && !home.is_some_and(|home| home.starts_with(directory))
    }

    /// Returns the files in a directory that only the project's settings name, though it is not the project's.
    pub(super) fn named_by_project(&self, directory: &Path) -> Vec<PathBuf> {
        let others = self.names.iter().filter(|name| !self.own_names().contains(name));
        let files = others.map(|name| directory.join(name));
        files.filter(|file| file.symlink_metadata().is_ok()).collect()
    }

    /// The files in a directory that may count, of the project or the user's.
    pub(super) fn in_directory(&self, directory: &Path, of_project: bool) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for name in if of_project { &self.names } else { self.own_names() } {
            let file = directory.join(name);
            if (files.is_empty() || name == ALSO) && file.symlink_metadata().is_ok() {
                files.push(file);
            }
        }
        files
    }

    /// The roots of a workspace whose files count.
    pub(super) fn roots<'a>(&self, workspace: &'a Workspace) -> &'a [PathBuf] {
        if self.all_roots { workspace.roots() } else { &workspace.roots()[..1] }
    }

    /// The directory at the top of the project that `root` (a real path) is in.
    pub(super) fn top(&self, root: &Path) -> Option<PathBuf> {
        let is_top = |dir: &&Path| {
            self.markers.iter().any(|marker| dir.join(marker).symlink_metadata().is_ok())
        };
        root.ancestors().find(is_top).map(Path::to_owned)
    }

    /// A root of the workspace and the directories above it that count, the outermost first: up to
    /// the top of the project, else up to the user's home. If it is in neither, only itself:
    /// nobody knows whose the rest is.
    pub(super) fn upwards(&self, root: &Path) -> Vec<PathBuf> {
        let home =
            self.home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
        let end = self.top(root).or_else(|| home.filter(|home| root.starts_with(home)));
        let end = end.unwrap_or_else(|| root.to_owned());
        let mut directories: Vec<_> =
            root.ancestors().take_while(|dir| dir.starts_with(&end)).map(Path::to_owned).collect();
        directories.reverse();
        directories
    }
}
