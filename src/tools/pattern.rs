//! A glob from the model: where to look for it, and what matches.

use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::blocking::Deadline;
use super::target::ignored;
use tandem_host::ToolError;
use tandem_host::workspace::{Respect, Walk, WalkEntry, Workspace};

/// Characters of a pattern; a longer one is no pattern.
const MAX_CHARS: usize = 4096;

/// A glob, and the directory in which its matches are.
#[derive(Debug)]
pub(super) struct GlobPattern {
    /// The directory in which matching begins; a real path.
    dir: PathBuf,
    /// Matches what is relative to `dir`.
    glob: GlobMatcher,
    /// The names that each match begins with.
    lead: Vec<String>,
    /// Maximum number of names in the path of a match.
    depth: Option<usize>,
    case_sensitive: bool,
    respect: Respect,
}

impl GlobPattern {
    /// A glob relative to `dir` (a real path), or absolute. What it names without wildcards is
    /// looked up, and must be inside the workspace; so must all that a wildcard can reach.
    pub(super) fn new(
        workspace: &Workspace,
        dir: &Path,
        glob: &str,
        case_sensitive: bool,
        respect: Respect,
    ) -> Result<Self, ToolError> {
        if glob.is_empty() {
            return Err(invalid("it is empty"));
        }
        if glob.chars().count() > MAX_CHARS {
            return Err(invalid("it is too long"));
        }
        let base = if glob.starts_with('/') { Path::new("/") } else { dir };
        let (mut lead, rest) = split(base, glob);
        if rest.split('/').any(|name| name == "..") {
            return Err(invalid("`..` cannot follow a wildcard"));
        }
        let mut dir = dir.to_owned();
        let start = base.join(lead.join("/"));
        let is_link = || workspace.real(&start).is_ok_and(|real| real != start && real.is_dir());
        if base != dir || lead.contains(&"..") || is_link() {
            // The last name may be a file's.
            let name = if rest.is_empty() { lead.pop() } else { None };
            let start = base.join(lead.join("/"));
            dir = match start.to_str() {
                Some(start) => workspace.resolve(start)?,
                None => return Err(invalid("the directory it begins in has no readable name")),
            };
            lead = name.into_iter().filter(|name| *name != "..").collect();
            if let Some(rules) = workspace.ignored_by(&dir, respect) {
                return Err(ignored(&dir, rules));
            }
        }
        let mut names: Vec<String> = lead.iter().map(|name| globset::escape(name)).collect();
        let depth = (!rest.contains("**")).then(|| lead.len() + rest.split('/').count());
        if !rest.is_empty() {
            names.push(rest.to_owned());
        }
        let glob = GlobBuilder::new(&names.join("/"))
            .literal_separator(true)
            .case_insensitive(!case_sensitive)
            .empty_alternates(true)
            .build()
            .map_err(|err| invalid(&err.kind().to_string()))?
            .compile_matcher();
        let lead = lead.into_iter().map(str::to_owned).collect();
        Ok(Self { dir, glob, lead, depth, case_sensitive, respect })
    }

    /// The directory that matching begins in; a real path.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Walks where something can match.
    pub(super) fn walk(
        &self,
        workspace: &Workspace,
        until: &Deadline,
        keep: impl Fn(&WalkEntry) -> bool + Send + Sync + 'static,
    ) -> Walk {
        let until = until.clone();
        let (lead, case_sensitive) = (self.lead.clone(), self.case_sensitive);
        let walk = workspace.walk_where(&self.dir, self.respect, move |entry| {
            let wanted = entry.depth().checked_sub(1).and_then(|at| lead.get(at));
            let name = entry.file_name().to_string_lossy();
            !until.over()
                && wanted.is_none_or(|wanted| same_name(wanted, &name, case_sensitive))
                && keep(entry)
        });
        walk.max_depth(self.depth)
    }

    /// Returns whether a path that was walked to matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        path.strip_prefix(&self.dir).is_ok_and(|path| self.glob.is_match(path))
    }
}

/// The names that a glob begins with, and the rest of it, from the first wildcard on. What exists
/// under a name with a wildcard in it is meant.
fn split<'a>(base: &Path, glob: &'a str) -> (Vec<&'a str>, &'a str) {
    let mut lead = Vec::new();
    let mut rest = glob.trim_start_matches('/');
    let mut at = base.to_owned();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = !name.contains(['*', '?', '[', '{', '\\']);
        if !is_name && fs::symlink_metadata(at.join(name)).is_err() {
            break;
        }
        if !name.is_empty() && name != "." {
            at.push(name);
            lead.push(name);
        }
        rest = after;
    }
    (lead, rest)
}

fn same_name(wanted: &str, name: &str, case_sensitive: bool) -> bool {
    // Most names differ in the first letters already.
    wanted == name || (!case_sensitive && wanted.to_lowercase() == name.to_lowercase())
}

fn invalid(why: &str) -> ToolError {
    ToolError::new("invalid_pattern", format!("This pattern cannot be used: {why}."))
}
