//! What people have written down for the model: `GEMINI.md` files, of the user and of the project.

use std::path::{Path, PathBuf};

use crate::tools::files;
use crate::tools::workspace::Workspace;

/// What the file is called in a project.
pub const FILE: &str = "GEMINI.md";

/// Bytes of one such file at most.
const MAX: u64 = 256 * 1024;

/// Whether what a folder says may be told to the model.
type Trusts = Box<dyn Fn(&Path) -> bool + Send + Sync>;

/// Where it is written down.
pub struct Memory {
    user: Option<PathBuf>,
    trusts: Trusts,
}

/// One file, and what it says; or why that is not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Absolute.
    pub path: PathBuf,
    /// Trimmed, and not empty.
    pub content: Result<String, String>,
}

impl Memory {
    /// `user` is the user's own file, for every project; `trusts` says no to a folder whose file
    /// is not to be followed.
    pub fn new(
        user: Option<PathBuf>,
        trusts: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { user, trusts: Box::new(trusts) }
    }

    /// Reads the files that there are: the user's own, then those at the workspace's roots.
    pub(super) fn read(&self, workspace: &Workspace) -> Vec<MemoryFile> {
        let own = self.user.iter().filter(|path| path.symlink_metadata().is_ok());
        let own = own.map(|path| (path.clone(), text(path)));
        let project = workspace.roots().iter().map(|root| root.join(FILE));
        let project = project.filter(|path| path.symlink_metadata().is_ok()).map(|path| {
            let text = self.of_project(&path, workspace);
            (path, text)
        });
        let mut files: Vec<MemoryFile> = Vec::new();
        for (path, content) in own.chain(project) {
            let new = !files.iter().any(|file| same(&file.path, &path));
            if new && content.as_deref() != Ok("") {
                files.push(MemoryFile { path, content });
            }
        }
        files
    }

    /// A file of a project leads nowhere outside it, and counts unless the user has said no.
    fn of_project(&self, path: &Path, workspace: &Workspace) -> Result<String, String> {
        let root = path.parent().unwrap_or(path);
        if !(self.trusts)(root) {
            return Err("you have said not to trust its folder".to_owned());
        }
        let real = workspace.resolve(&path.display().to_string()).map_err(|err| err.message)?;
        text(&real)
    }
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = files::read(path, MAX).map_err(|err| err.message)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}
