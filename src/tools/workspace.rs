//! Paths that stay inside: every path from a model or a peer goes through here first.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::ToolError;

/// An ignore file of this agent's own, beside `.gitignore`; its rules win.
const OWN_IGNORE_FILE: &str = ".geminiignore";

/// The directories that tools may touch.
#[derive(Debug)]
pub struct Workspace {
    /// Real paths; the first is where relative paths begin.
    roots: Vec<PathBuf>,
}

impl Workspace {
    /// `root` and `more` must be directories.
    pub fn new(root: &Path, more: &[PathBuf]) -> io::Result<Self> {
        let real = |dir: &Path| {
            let real = fs::canonicalize(dir)
                .map_err(|err| io::Error::new(err.kind(), format!("{}: {err}", dir.display())))?;
            if real.is_dir() {
                return Ok(real);
            }
            Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is not a directory", dir.display()),
            ))
        };
        let mut roots = vec![real(root)?];
        for dir in more {
            let dir = real(dir)?;
            if !roots.contains(&dir) {
                roots.push(dir);
            }
        }
        Ok(Self { roots })
    }

    /// Where relative paths begin.
    pub fn root(&self) -> &Path {
        &self.roots[0]
    }

    /// All of them, real paths.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The real path that `path` (absolute, or relative to the root) leads to, if that is inside.
    /// It need not exist. What it leads through on the way, symbolic links included, counts.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.contains('\0') {
            return Err(ToolError::new("invalid_path", format!("{path:?} has a NUL byte in it")));
        }
        let asked = self.root().join(path);
        let real = real_path(&asked).map_err(|err| {
            ToolError::new(
                "invalid_path",
                format!("{} cannot be looked up: {err}", asked.display()),
            )
        })?;
        if self.contains(&real) {
            return Ok(real);
        }
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        let via =
            if real == asked { String::new() } else { format!(" (that is {})", real.display()) };
        Err(ToolError::new(
            "path_not_in_workspace",
            format!("{}{via} is outside the workspace: {}", asked.display(), roots.join(", ")),
        ))
    }

    /// Whether a real path is inside.
    pub fn contains(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| real.starts_with(root))
    }

    /// A path as people are shown it: relative to the root it is in, `.` for the first root.
    pub fn relative(&self, real: &Path) -> String {
        match real.strip_prefix(self.root()) {
            Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Ok(path) => path.display().to_string(),
            Err(_) => real.display().to_string(),
        }
    }

    /// Walks below `dir`, skipping what is ignored, `.git`, and links that lead elsewhere.
    pub fn walk(&self, dir: &Path, respect: Respect) -> WalkBuilder {
        let mut walk = WalkBuilder::new(dir);
        walk.hidden(false)
            .ignore(false)
            .git_ignore(respect.git)
            .git_exclude(respect.git)
            .git_global(false)
            .require_git(false)
            .parents(true)
            .follow_links(false)
            .filter_entry(|entry| entry.file_name() != ".git");
        if respect.own {
            walk.add_custom_ignore_filename(OWN_IGNORE_FILE);
        }
        walk
    }

    /// The ignore file that covers a real path inside the workspace.
    pub fn ignored_by(&self, real: &Path, respect: Respect) -> Option<&'static str> {
        let root = self.roots.iter().find(|root| real.starts_with(root))?;
        let is_dir = real.is_dir();
        let rules = |name: &str| rules_above(root, real, name);
        let covers = |rules: &[Gitignore]| {
            // The innermost file that says anything decides.
            rules.iter().rev().find_map(|rules| {
                let found = rules.matched_path_or_any_parents(real, is_dir);
                (!found.is_none()).then(|| found.is_ignore())
            })
        };
        let own = respect.own.then(|| covers(&rules(OWN_IGNORE_FILE))).flatten();
        let git = || respect.git.then(|| covers(&rules(".gitignore"))).flatten();
        match own {
            Some(true) => Some(OWN_IGNORE_FILE),
            Some(false) => None,
            None => (git() == Some(true)).then_some(".gitignore"),
        }
    }
}

/// Which ignore files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Respect {
    /// `.gitignore` and `.git/info/exclude`.
    pub git: bool,
    /// `.geminiignore`.
    pub own: bool,
}

impl Respect {
    /// All of them.
    pub const ALL: Self = Self { git: true, own: true };
}

/// The rules in the files called `name` from `root` down to where `path` is.
fn rules_above(root: &Path, path: &Path, name: &str) -> Vec<Gitignore> {
    let mut dirs: Vec<&Path> =
        path.ancestors().skip(1).take_while(|dir| dir.starts_with(root)).collect();
    dirs.reverse();
    let read = |dir: &&Path| {
        let file = dir.join(name);
        file.is_file().then(|| {
            let mut builder = GitignoreBuilder::new(dir);
            if let Some(err) = builder.add(&file) {
                tracing::debug!(%err, "an ignore file has rules that cannot be read");
            }
            builder.build().unwrap_or_else(|_| Gitignore::empty())
        })
    };
    dirs.iter().filter_map(read).collect()
}

/// Where a path leads, whether or not it exists: the deepest part that exists is resolved, and
/// what follows must be plain names.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match fs::canonicalize(existing) {
            Ok(real) => return missing.iter().rev().try_fold(real, |real, name| join(real, name)),
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            // A link that leads nowhere would be followed when written to.
            Err(_) if existing.is_symlink() => {
                let target = fs::read_link(existing)?;
                let target = existing.parent().unwrap_or(existing).join(target);
                let real =
                    if missing.len() > 64 { existing.to_owned() } else { real_path(&target)? };
                return missing.iter().rev().try_fold(real, |real, name| join(real, name));
            }
            Err(err) => {
                missing.push(existing.components().next_back().ok_or(err)?);
                existing = existing.parent().unwrap_or(Path::new("/"));
            }
        }
    }
}

fn join(dir: PathBuf, name: &Component<'_>) -> io::Result<PathBuf> {
    match name {
        Component::Normal(name) => Ok(dir.join(name)),
        Component::CurDir => Ok(dir),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "`..` after a directory that does not exist",
        )),
    }
}
