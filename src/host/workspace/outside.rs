//! Rules for reading files outside the workspace. Some are read without a question, some if a person agrees, some
//! never.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tandem_sandbox::{Home, RUN_DIRECTORIES, TEMPORARY_DIRECTORIES};

use crate::root::{Root, RootedPath};
use crate::secrets::Secrets;

/// Directories whose files are not on the machine's disks. Commands in the sandbox have others in their place.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// A file or directory outside the workspace that is read if a person agrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideFile {
    /// Real path.
    pub path: PathBuf,
    /// Path that an "always" covers: the folder, or the file alone if the folder is the home or above it. `None` if
    /// that path would be the home, or if the file may hold secrets; such a file is asked about every time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

/// Rules for files outside the workspace.
#[derive(Debug)]
pub struct FilesOutside {
    root: Arc<Root>,
    /// Real path of the user's home. No "always" covers the home as a whole.
    home: Option<PathBuf>,
    unasked: UnaskedFiles,
    /// Real paths of files and directories known to hold secrets, which are never read.
    stores: Vec<PathBuf>,
    /// Real paths of directories in whose place commands in the sandbox have others (`/tmp`, `/run`, `/proc`). Files in
    /// them are never read.
    replaced: Vec<PathBuf>,
    secrets: Secrets,
}

/// Files that are read without a question.
#[derive(Debug)]
enum UnaskedFiles {
    /// Files that commands in the sandbox can read: all files but the hidden part of the home, if the home is hidden.
    Sandboxed(Option<Home>),
    /// Files that the user has named, by their real paths.
    Named(Vec<PathBuf>),
}

/// Condition on which a file outside the workspace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadCondition {
    /// The file is read without a question.
    Unasked,
    /// The file is read if a person agrees.
    Asked,
    /// The file is never read.
    Never,
}

impl FilesOutside {
    /// Returns the rules for a session whose commands run in a sandbox. `seen`: the visible part of the home, if the
    /// rest is hidden. `known`: real paths of files known to hold secrets. Opens the root of the machine's files, from
    /// which files are reached without following a link. Blocks.
    pub(crate) fn sandboxed(
        home: Option<PathBuf>,
        seen: Option<Home>,
        secrets: Secrets,
        known: Vec<PathBuf>,
    ) -> io::Result<Self> {
        let replaced =
            TEMPORARY_DIRECTORIES.iter().chain(&RUN_DIRECTORIES).chain(&SYSTEM_DIRECTORIES);
        Self::new(home, UnaskedFiles::Sandboxed(seen), secrets, known, replaced)
    }

    /// Returns the rules for a session whose commands run without a sandbox. `readable`: files that the user lets the
    /// session read. Blocks.
    pub(crate) fn unsandboxed(
        home: Option<PathBuf>,
        readable: &[PathBuf],
        secrets: Secrets,
    ) -> io::Result<Self> {
        let readable = readable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let known = secrets.existing_paths(home.as_deref());
        let others = RUN_DIRECTORIES.iter().chain(&SYSTEM_DIRECTORIES);
        Self::new(home, UnaskedFiles::Named(readable), secrets, known, others)
    }

    fn new<'n>(
        home: Option<PathBuf>,
        unasked: UnaskedFiles,
        secrets: Secrets,
        stores: Vec<PathBuf>,
        replaced: impl Iterator<Item = &'n &'n str>,
    ) -> io::Result<Self> {
        let replaced = replaced.filter_map(|path| Path::new(path).canonicalize().ok()).collect();
        let home = home.and_then(|home| home.canonicalize().ok());
        let root = Arc::new(Root::open(Path::new("/"))?);
        Ok(Self { root, home, unasked, stores, replaced, secrets })
    }

    /// Returns the condition on which a file or directory, given by its real path, is read.
    pub(crate) fn reading(&self, real: &Path) -> ReadCondition {
        if self.is_replaced(real) || self.stores.iter().any(|path| real.starts_with(path)) {
            return ReadCondition::Never;
        }
        let is_unasked = match &self.unasked {
            UnaskedFiles::Sandboxed(home) => !home.as_ref().is_some_and(|home| home.hides(real)),
            UnaskedFiles::Named(paths) => paths.iter().any(|path| real.starts_with(path)),
        };
        match is_unasked {
            true => ReadCondition::Unasked,
            false if self.secrets.why(real).is_some() => ReadCondition::Never,
            false => ReadCondition::Asked,
        }
    }

    /// Returns whether a file or directory, given by its real path, may hold secrets and lies in the hidden part of the
    /// home.
    pub(crate) fn is_hidden_secret(&self, real: &Path) -> bool {
        let is_in_hidden_home = match &self.unasked {
            UnaskedFiles::Sandboxed(Some(home)) => home.hides(real),
            UnaskedFiles::Sandboxed(None) | UnaskedFiles::Named(_) => false,
        };
        let is_secret = || {
            let in_store = self.stores.iter().any(|path| real.starts_with(path));
            in_store || self.secrets.why(real).is_some()
        };
        is_in_hidden_home && !self.is_replaced(real) && is_secret()
    }

    fn is_replaced(&self, real: &Path) -> bool {
        self.replaced.iter().any(|path| real.starts_with(path))
    }

    /// Returns the question to ask about a file or directory, given by its real path.
    pub(crate) fn outside_file(&self, real: &Path, is_directory: bool) -> OutsideFile {
        let is_narrow = |path: &&Path| {
            let has_home = |home: &PathBuf| home.starts_with(path);
            path.parent().is_some() && !self.home.as_ref().is_some_and(has_home)
        };
        let folder = if is_directory { Some(real) } else { real.parent() };
        let folder = folder.filter(is_narrow).or((!is_directory).then_some(real));
        OutsideFile { path: real.to_owned(), folder: folder.map(Path::to_owned) }
    }

    /// Returns a real path, to be opened below the descriptor of the root, if these permits allow reading it.
    pub(super) fn rooted(&self, real: &Path, permits: &ReadPermits) -> Option<RootedPath> {
        let is_read = self.is_read(real, |real| permits.cover(real));
        is_read.then(|| RootedPath::new(Arc::clone(&self.root), real))
    }

    /// Returns whether a file may be read. For a file that needs a person's consent, `permits` decides.
    pub(super) fn is_read(&self, real: &Path, permits: impl FnOnce(&Path) -> bool) -> bool {
        match self.reading(real) {
            ReadCondition::Unasked => true,
            ReadCondition::Asked => permits(real),
            ReadCondition::Never => false,
        }
    }
}

/// Paths that the running calls may read, by real path; a permit covers all files below its path. The lock guards the
/// list. A path is in the list once for each call that holds a permit for it.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadPermits(Arc<Mutex<Vec<PathBuf>>>);

impl ReadPermits {
    /// Permits reading these files, and all files below them, until the returned permit is dropped.
    pub(super) fn permit(&self, paths: Vec<PathBuf>) -> ReadPermit {
        self.0.lock().extend(paths.iter().cloned());
        ReadPermit { permits: self.clone(), paths }
    }

    fn cover(&self, real: &Path) -> bool {
        self.0.lock().iter().any(|path| real.starts_with(path))
    }

    /// Returns a snapshot of the permits.
    pub(super) fn now(&self) -> impl Fn(&Path) -> bool + Send + Sync + 'static {
        let permits = self.0.lock().clone();
        move |real| permits.iter().any(|path| real.starts_with(path))
    }
}

/// Permit to read files outside the workspace, in force until it is dropped.
#[must_use]
pub struct ReadPermit {
    permits: ReadPermits,
    paths: Vec<PathBuf>,
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        let mut permits = self.permits.0.lock();
        for path in &self.paths {
            if let Some(at) = permits.iter().position(|it| it == path) {
                permits.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rules for a user with the home `/home/me`, of which commands can read `.cargo/bin`.
    fn files() -> FilesOutside {
        let (path, readable) = (PathBuf::from("/home/me"), vec!["/home/me/.cargo/bin".into()]);
        let home = Home { path: path.clone(), readable, links: Vec::new() };
        let known = vec![PathBuf::from("/home/me/dotfiles/keys")];
        let files = FilesOutside::sandboxed(None, Some(home), Secrets::default(), known).unwrap();
        FilesOutside { home: Some(path), ..files }
    }

    #[track_caller]
    fn check(path: &str, expected: ReadCondition) {
        assert_eq!(files().reading(Path::new(path)), expected, "{path}");
    }

    #[test]
    fn of_the_home_what_is_hidden_is_asked_about_and_secrets_stay_closed() {
        check("/usr/include/stdio.h", ReadCondition::Unasked);
        check("/home/me/.cargo/bin/tool", ReadCondition::Unasked);
        check("/home/me/notes/x", ReadCondition::Asked);
        check("/home/me", ReadCondition::Asked);
        check("/home/me/other/.env", ReadCondition::Never);
        check("/home/me/.ssh/config", ReadCondition::Never);
        check("/home/me/dotfiles/keys/a", ReadCondition::Never);
        check("/proc/self/environ", ReadCondition::Never);
        check("/tmp/x", ReadCondition::Never);
    }

    #[test]
    fn secrets_of_the_hidden_home_are_told_from_what_commands_see_elsewhere() {
        let check = |path: &str, expected: bool| {
            assert_eq!(files().is_hidden_secret(Path::new(path)), expected, "{path}");
        };
        check("/home/me/.ssh/config", true);
        check("/home/me/other/.env", true);
        check("/home/me/dotfiles/keys/a", true);
        check("/home/me/notes/x", false);
        check("/home/me/.cargo/bin/server.pem", false);
        check("/etc/shadow", false);
        check("/tmp/.env", false);
    }

    #[track_caller]
    fn covers(path: &str, is_directory: bool, folder: Option<&str>) {
        let asked = files().outside_file(Path::new(path), is_directory);
        assert_eq!(asked.folder.as_deref(), folder.map(Path::new), "{path}");
    }

    #[test]
    fn an_always_covers_the_folder_and_never_the_home() {
        covers("/home/me/notes/x", false, Some("/home/me/notes"));
        covers("/home/me/notes", true, Some("/home/me/notes"));
        covers("/home/me/todo.md", false, Some("/home/me/todo.md"));
        covers("/home/me", true, None);
        covers("/home", true, None);
        covers("/", true, None);
        covers("/file", false, Some("/file"));
        covers("/srv/data", true, Some("/srv/data"));
    }

    #[test]
    fn a_permit_ends_with_its_call() {
        let (files, permits) = (files(), ReadPermits::default());
        let is_read = |path: &str| files.rooted(Path::new(path), &permits).is_some();
        assert!(!is_read("/home/me/notes/x"));
        let permit = permits.permit(vec!["/home/me/notes".into(), "/home/me/other".into()]);
        let same = permits.permit(vec!["/home/me/notes".into()]);
        assert!(is_read("/home/me/notes/x") && !is_read("/home/me/notes2"));
        assert!(is_read("/home/me/other/a") && !is_read("/home/me/other/.env"));
        drop(permit);
        assert!(is_read("/home/me/notes/x") && !is_read("/home/me/other/a"));
        drop(same);
        assert!(!is_read("/home/me/notes/x"));
    }
}
