//! Directories and names of memory files.

use std::path::{Path, PathBuf};

use tandem_tools::workspace::Workspace;

/// Name that is read besides the first name found: other agents' files have it too.
const ALSO: &str = "AGENTS.md";

/// Names of memory files, and the directories to search.
#[derive(Debug, Clone)]
pub struct Places {
    /// Names of the files. In each directory the first that exists counts, and `AGENTS.md` if that
    /// is among these.
    pub names: Vec<String>,
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
            names: vec!["GEMINI.md".to_owned(), ALSO.to_owned()],
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
        self.names.first().map_or("GEMINI.md", String::as_str)
    }

    /// The file that what the user wants remembered is added to.
    pub(super) fn user_file(&self) -> Option<PathBuf> {
        Some(self.user.first()?.join(self.name()))
    }

    /// The files in a directory that may count.
    pub(super) fn in_directory(&self, directory: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for name in &self.names {
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
