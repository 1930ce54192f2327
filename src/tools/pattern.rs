//! A glob from the model: the directory to search, and the paths that match.

use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::blocking::{Deadline, blocking};
use super::target::PathTarget;
use tandem_host::workspace::{OutsideFile, Respect, Walk, WalkEntry, Workspace};
use tandem_host::{ToolContext, ToolError};

/// Maximum length of a pattern, in characters.
const MAX_CHARS: usize = 4096;

/// A glob, and the directory that holds its matches.
#[derive(Debug)]
pub(super) struct GlobPattern {
    /// Directory in which matching begins; a real path.
    dir: PathBuf,
    /// Matcher of paths relative to `dir`.
    glob: GlobMatcher,
    /// Names that the path of each match begins with, relative to `dir`.
    lead: Vec<String>,
    /// Maximum number of names in the path of a match; `None` if the glob has `**`.
    depth: Option<usize>,
    case_sensitive: bool,
    respect: Respect,
    /// The directory if it is outside of the workspace and a person has to agree to its search.
    pub(super) outside: Option<OutsideFile>,
}

/// The parts of a glob.
struct GlobParts {
    /// Directory in which matching begins, if the glob leads out of the given one: by `/`, `..` or a link.
    start: Option<String>,
    /// Names that the path of each match begins with.
    lead: Vec<String>,
    /// Rest of the glob, from the first wildcard on.
    rest: String,
}

impl GlobParts {
    /// Splits a glob that is absolute or relative to `dir`, a real path. Blocks.
    fn split(workspace: &Workspace, dir: &Path, glob: &str) -> Result<Self, ToolError> {
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
        let place = base.join(lead.join("/"));
        let is_link = || workspace.real(&place).is_ok_and(|real| real != place && real.is_dir());
        let mut start = None;
        if base != dir || lead.contains(&"..") || is_link() {
            // `start` must be a directory. If the glob has no wildcard, its last name may be the name of a file.
            let name = if rest.is_empty() { lead.pop() } else { None };
            let place = base.join(lead.join("/"));
            let unreadable = || invalid("the directory it begins in has no readable name");
            start = Some(place.to_str().ok_or_else(unreadable)?.to_owned());
            lead = name.into_iter().filter(|name| *name != "..").collect();
        }
        let lead = lead.into_iter().map(str::to_owned).collect();
        Ok(Self { start, lead, rest: rest.to_owned() })
    }
}

impl GlobPattern {
    /// Looks up a glob in each directory of the workspace; an absolute glob only once.
    pub(super) async fn in_workspace(
        cx: &ToolContext,
        glob: &str,
        case_sensitive: bool,
        respect: Respect,
    ) -> Result<Vec<Self>, ToolError> {
        let is_absolute = cx.host.with_home(glob).starts_with('/');
        let trees = if is_absolute { 1 } else { usize::MAX };
        let mut patterns = Vec::new();
        for dir in cx.host.workspace.trees().take(trees) {
            patterns.push(Self::look_up(cx, dir, glob, case_sensitive, respect).await?);
        }
        Ok(patterns)
    }

    /// Looks up a glob that is absolute or relative to `dir`, a real path. The directory before the first wildcard is
    /// checked as any path that a tool reads.
    pub(super) async fn look_up(
        cx: &ToolContext,
        dir: &Path,
        glob: &str,
        case_sensitive: bool,
        respect: Respect,
    ) -> Result<Self, ToolError> {
        let (mut dir, mut outside) = (dir.to_owned(), None);
        let (given, glob) = (dir.clone(), cx.host.with_home(glob).into_owned());
        let parts = move |cx: &ToolContext| GlobParts::split(&cx.host.workspace, &given, &glob);
        let GlobParts { start, lead, rest } = blocking(cx, parts).await?;
        if let Some(start) = start {
            let target = PathTarget::look_up(cx, &start, respect).await;
            let is_missing = target.found.as_ref().is_err_and(ToolError::is_file_not_found);
            // A missing directory of the workspace is no error: nothing matches. A missing one outside is an error, so
            // that no person is asked about it.
            if !is_missing || target.outside.is_some() {
                target.directory()?;
            }
            (dir, outside) = (target.path, target.outside);
        }
        let mut names: Vec<String> = lead.iter().map(|name| globset::escape(name)).collect();
        let depth = (!rest.contains("**")).then(|| lead.len() + rest.split('/').count());
        if !rest.is_empty() {
            names.push(rest);
        }
        let glob = GlobBuilder::new(&names.join("/"))
            .literal_separator(true)
            .case_insensitive(!case_sensitive)
            .empty_alternates(true)
            .build()
            .map_err(|err| invalid(&err.kind().to_string()))?
            .compile_matcher();
        Ok(Self { dir, glob, lead, depth, case_sensitive, respect, outside })
    }

    /// Returns the directory in which matching begins; a real path.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Walks through the directories that can hold matches.
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

    /// Returns whether a path from the walk matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        path.strip_prefix(&self.dir).is_ok_and(|path| self.glob.is_match(path))
    }
}

/// Splits a glob into the names before the first wildcard, and the rest. A name with a wildcard character counts as a
/// plain name if an entry of exactly this name exists. Blocks.
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
    // The exact comparison comes first: it needs no lower-case copies of the names.
    wanted == name || (!case_sensitive && wanted.to_lowercase() == name.to_lowercase())
}

fn invalid(why: &str) -> ToolError {
    ToolError::new("invalid_pattern", format!("This pattern cannot be used: {why}."))
}
