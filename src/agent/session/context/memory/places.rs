//! The directories and names of memory files.

use std::path::{Path, PathBuf};

use tandem_host::workspace::Workspace;

/// Name of a memory file, if the settings give none.
const DEFAULT_NAME: &str = "GEMINI.md";

/// Name of memory files that other agents read, too. Such a file is read in addition to the first file found.
const FALLBACK_NAME: &str = "AGENTS.md";

/// Names of memory files, and the directories to search.
#[derive(Debug, Clone)]
pub struct Places {
    /// Names of memory files. In each directory, the first of them that exists is read, and also `AGENTS.md` if it is
    /// one of the names.
    pub names: Vec<String>,
    /// Names of memory files in directories that are not the project's: the user's own directories, and those above the
    /// project. `None`: the same as `names`.
    pub own_names: Option<Vec<String>>,
    /// The user's own directories, whose memory files count in every project. Facts that the user wants remembered are
    /// added to a file in the first.
    pub user: Vec<PathBuf>,
    /// The user's home directory, at which the search upwards ends if no marker is found.
    pub home: Option<PathBuf>,
    /// Names of files or directories that mark the top of a project, at which the search upwards ends.
    pub markers: Vec<String>,
    /// `true` if memory files count in all roots of the workspace; `false`: only in the first.
    pub all_roots: bool,
    /// Maximum number of bytes of a memory file with its imports.
    pub file_bytes: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            names: vec![DEFAULT_NAME.to_owned(), FALLBACK_NAME.to_owned()],
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

    /// Returns the file to which facts are added that the user wants remembered; `None` if the user has no own
    /// directory.
    pub(super) fn user_file(&self) -> Option<PathBuf> {
        let name = self.own_names().first().map_or(DEFAULT_NAME, String::as_str);
        Some(self.user.first()?.join(name))
    }

    fn own_names(&self) -> &[String] {
        self.own_names.as_ref().unwrap_or(&self.names)
    }

    /// Returns `true` if a directory belongs to the project that `root` is in. The user's home and the directories
    /// above it never belong to a project.
    pub(super) fn is_of_project(&self, directory: &Path, root: &Path) -> bool {
        let top = self.project_root(root).unwrap_or_else(|| root.to_owned());
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        directory.starts_with(top) && !home.is_some_and(|home| home.starts_with(directory))
    }

    /// Returns the existing files, in a directory outside of the project, whose names only the project's settings give.
    pub(super) fn named_by_project(&self, directory: &Path) -> Vec<PathBuf> {
        let others = self.names.iter().filter(|name| !self.own_names().contains(name));
        let files = others.map(|name| directory.join(name));
        files.filter(|file| file.symlink_metadata().is_ok()).collect()
    }

    /// Returns the memory files in a directory. `of_project`: the directory belongs to a project. This decides which
    /// names are searched.
    pub(super) fn in_directory(&self, directory: &Path, of_project: bool) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for name in if of_project { &self.names } else { self.own_names() } {
            let file = directory.join(name);
            if (files.is_empty() || name == FALLBACK_NAME) && file.symlink_metadata().is_ok() {
                files.push(file);
            }
        }
        files
    }

    /// Returns the roots of a workspace in which memory files count.
    pub(super) fn roots<'a>(&self, workspace: &'a Workspace) -> &'a [PathBuf] {
        if self.all_roots { workspace.roots() } else { &workspace.roots()[..1] }
    }

    /// Returns the top directory of the project that `root` (a real path) is in; `None` if no directory has a marker.
    pub(super) fn project_root(&self, root: &Path) -> Option<PathBuf> {
        let is_top = |dir: &&Path| {
            self.markers.iter().any(|marker| dir.join(marker).symlink_metadata().is_ok())
        };
        root.ancestors().find(is_top).map(Path::to_owned)
    }

    /// Returns a root of the workspace and the directories above it in which memory files count, the outermost first:
    /// up to the top of the project, else up to the user's home. If the root is in neither, returns only the root,
    /// because the directories above it may belong to other users.
    pub(super) fn upwards(&self, root: &Path) -> Vec<PathBuf> {
        let home =
            self.home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
        let end = self.project_root(root).or_else(|| home.filter(|home| root.starts_with(home)));
        let end = end.unwrap_or_else(|| root.to_owned());
        let mut directories: Vec<_> =
            root.ancestors().take_while(|dir| dir.starts_with(&end)).map(Path::to_owned).collect();
        directories.reverse();
        directories
    }
}
