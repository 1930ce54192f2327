//! The files that names, directories and globs lead to.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::Deserialize;

use crate::blocking::{Deadline, blocking};
use crate::pattern::GlobPattern;
use crate::read_file::excerpt::LineSpan;
use crate::target::{FILE_IGNORED, LABEL_CHARS, PathTarget};
use tandem_content::shorten::one_line;
use tandem_host::args::{self, FilterArgs};
use tandem_host::files::FileKind;
use tandem_host::smallest::Smallest;
use tandem_host::workspace::{OutsideFile, Respect, Walk, WalkEntry};
use tandem_host::{ToolContext, ToolError};

/// Names of files and directories that are read only if a call names them: programs made them, or they are not text.
const DEFAULT_EXCLUDES: &[&str] = &[
    "node_modules/",
    "target/",
    "dist/",
    "build/",
    "__pycache__/",
    ".venv/",
    ".svn/",
    ".hg/",
    "*.lock",
    "package-lock.json",
    "pnpm-lock.yaml",
    "*.min.js",
    "*.map",
    "*.zip",
    "*.tar",
    "*.gz",
    "*.bz2",
    "*.xz",
    "*.zst",
    "*.7z",
    "*.jar",
    "*.class",
    "*.pyc",
    "*.o",
    "*.a",
    "*.so",
    "*.dylib",
    "*.dll",
    "*.exe",
    "*.wasm",
    "*.bin",
];

/// The files that a call is to read.
#[derive(Default)]
pub(super) struct ReadPlan {
    /// Files that are named one by one, then files that were found; each in order.
    pub(super) files: Vec<PlannedFile>,
    /// Entries that cannot be read, with the reason.
    pub(super) skipped: Vec<(String, String)>,
    /// Number of further files, which the answer has no room for.
    pub(super) more: usize,
    /// Files and directories outside of the workspace that are read only if a person agrees.
    pub(super) outside: Vec<OutsideFile>,
    /// Searches of directories in `outside`, which run only after a person has agreed.
    closed: Vec<ClosedSearch>,
}

/// A search outside of the workspace, which runs only after a person has agreed.
enum ClosedSearch {
    /// Search for all files below a directory.
    Directory(PathBuf),
    /// Search for the files that match a glob.
    Glob(String, Vec<GlobPattern>),
}

impl ClosedSearch {
    /// Returns the directories that are searched.
    fn directories(&self) -> Vec<&Path> {
        match self {
            Self::Directory(directory) => vec![directory],
            Self::Glob(_, patterns) => patterns.iter().map(GlobPattern::dir).collect(),
        }
    }

    /// Returns the name of the search, for the model.
    fn name(&self) -> String {
        match self {
            Self::Directory(directory) => directory.display().to_string(),
            Self::Glob(glob, _) => one_line(glob, LABEL_CHARS),
        }
    }
}

impl ReadPlan {
    /// Returns the files that the call names by their paths, and the directories outside of the workspace that are
    /// searched once a person agrees. Leaves out the files that a search has found already.
    pub(super) fn named_paths(&self) -> impl Iterator<Item = &Path> {
        let named = self.files.iter().filter(|file| file.named).map(|file| file.path.as_path());
        named.chain(self.closed.iter().flat_map(ClosedSearch::directories))
    }

    /// Runs the searches that a person has agreed to by now, and adds the files that they find. Blocks.
    pub(super) fn open(mut self, cx: &ToolContext, args: &ReadManyArgs) -> Result<Self, ToolError> {
        let closed = std::mem::take(&mut self.closed);
        if closed.is_empty() {
            return Ok(self);
        }
        let search = Finder::new(cx, args)?;
        let mut found = BTreeMap::new();
        for closed in closed {
            let matched = match &closed {
                ClosedSearch::Directory(directory) => search.below(directory),
                ClosedSearch::Glob(glob, patterns) => search.glob(glob, patterns),
            };
            match matched {
                Ok(matched) => self.add(matched, &mut found),
                Err(error) => self.skipped.push((closed.name(), error.message)),
            }
            search.until.check()?;
        }
        self.add_found(cx, &search.until, found);
        self.limit(cx);
        Ok(self)
    }

    /// Adds the files of a directory or a glob to `found`, and the number of files that they leave out to `self.more`.
    fn add(&mut self, matched: EntryFiles, found: &mut BTreeMap<PathBuf, bool>) {
        if let EntryFiles::Files { paths, more } = matched {
            self.more += more;
            for (path, media) in paths {
                *found.entry(path).or_default() |= media;
            }
        }
    }

    /// Moves found files into the plan, each with `true` if it may be an image. Files that may hold secrets are
    /// skipped.
    fn add_found(
        &mut self,
        cx: &ToolContext,
        until: &Deadline,
        mut found: BTreeMap<PathBuf, bool>,
    ) {
        if until.timed_out() {
            let seconds = cx.host.limits.search_time.as_secs();
            let why = format!("not found within {seconds} s, after which the search ended");
            self.skipped.push(("other files".to_owned(), why));
        }
        let known: HashSet<_> = self.files.iter().map(|file| file.path.clone()).collect();
        found.retain(|path, _| !known.contains(path));
        let secrets = cx.host.workspace.secrets();
        let secret: Vec<_> = found.extract_if(.., |path, _| secrets.why(path).is_some()).collect();
        self.skipped.extend(secret.iter().map(|(path, _)| {
            let name = one_line(&cx.host.workspace.relative(path), LABEL_CHARS);
            (name, "may hold secrets: name it, and the user is asked".to_owned())
        }));
        let file = |(path, media)| PlannedFile { path, named: false, media, lines: None };
        self.files.extend(found.into_iter().map(file));
    }

    /// Removes the files that exceed the maximum for one call, and counts them.
    fn limit(&mut self, cx: &ToolContext) {
        self.more += self.files.len().saturating_sub(cx.host.limits.files);
        self.files.truncate(cx.host.limits.files);
    }
}

/// A file to read.
#[derive(Debug, Clone)]
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    /// `true` if the file is named one by one, rather than found in a directory or by a glob.
    pub(super) named: bool,
    /// `true` if the file may be an image or the like: the call names the file, or asks for files of its kind.
    pub(super) media: bool,
    /// Range of lines to read; `None` for the whole file.
    pub(super) lines: Option<LineSpan>,
}

/// Arguments of the tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadManyArgs {
    #[serde(deserialize_with = "args::list")]
    pub(super) include: Vec<String>,
    #[serde(default, deserialize_with = "args::list")]
    pub(super) exclude: Vec<String>,
    #[serde(default, deserialize_with = "args::flag")]
    pub(super) recursive: Option<bool>,
    #[serde(default, rename = "useDefaultExcludes", deserialize_with = "args::flag")]
    pub(super) use_default_excludes: Option<bool>,
    #[serde(default)]
    pub(super) file_filtering_options: Option<FilterArgs>,
    /// Parts of files, which prompts can mention. Models do not use this field: they have `read_file`.
    #[serde(default)]
    pub(super) excerpts: Vec<LinesOfFile>,
    /// `true` if the text of a file is given without line numbers, as the prompts of custom commands need it.
    #[serde(default)]
    pub(super) plain: bool,
}

/// Some lines of a file.
#[derive(Deserialize)]
pub(super) struct LinesOfFile {
    pub(super) path: String,
    pub(super) start_line: usize,
    pub(super) end_line: usize,
}

impl ReadManyArgs {
    pub(super) fn respect(&self) -> Respect {
        self.file_filtering_options.as_ref().map_or(Respect::GIT_AND_OWN, FilterArgs::respect)
    }
}

/// Finds the files that a call is to read.
pub(super) async fn plan(
    cx: &ToolContext,
    args: &Arc<ReadManyArgs>,
) -> Result<ReadPlan, ToolError> {
    let (args, respect) = (Arc::clone(args), args.respect());
    let mut included = Vec::new();
    for entry in &args.include {
        included.push(IncludedEntry::look_up(cx, entry, respect).await);
    }
    let mut excerpts = Vec::new();
    for excerpt in &args.excerpts {
        excerpts.push(PathTarget::look_up(cx, &excerpt.path, respect).await);
    }
    blocking(cx, move |cx| find(cx, &args, included, excerpts)).await
}

/// An entry of `include`, looked up.
enum IncludedEntry {
    Path(PathTarget),
    Glob(Result<Vec<GlobPattern>, ToolError>),
}

impl IncludedEntry {
    /// Looks an entry up. An entry with a wildcard character in it counts as a path if a file of exactly this name
    /// exists.
    async fn look_up(cx: &ToolContext, entry: &str, respect: Respect) -> Self {
        let target = PathTarget::look_up(cx, entry, respect).await;
        match &target.found {
            Err(error) if error.kind != FILE_IGNORED && is_glob(entry) => {
                Self::Glob(GlobPattern::in_workspace(cx, entry, false, respect).await)
            }
            _ => Self::Path(target),
        }
    }

    /// Returns the files and directories that a person has to agree to.
    fn outside(&self) -> Vec<OutsideFile> {
        match self {
            // A person is not asked about a path that cannot be read, because it does not exist or is ignored.
            Self::Path(target) if target.found.is_ok() => target.outside.iter().cloned().collect(),
            Self::Path(_) | Self::Glob(Err(_)) => Vec::new(),
            Self::Glob(Ok(patterns)) => {
                patterns.iter().filter_map(|pattern| pattern.outside.clone()).collect()
            }
        }
    }
}

/// Finds the files that the entries lead to. Blocks.
fn find(
    cx: &ToolContext,
    args: &ReadManyArgs,
    included: Vec<IncludedEntry>,
    excerpts: Vec<PathTarget>,
) -> Result<ReadPlan, ToolError> {
    let search = Finder::new(cx, args)?;
    let mut plan = ReadPlan::default();
    let mut named = BTreeMap::new();
    // The value says whether the file may be an image.
    let mut found: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for (entry, included) in args.include.iter().zip(included) {
        plan.outside.extend(included.outside());
        match search.included(entry, included) {
            Ok(EntryFiles::File(path)) => _ = named.insert(path, true),
            Ok(EntryFiles::Closed(closed)) => plan.closed.push(closed),
            Ok(matched) => plan.add(matched, &mut found),
            Err(error) => plan.skipped.push((one_line(entry, LABEL_CHARS), error.message)),
        }
        search.until.check()?;
    }
    let file = |(path, media)| PlannedFile { path, named: true, media, lines: None };
    plan.files = named.into_iter().map(file).collect();
    plan.add_found(cx, &search.until, found);
    search.excerpts(&mut plan, excerpts);
    plan.limit(cx);
    Ok(plan)
}

/// Files that one entry of `include` leads to.
enum EntryFiles {
    File(PathBuf),
    /// Search outside of the workspace, which runs only after a person has agreed.
    Closed(ClosedSearch),
    Files {
        /// Paths, each with `true` if the file may be an image.
        paths: Vec<(PathBuf, bool)>,
        more: usize,
    },
}

struct Finder<'a> {
    cx: &'a ToolContext,
    args: &'a ReadManyArgs,
    until: Deadline,
    /// Rules that leave out files below a directory or of a glob.
    defaults: Arc<Gitignore>,
    /// Rules that leave out any file, matched by its path relative to the workspace.
    exclude: Arc<Gitignore>,
}

impl<'a> Finder<'a> {
    fn new(cx: &'a ToolContext, args: &'a ReadManyArgs) -> Result<Self, ToolError> {
        let defaults = if args.use_default_excludes.unwrap_or(true) {
            rules(DEFAULT_EXCLUDES)?
        } else {
            Gitignore::empty()
        };
        let (defaults, exclude) = (Arc::new(defaults), Arc::new(rules(&args.exclude)?));
        Ok(Self { cx, args, until: Deadline::new(cx), defaults, exclude })
    }

    /// Adds the files of which only some lines are to be read.
    fn excerpts(&self, plan: &mut ReadPlan, targets: Vec<PathTarget>) {
        for (excerpt, target) in self.args.excerpts.iter().zip(targets) {
            let outside = target.outside.clone();
            let why = match self.target(target) {
                Ok(EntryFiles::File(path)) => {
                    let lines =
                        LineSpan { first: excerpt.start_line, last: Some(excerpt.end_line) };
                    let lines = Some(lines);
                    plan.outside.extend(outside);
                    plan.files.push(PlannedFile { path, named: true, media: true, lines });
                    continue;
                }
                Ok(EntryFiles::Files { .. } | EntryFiles::Closed(_)) => "no file".to_owned(),
                Err(error) => error.message,
            };
            plan.skipped.push((one_line(&excerpt.path, LABEL_CHARS), why));
        }
    }

    /// Returns the files that an entry leads to; an error if it leads to nothing that can be read.
    fn included(&self, entry: &str, included: IncludedEntry) -> Result<EntryFiles, ToolError> {
        match included {
            IncludedEntry::Path(target) => self.target(target),
            IncludedEntry::Glob(patterns) => {
                let patterns = patterns?;
                if patterns.iter().any(|pattern| pattern.outside.is_some()) {
                    return Ok(EntryFiles::Closed(ClosedSearch::Glob(entry.to_owned(), patterns)));
                }
                self.glob(entry, &patterns)
            }
        }
    }

    /// Returns the files that a path leads to; an error if it leads to nothing that can be read.
    fn target(&self, target: PathTarget) -> Result<EntryFiles, ToolError> {
        match target.found? {
            FileKind::Directory if target.outside.is_some() => {
                Ok(EntryFiles::Closed(ClosedSearch::Directory(target.path)))
            }
            FileKind::Directory => self.below(&target.path),
            _ if self.excluded(&target.path) => Err(excluded()),
            _ => Ok(EntryFiles::File(target.path)),
        }
    }

    /// Returns the files below a directory.
    fn below(&self, directory: &Path) -> Result<EntryFiles, ToolError> {
        let workspace = &self.cx.host.workspace;
        let walk = workspace.walk_where(directory, self.args.respect(), self.keep());
        let walk = walk.max_depth((self.args.recursive == Some(false)).then_some(1));
        self.collect(walk, |_| true, |_| false)
    }

    /// Returns the files that match a glob.
    fn glob(&self, glob: &str, patterns: &[GlobPattern]) -> Result<EntryFiles, ToolError> {
        let workspace = &self.cx.host.workspace;
        let kinds: Vec<String> = kinds(glob);
        let asked_for = |path: &Path| {
            let kind = path.extension().map(|kind| kind.to_string_lossy().to_lowercase());
            kind.is_some_and(|kind| kinds.contains(&kind))
        };
        let (mut all, mut all_more) = (Vec::new(), 0);
        for pattern in patterns {
            let walk = pattern.walk(workspace, &self.until, self.keep());
            let found = self.collect(walk, |path| pattern.matches(path), asked_for)?;
            if let EntryFiles::Files { paths, more } = found {
                all.extend(paths);
                all_more += more;
            }
        }
        if all.is_empty() && !self.until.timed_out() {
            return Err(ToolError::file_not_found("no such file"));
        }
        Ok(EntryFiles::Files { paths: all, more: all_more })
    }

    fn collect(
        &self,
        walk: Walk,
        matches: impl Fn(&Path) -> bool,
        media: impl Fn(&Path) -> bool,
    ) -> Result<EntryFiles, ToolError> {
        let mut first = Smallest::new(self.cx.host.limits.files);
        let entries = walk.take_while(|_| !self.until.over()).flatten();
        // Links are left out: the walk meets a target inside the workspace by its own path.
        let files = entries.filter(WalkEntry::is_file);
        for file in files.filter(|file| matches(file.path())) {
            let media = media(file.path());
            first.push((file.into_path(), media));
        }
        self.until.check()?;
        let given = first.offered_count();
        let paths = first.into_sorted();
        Ok(EntryFiles::Files { more: given - paths.len(), paths })
    }

    /// Returns the filter for the entries of a walk.
    fn keep(&self) -> impl Fn(&WalkEntry) -> bool + Send + Sync + 'static {
        let until = self.until.clone();
        let (defaults, exclude) = (Arc::clone(&self.defaults), Arc::clone(&self.exclude));
        let roots = self.cx.host.workspace.roots().to_owned();
        move |entry| {
            let is_dir = entry.is_dir();
            !until.over()
                // Only the name of each entry counts, not its whole path: the directory that the call asks for may
                // itself be called `build`.
                && !defaults.matched(Path::new(entry.file_name()), is_dir).is_ignore()
                && !exclude.matched(relative(&roots, entry.path()), is_dir).is_ignore()
        }
    }

    fn excluded(&self, path: &Path) -> bool {
        let path = relative(self.cx.host.workspace.roots(), path);
        !self.exclude.is_empty()
            && self.exclude.matched_path_or_any_parents(path, false).is_ignore()
    }
}

fn excluded() -> ToolError {
    ToolError::new("file_excluded", "left out as `exclude` says")
}

/// Returns a path relative to the root that contains it.
fn relative<'a>(roots: &[PathBuf], path: &'a Path) -> &'a Path {
    roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path)
}

fn rules(globs: &[impl AsRef<str>]) -> Result<Gitignore, ToolError> {
    let invalid = |err| ToolError::invalid_args(format_args!("`exclude`: {err}"));
    let mut rules = GitignoreBuilder::new("");
    for glob in globs {
        rules.add_line(None, glob.as_ref()).map_err(invalid)?;
    }
    rules.build().map_err(invalid)
}

fn is_glob(entry: &str) -> bool {
    entry.contains(['*', '?', '[', '{'])
}

/// Returns the kinds of files that a glob asks for: `png` and `jpg` of `**/*.{png,JPG}`.
fn kinds(glob: &str) -> Vec<String> {
    let name = glob.rsplit('/').next().unwrap_or(glob);
    let Some((_, kinds)) = name.rsplit_once('.').or_else(|| name.split_once('{')) else {
        return Vec::new();
    };
    let kinds = kinds.split(|c: char| !c.is_alphanumeric()).filter(|kind| !kind.is_empty());
    kinds.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_EXCLUDES, kinds, rules};

    #[test]
    fn a_glob_asks_for_kinds_of_files() {
        let check = |glob: &str, expected: &[&str]| assert_eq!(kinds(glob), expected);
        check("*.png", &["png"]);
        check("a.b/**/*.{png,JPG}", &["png", "jpg"]);
        check("**/*", &[]);
        check("shot?.webp", &["webp"]);
        check("{a.png,b.gif}", &["gif"]);
    }

    #[test]
    fn the_default_excludes_are_rules() {
        let rules = rules(DEFAULT_EXCLUDES).unwrap();
        let check = |name, is_dir, expected| {
            assert_eq!(rules.matched(name, is_dir).is_ignore(), expected, "{name}");
        };
        check("node_modules", true, true);
        check("target", false, false);
        check("Cargo.lock", false, true);
        check("src", true, false);
        check("main.rs", false, false);
    }
}
