//! Ignore files: `.gitignore`, git's `info/exclude`, and this agent's `.geminiignore`.
//!
//! The same rules serve walks and single paths, so that both agree. A file is ignored if a rule covers the file or a
//! directory above it. The innermost rule that matches a path decides. This agent's rules go before git's. Git's rules
//! do not reach beyond the top of a repository.

use std::collections::HashMap;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};
use tandem_content::bounded;

use parking_lot::Mutex;

const OWN_IGNORE_FILE: &str = ".geminiignore";
const GIT_IGNORE_FILE: &str = ".gitignore";
const GIT_EXCLUDE_FILE: &str = ".git/info/exclude";
const NAMED_IGNORE_FILE: &str = "an ignore file that is named in the settings";

/// Maximum size of an ignore file, in bytes. A larger file counts as empty.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of directories whose rules are cached.
const MAX_CACHED_DIRECTORIES: usize = 8192;

/// Ignore files that the user has chosen, which apply to every call.
#[derive(Debug, Clone)]
pub struct IgnoreSettings {
    /// `true` if `.gitignore` and git's `info/exclude` apply.
    pub git: bool,
    /// `true` if `.geminiignore` applies.
    pub own: bool,
    /// Further ignore files, by their paths in each root. Their rules outweigh all other rules. An earlier file
    /// outweighs a later file.
    pub more: Vec<PathBuf>,
}

impl Default for IgnoreSettings {
    fn default() -> Self {
        Self { git: true, own: true, more: Vec::new() }
    }
}

/// Kinds of ignore files that apply in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Respect {
    /// `.gitignore` and `.git/info/exclude`.
    pub git: bool,
    /// `.geminiignore`, and further files that the user has named.
    pub own: bool,
}

impl Respect {
    /// All kinds.
    pub const GIT_AND_OWN: Self = Self { git: true, own: true };
}

/// The rules for paths below one directory. Rules are read when first needed, and are not read again.
pub struct Ignores {
    root: PathBuf,
    respect: Respect,
    /// Rules that outweigh all others. An earlier set outweighs a later set.
    named: Vec<Gitignore>,
    /// Rules of the directories above the root, if they are in the same repository.
    above: Arc<Level>,
    /// Cache of the rules by directory. The lock is held while ignore files are read, as tasks that wait for it mostly
    /// need the same files.
    levels: Mutex<HashMap<PathBuf, Arc<Level>>>,
}

/// The rules of one directory, and of those above it.
#[derive(Default)]
struct Level {
    above: Option<Arc<Self>>,
    own: Option<Gitignore>,
    git: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// `true` if the directory is the top of a repository: git's rules from above do not apply in it.
    is_repository: bool,
}

impl Ignores {
    pub(super) fn new(root: &Path, respect: Respect, filtering: &IgnoreSettings) -> Self {
        let named = filtering.more.iter().filter(|_| respect.own);
        let named = named.filter_map(|file| rules(root, &root.join(file))).collect();
        let respect =
            Respect { git: respect.git && filtering.git, own: respect.own && filtering.own };
        let above = if respect.git { rules_above(root) } else { Arc::default() };
        Self { root: root.to_owned(), respect, named, above, levels: Mutex::default() }
    }

    /// Returns the name of the ignore file that covers a real path or a directory above it.
    pub(crate) fn cover(&self, real: &Path, is_dir: bool) -> Option<&'static str> {
        let mut above: Vec<&Path> =
            real.ancestors().skip(1).take_while(|dir| self.is_below(dir)).collect();
        above.reverse();
        let above = above.into_iter().find_map(|dir| self.cover_entry(dir, true));
        above.or_else(|| self.cover_entry(real, is_dir))
    }

    /// Returns the name of the ignore file that covers a real path, for a caller that has checked the directories above
    /// it.
    pub fn cover_entry(&self, real: &Path, is_dir: bool) -> Option<&'static str> {
        if !self.is_below(real) {
            return None;
        }
        for rules in &self.named {
            match rules.matched(real, is_dir) {
                Match::Ignore(_) => return Some(NAMED_IGNORE_FILE),
                Match::Whitelist(_) => return None,
                Match::None => {}
            }
        }
        if !(self.respect.git || self.respect.own) {
            return None;
        }
        self.level(real.parent()?).cover(real, is_dir)
    }

    fn is_below(&self, path: &Path) -> bool {
        path != self.root && path.starts_with(&self.root)
    }

    /// Returns the rules for the entries of a directory.
    fn level(&self, dir: &Path) -> Arc<Level> {
        let mut levels = self.levels.lock();
        let mut level = Arc::clone(&self.above);
        let mut unknown = Vec::new();
        for dir in dir.ancestors().take_while(|dir| dir.starts_with(&self.root)) {
            if let Some(known) = levels.get(dir) {
                level = Arc::clone(known);
                break;
            }
            unknown.push(dir);
        }
        if levels.len() + unknown.len() > MAX_CACHED_DIRECTORIES {
            levels.clear();
        }
        for dir in unknown.into_iter().rev() {
            level = read_level(dir, level, self.respect);
            levels.insert(dir.to_owned(), Arc::clone(&level));
        }
        level
    }
}

impl Level {
    fn cover(&self, path: &Path, is_dir: bool) -> Option<&'static str> {
        let (mut git, mut exclude) = (Match::None, Match::None);
        let mut same_repository = true;
        for level in iter::successors(Some(self), |level| level.above.as_deref()) {
            match say(level.own.as_ref(), path, is_dir) {
                Match::Ignore(_) => return Some(OWN_IGNORE_FILE),
                Match::Whitelist(_) => return None,
                Match::None => {}
            }
            if same_repository {
                git = git.or(say(level.git.as_ref(), path, is_dir));
                exclude = exclude.or(say(level.exclude.as_ref(), path, is_dir));
            }
            same_repository &= !level.is_repository;
        }
        match git {
            Match::Ignore(_) => Some(GIT_IGNORE_FILE),
            Match::Whitelist(_) => None,
            Match::None => exclude.is_ignore().then_some(GIT_EXCLUDE_FILE),
        }
    }
}

fn say<'a>(rules: Option<&'a Gitignore>, path: &Path, is_dir: bool) -> Match<&'a Glob> {
    rules.map_or(Match::None, |rules| rules.matched(path, is_dir))
}

/// Returns git's rules from the top of the repository down to `root`. Returns none if `root` itself is ignored: a user
/// who works in an ignored directory wants to see the files in it.
fn rules_above(root: &Path) -> Arc<Level> {
    let mut level = Arc::default();
    let Some(top) = root.ancestors().find(|dir| is_repository(dir)) else { return level };
    let mut dirs: Vec<&Path> = root.ancestors().take_while(|dir| dir.starts_with(top)).collect();
    dirs.reverse();
    for (dir, below) in dirs.iter().zip(&dirs[1..]) {
        level = read_level(dir, level, Respect { git: true, own: false });
        if level.cover(below, true).is_some() {
            return Arc::default();
        }
    }
    level
}

fn is_repository(dir: &Path) -> bool {
    dir.join(".git").exists()
}

/// Returns the rules for the entries of `dir`; the rules from above if `dir` adds none.
fn read_level(dir: &Path, above: Arc<Level>, respect: Respect) -> Arc<Level> {
    let mut level = Level::default();
    if respect.own {
        level.own = rules(dir, &dir.join(OWN_IGNORE_FILE));
    }
    if respect.git {
        level.git = rules(dir, &dir.join(GIT_IGNORE_FILE));
        level.is_repository = is_repository(dir);
    }
    if level.is_repository {
        level.exclude = rules(dir, &exclude_file(dir));
    }
    if level.own.is_none() && level.git.is_none() && !level.is_repository {
        return above;
    }
    level.above = Some(above);
    Arc::new(level)
}

/// Returns the rules in an ignore file, for the entries of `dir`.
fn rules(dir: &Path, file: &Path) -> Option<Gitignore> {
    let text = read(file)?;
    let mut rules = GitignoreBuilder::new(dir);
    for line in text.lines() {
        if let Err(err) = rules.add_line(None, line) {
            tracing::debug!(file = %file.display(), %err, "not a rule");
        }
    }
    let failed = |err| tracing::warn!(file = %file.display(), %err, "an ignore file is not heeded");
    rules.build().map_err(failed).ok().filter(|rules| !rules.is_empty())
}

/// Returns the path of git's `info/exclude` for the repository at `dir`. In a worktree it lies in the common git
/// directory.
fn exclude_file(dir: &Path) -> PathBuf {
    let git = dir.join(".git");
    if git.is_dir() {
        return git.join("info/exclude");
    }
    let own = read(&git).and_then(|text| Some(dir.join(text.strip_prefix("gitdir:")?.trim())));
    let own = own.unwrap_or(git);
    let shared = read(&own.join("commondir")).map(|text| own.join(text.trim()));
    shared.unwrap_or(own).join("info/exclude")
}

fn read(file: &Path) -> Option<String> {
    let bytes = bounded::read(file, MAX_BYTES).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}
