//! Files outside of the workspace that are read without a question, because commands in the sandbox read them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tandem_sandbox::{Home, RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

use crate::root::{Root, RootedPath};

/// Directories that are no files of the machine's: commands have others in their place.
const OTHERS: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Files outside of the workspace that can be read.
#[derive(Debug)]
pub struct FilesOutside {
    root: Arc<Root>,
    /// The home, if it is hidden but for a part.
    home: Option<Home>,
    /// Real paths of directories in which commands see other files, and of what is hidden from them.
    unseen: Vec<PathBuf>,
}

impl FilesOutside {
    /// Opens the root of the machine's files, from which they are reached through no link. Blocks.
    pub(crate) fn new(home: Option<Home>, hidden: Vec<PathBuf>) -> io::Result<Self> {
        let replaced = TEMPORARY_DIRECTORIES.iter().chain(&RUN_DIRECTORIES).chain(&OTHERS);
        let replaced = replaced.filter_map(|path| Path::new(path).canonicalize().ok());
        let unseen = hidden.into_iter().chain(replaced).collect();
        Ok(Self { root: Arc::new(Root::open(Path::new("/"))?), home, unseen })
    }

    /// Returns whether a file or directory, by its real path, can be read.
    pub(super) fn has(&self, real: &Path) -> bool {
        let is_hidden = self.home.as_ref().is_some_and(|home| home.hides(real));
        !is_hidden && !self.unseen.iter().any(|path| real.starts_with(path))
    }

    /// Returns the place of a real path below the descriptor of the root, if it can be read.
    pub(super) fn rooted(&self, real: &Path) -> Option<RootedPath> {
        self.has(real).then(|| RootedPath::new(Arc::clone(&self.root), real))
    }
}
