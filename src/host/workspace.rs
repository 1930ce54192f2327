//! The workspace: it checks that paths stay inside the directories that tools may touch. Every path from a model or a
//! peer goes through it first.

mod ignores;
mod outside;
mod tree;
mod walk;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub(super) use self::ignores::Ignores;
pub use self::ignores::{IgnoreSettings, Respect};
pub(super) use self::outside::ReadCondition;
use self::outside::ReadPermits;
pub use self::outside::{FilesOutside, OutsideFile, ReadPermit};
pub use self::walk::{Walk, WalkEntry};
use parking_lot::RwLock;

use super::files::moved;
use super::output::ToolError;
use super::root::{Metadata, Root, RootedPath, is_moved};
use super::secrets::Secrets;

/// Maximum length of a path, in bytes: the limit of Linux.
const MAX_PATH: usize = 4096;

/// Maximum number of symbolic links that are followed in one path: the limit of Linux.
const MAX_LINKS: usize = 40;

/// Kind of the error for a path that leads out of the workspace.
pub const OUTSIDE_KIND: &str = "path_not_in_workspace";

/// Directories in whose place commands in the sandbox see the session's own directory for temporary files.
const TEMPORARY_DIRECTORIES: [&str; 2] = ["/tmp", "/var/tmp"];

/// Directories that tools may touch.
#[derive(Debug)]
pub struct Workspace {
    /// Real paths of the roots. Relative paths begin at the first.
    roots: Vec<PathBuf>,
    /// The roots, opened when the session began.
    opened: Vec<Arc<Root>>,
    filtering: IgnoreSettings,
    secrets: Secrets,
    /// The directory that the session's commands see as `/tmp`, if it is not the machine's.
    temporary: OnceLock<Arc<Root>>,
    /// Rules for files outside the workspace, as of the last request for such a file.
    outside: RwLock<Option<Arc<FilesOutside>>>,
    /// Permits of running calls to read files outside the workspace.
    permits: ReadPermits,
}

/// A resolved path that is to be read.
pub struct PathToRead {
    /// Real path.
    pub real: PathBuf,
    /// `true` if a person has to agree first.
    pub is_asked: bool,
}

impl Workspace {
    /// Opens a workspace with the directories `root` and `more`. They are opened once, so tools keep working in them
    /// even if their paths lead elsewhere later.
    pub fn new(root: &Path, more: &[PathBuf]) -> io::Result<Self> {
        let open = |dir: &Path| {
            Root::open(dir)
                .map_err(|err| io::Error::new(err.kind(), format!("{}: {err}", dir.display())))
        };
        let mut opened = vec![open(root)?];
        for dir in more {
            let dir = open(dir)?;
            if opened.iter().all(|root| root.path() != dir.path()) {
                opened.push(dir);
            }
        }
        Ok(Self::from_roots(opened))
    }

    /// Returns a workspace of open directories. Relative paths begin at the first.
    fn from_roots(opened: Vec<Root>) -> Self {
        let roots = opened.iter().map(|root| root.path().to_owned()).collect();
        let opened = opened.into_iter().map(Arc::new).collect();
        let (filtering, secrets, temporary, outside, permits) = Default::default();
        Self { roots, opened, filtering, secrets, temporary, outside, permits }
    }

    /// Returns a workspace of one directory, named by a peer, which must be a root or below one. The workspace uses the
    /// directory that was checked, even if its path leads elsewhere later.
    pub fn narrowed(&self, directory: &Path) -> Result<Self, String> {
        let real = self.check_directory(directory)?;
        let opened = self.rooted(&real).and_then(|place| place.open_root());
        let opened = opened.map_err(|err| format!("{}: {err}", directory.display()))?;
        Ok(Self::from_roots(vec![opened]))
    }

    /// Replaces the settings of ignore files.
    #[must_use]
    pub fn filtered(self, filtering: IgnoreSettings) -> Self {
        Self { filtering, ..self }
    }

    /// Replaces the rules for secret files.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }

    /// Returns the rules for secret files: searches leave them out, and they are read only if a person agrees.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the root at which relative paths begin.
    pub fn root(&self) -> &Path {
        &self.roots[0]
    }

    /// Returns all roots, as real paths.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns the roots that lie in no other root: a walk through them meets every file once.
    pub fn trees(&self) -> impl Iterator<Item = &PathBuf> {
        let nested =
            |dir: &PathBuf| self.roots.iter().any(|root| root != dir && dir.starts_with(root));
        self.roots.iter().filter(move |dir| !nested(dir))
    }

    /// Returns the real path that `path` (absolute, or relative to the first root) leads to, if it is inside. The file
    /// need not exist. Every component counts, symbolic links included.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        let asked = self.to_absolute(path)?;
        let real = real_path(&asked).map_err(|err| not_looked_up(&asked, &err))?;
        if self.contains(&real) { Ok(real) } else { Err(self.outside(&asked, &real)) }
    }

    /// Resolves a path that is only read. Unlike with [`Self::resolve`], the path may also lie in the session's own
    /// `/tmp`, where links lead to the places that the session's commands see, or outside the workspace, if the file
    /// may be read with or without a question. Targets of links elsewhere are judged like any other path.
    pub(super) fn resolve_to_read(&self, path: &str) -> Result<PathToRead, ToolError> {
        let asked = self.to_absolute(path)?;
        let own = self.in_temporary(&asked);
        let target = |target: PathBuf| match own {
            Some(_) => self.in_temporary(&target).unwrap_or(target),
            None => target,
        };
        let known = self.temporary_path().filter(|_| own.is_some());
        let real = real_path_with(own.as_ref().unwrap_or(&asked), known, target);
        let real = real.map_err(|err| not_looked_up(&asked, &err))?;
        let is_inside = self.contains(&real) || own.is_some() && self.is_temporary(&real);
        let reading = match self.files_outside() {
            _ if is_inside => ReadCondition::Unasked,
            Some(files) => files.reading(&real),
            None => ReadCondition::Never,
        };
        match reading {
            ReadCondition::Never => Err(self.outside(&asked, &real)),
            reading => Ok(PathToRead { real, is_asked: reading == ReadCondition::Asked }),
        }
    }

    /// Returns the question to ask about a file or directory outside, given by its real path.
    pub fn asked_about(&self, real: &Path, is_directory: bool) -> Option<OutsideFile> {
        Some(self.files_outside()?.outside_file(real, is_directory))
    }

    /// Permits reading these files outside, given by their real paths, and all files below them, until the permit is
    /// dropped.
    pub fn permit(&self, paths: Vec<PathBuf>) -> ReadPermit {
        self.permits.permit(paths)
    }

    /// Sets the rules for files outside the workspace.
    pub(super) fn set_files_outside(&self, files: FilesOutside) {
        *self.outside.write() = Some(Arc::new(files));
    }

    fn files_outside(&self) -> Option<Arc<FilesOutside>> {
        self.outside.read().clone()
    }

    /// Sets the directory that the session's commands see as `/tmp`. Only the first call has an effect.
    pub(super) fn set_temporary(&self, directory: Root) {
        self.secrets.except(directory.path());
        let _ = self.temporary.set(Arc::new(directory));
    }

    /// Returns whether a path may lie in the session's own `/tmp`.
    pub(super) fn may_be_temporary(path: &str) -> bool {
        TEMPORARY_DIRECTORIES.iter().any(|temporary| Path::new(path).starts_with(temporary))
    }

    /// Returns the real path of a path as named by commands, if it lies in the session's own `/tmp`.
    fn in_temporary(&self, path: &Path) -> Option<PathBuf> {
        let directory = self.temporary_path()?;
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        // Commands see the workspace at its real path, even if that is below `/tmp`.
        if goes_up || self.contains(path) {
            return None;
        }
        let inside =
            TEMPORARY_DIRECTORIES.iter().find_map(|temporary| path.strip_prefix(temporary).ok());
        let named = inside.map(|inside| directory.join(inside));
        named.or_else(|| path.starts_with(directory).then(|| path.to_owned()))
    }

    /// Returns the path of the session's own `/tmp`.
    fn temporary_path(&self) -> Option<&Path> {
        self.temporary.get().map(|directory| directory.path())
    }

    /// Returns whether a real path is in the session's own `/tmp`.
    fn is_temporary(&self, real: &Path) -> bool {
        self.temporary_path().is_some_and(|directory| real.starts_with(directory))
    }

    /// Returns a real path as the session's commands name it: below `/tmp` if it is in the session's own `/tmp`.
    pub fn shown(&self, real: &Path) -> PathBuf {
        let inside = self.temporary_path();
        let inside = inside.and_then(|directory| real.strip_prefix(directory).ok());
        match inside {
            Some(inside) if inside.as_os_str().is_empty() => {
                PathBuf::from(TEMPORARY_DIRECTORIES[0])
            }
            Some(inside) => Path::new(TEMPORARY_DIRECTORIES[0]).join(inside),
            None => real.to_owned(),
        }
    }

    /// Returns a path as an absolute one, with the first root put before a relative path. Links are not followed.
    fn to_absolute(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.contains('\0') {
            return Err(ToolError::new("invalid_path", format!("{path:?} has a NUL byte in it")));
        }
        if path.len() > MAX_PATH {
            let message = format!("a path of {} bytes is longer than the system takes", path.len());
            return Err(ToolError::new("invalid_path", message));
        }
        Ok(self.root().join(path))
    }

    /// Returns the error for a path that leads out of the workspace.
    fn outside(&self, asked: &Path, real: &Path) -> ToolError {
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        let via =
            if real == asked { String::new() } else { format!(" (that is {})", real.display()) };
        ToolError::new(
            OUTSIDE_KIND,
            format!("{}{via} is outside the workspace: {}", asked.display(), roots.join(", ")),
        )
    }

    /// Checks that a directory, named by a peer, is a root or below one. Returns its real path.
    pub fn check_directory(&self, directory: &Path) -> Result<PathBuf, String> {
        let real = fs::canonicalize(directory);
        if let Ok(real) = &real
            && directory.is_absolute()
            && real.is_dir()
            && self.contains(real)
        {
            return Ok(real.clone());
        }
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        let why = real.err().map(|err| format!(" ({err})")).unwrap_or_default();
        Err(format!("{} is not a directory in {}{why}", directory.display(), roots.join(", ")))
    }

    /// Returns a real path, to be opened below the descriptor of its root, of the session's own `/tmp`, or of `/` for
    /// files outside that may be read.
    pub fn rooted(&self, real: &Path) -> io::Result<RootedPath> {
        let all = self.opened.iter().chain(self.temporary.get());
        // If one root lies in another, the inner one is used.
        let root = all.filter(|root| real.starts_with(root.path()));
        let root = root.max_by_key(|root| root.path().as_os_str().len());
        if let Some(root) = root {
            return Ok(RootedPath::new(Arc::clone(root), real));
        }
        let outside = self.files_outside().and_then(|files| files.rooted(real, &self.permits));
        outside.ok_or_else(|| io::Error::other("it is outside the workspace"))
    }

    /// Checks that the real path of a directory still leads to it, for a caller that has to use the path itself.
    pub fn check_in_place(&self, directory: &Path) -> Result<(), ToolError> {
        let opened = self.rooted(directory).and_then(|place| place.open_root());
        if opened.is_ok_and(|root| root.is_in_place()) { Ok(()) } else { Err(moved(directory)) }
    }

    /// Returns the metadata of the file at a path that may be a link itself, but has no link before its end. For a
    /// link, returns the metadata of its target, if that is inside.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self.rooted(path)?.metadata() {
            Err(error) if is_moved(&error) => {
                let target = self.link_target(path).ok_or(io::ErrorKind::NotFound)?;
                self.rooted(&target)?.metadata()
            }
            found => found,
        }
    }

    /// Returns whether a real path is in a root.
    pub fn contains(&self, real: &Path) -> bool {
        contains(&self.roots, real)
    }

    /// Returns a path for people: relative to the first root (`.` for the root itself), absolute in the other roots.
    pub fn relative(&self, real: &Path) -> String {
        match real.strip_prefix(self.root()) {
            Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Ok(path) => path.display().to_string(),
            Err(_) => self.shown(real).display().to_string(),
        }
    }

    /// Walks through the files below `dir` (a real path). The walk leaves out ignored files, `.git`, directories of
    /// secrets (unless `dir` is one), and links that lead out of the workspace. It yields other links, and does not
    /// follow them.
    pub fn walk(&self, dir: &Path, respect: Respect) -> Walk {
        self.walk_where(dir, respect, |_| true)
    }

    /// Walks as [`Self::walk`] does, and also leaves out each file or whole directory for which `keep` returns `false`.
    pub fn walk_where(
        &self,
        dir: &Path,
        respect: Respect,
        keep: impl Fn(&WalkEntry) -> bool + Send + Sync + 'static,
    ) -> Walk {
        let ignores = self.ignores(dir, respect);
        let roots = self.roots.clone();
        let secrets = self.secrets.why(dir).is_none().then(|| self.secrets.clone());
        let temporary = self.temporary_path().map(Path::to_owned);
        let outside =
            self.files_outside().filter(|_| !self.contains(dir) && !self.is_temporary(dir));
        let permits = self.permits.now();
        Walk::new(self.rooted(dir), move |entry| {
            let is_dir = entry.is_dir();
            entry.file_name() != ".git"
                && outside.as_ref().is_none_or(|files| files.is_read(entry.path(), &permits))
                && keep(entry)
                && !(is_dir && secrets.as_ref().is_some_and(|it| it.hides(entry.path(), true)))
                && ignores.cover_entry(entry.path(), is_dir).is_none()
                && (!entry.is_symlink()
                    || link_target(&roots, temporary.as_deref(), entry.path()).is_some())
        })
    }

    /// Returns the target of a symbolic link, if it exists and is inside.
    pub fn link_target(&self, link: &Path) -> Option<PathBuf> {
        link_target(&self.roots, self.temporary_path(), link)
    }

    /// Returns the real path of a file that exists.
    pub fn real(&self, path: &Path) -> io::Result<PathBuf> {
        existing(path, self.temporary_path())
    }

    /// Returns the ignore rules for paths below `dir`: for many paths, faster than [`Self::ignored_by`].
    pub fn ignores(&self, dir: &Path, respect: Respect) -> Ignores {
        let mut roots: Vec<_> = self.roots.iter().filter(|root| dir.starts_with(root)).collect();
        roots.sort_by_key(|root| root.as_os_str().len());
        let mut roots = roots.into_iter();
        let new = |root| Ignores::new(root, respect, &self.filtering);
        let mut ignores = new(roots.next().map_or(dir, PathBuf::as_path));
        // A root inside another was named by the user, so the outer rules do not hide it.
        for nested in roots {
            if ignores.cover(nested, true).is_some() {
                ignores = new(nested);
            }
        }
        ignores
    }

    /// Returns the name of the ignore file that covers a real path inside the workspace.
    pub fn ignored_by(&self, real: &Path, respect: Respect) -> Option<&'static str> {
        self.ignores(real, respect).cover(real, real.is_dir())
    }
}

fn not_looked_up(asked: &Path, error: &io::Error) -> ToolError {
    ToolError::new("invalid_path", format!("{} cannot be looked up: {error}", asked.display()))
}

fn contains(roots: &[PathBuf], real: &Path) -> bool {
    roots.iter().any(|root| real.starts_with(root))
}

/// Returns the real path of a link's target, if it exists and is in a root. `temporary`: the path of the session's own
/// `/tmp`.
fn link_target(roots: &[PathBuf], temporary: Option<&Path>, link: &Path) -> Option<PathBuf> {
    existing(link, temporary).ok().filter(|real| contains(roots, real))
}

fn existing(path: &Path, temporary: Option<&Path>) -> io::Result<PathBuf> {
    match temporary.filter(|temporary| path.starts_with(temporary)) {
        // If the session's own `/tmp` is a file system in memory, its path leads through a descriptor in `/proc`.
        // `canonicalize` cannot resolve such a path.
        Some(_) => {
            let real = real_path_with(path, temporary, |target| target)?;
            real.symlink_metadata().map(|_| real)
        }
        None => fs::canonicalize(path),
    }
}

/// Result of the look-up of one component of a path.
pub(super) enum ComponentKind {
    /// A symbolic link; its target.
    Link(PathBuf),
    /// A file or directory.
    Present,
    Missing,
}

/// Returns the real path of an absolute path, whether or not it exists. Links on the way are followed. Below the
/// deepest component that exists, only plain names are allowed.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    real_path_with(path, None, |target| target)
}

/// Resolves a path as `real_path` does. `known`: path of a directory that counts as real without a look-up, as do the
/// directories above it. `place` maps the target of each link to another path.
fn real_path_with(
    path: &Path,
    known: Option<&Path>,
    place: impl Fn(PathBuf) -> PathBuf,
) -> io::Result<PathBuf> {
    walk(path, |path| match fs::symlink_metadata(path) {
        _ if known.is_some_and(|known| known.starts_with(path)) => Ok(ComponentKind::Present),
        Ok(found) if found.is_symlink() => {
            fs::read_link(path).map(|target| ComponentKind::Link(place(target)))
        }
        Ok(_) => Ok(ComponentKind::Present),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(ComponentKind::Missing),
        Err(err) => Err(err),
    })
}

/// Resolves an absolute path component by component, with one look-up for each.
pub(super) fn walk(
    path: &Path,
    mut look_up: impl FnMut(&Path) -> io::Result<ComponentKind>,
) -> io::Result<PathBuf> {
    let mut real = PathBuf::from("/");
    // Components that are still to be resolved, the next one last.
    let mut ahead = reversed(path);
    let mut links = 0;
    let mut is_missing = false;
    while let Some(component) = ahead.pop() {
        if component == ".." {
            if is_missing {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "`..` after a directory that does not exist",
                ));
            }
            // `..` after a regular file is an error, as it is to the system.
            if !real.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            real.pop();
            continue;
        }
        real.push(&component);
        if is_missing {
            continue;
        }
        match look_up(&real)? {
            ComponentKind::Present => {}
            ComponentKind::Missing => is_missing = true,
            // Links are followed even if their target does not exist, as a write would follow them, too.
            ComponentKind::Link(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                real.pop();
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                ahead.extend(reversed(&target));
            }
        }
    }
    Ok(real)
}

/// Returns the names and `..` of a path, the last first.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn each_component_of_a_path_is_looked_up_once() {
        let lookups = Cell::new(0);
        let path = format!("{}{}", "/d".repeat(1000), "/new".repeat(500));
        let real = walk(Path::new(&path), |path| {
            lookups.set(lookups.get() + 1);
            let exists = path.ends_with("d");
            Ok(if exists { ComponentKind::Present } else { ComponentKind::Missing })
        });
        assert_eq!(real.unwrap(), Path::new(&path));
        assert_eq!(lookups.get(), 1001);
    }

    #[test]
    fn links_in_a_circle_are_given_up() {
        let circle = walk(Path::new("/a/b"), |_| Ok(ComponentKind::Link(PathBuf::from("a"))));
        assert!(circle.is_err());
    }
}
