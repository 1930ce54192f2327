//! `grep_search`: finds lines in files, with ripgrep's engine.

mod hunt;
mod lines;
mod report;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use self::hunt::{SearchMatches, hunt};
use self::lines::{ContextLines, LineQuery};
use self::report::{SearchSummary, report};
use super::blocking::{Deadline, blocking};
use super::target::{LABEL_CHARS, PathTarget};
use tandem_content::shorten::one_line;
use tandem_host::files::{FileKind, moved};
use tandem_host::root::is_moved;
use tandem_host::workspace::{OutsideFile, Respect};
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec,
    args, parse,
};

/// Default maximum number of matches.
const DEFAULT_MAX_MATCHES: usize = 100;

/// Largest maximum number of matches that the model may set.
const MAX_MATCHES: usize = 5000;

/// Maximum size of a compiled pattern, in bytes.
const REGEX_BYTES: usize = 10 << 20;

/// Largest number of lines before or after a match that the model may set.
const MAX_CONTEXT: usize = 200;

/// Maximum number of files with matches that the summary of the call names.
const MAX_LOCATIONS: usize = 100;

/// The tool `grep_search`.
pub(super) struct GrepSearch;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrepArgs {
    pattern: String,
    dir_path: Option<String>,
    include_pattern: Option<String>,
    #[serde(default)]
    exclude_pattern: Option<String>,
    #[serde(default, deserialize_with = "args::flag")]
    names_only: Option<bool>,
    #[serde(default, deserialize_with = "args::flag")]
    case_sensitive: Option<bool>,
    #[serde(default, deserialize_with = "args::flag")]
    fixed_strings: Option<bool>,
    #[serde(default, deserialize_with = "args::number")]
    context: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    after: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    before: Option<usize>,
    #[serde(default, deserialize_with = "args::flag")]
    no_ignore: Option<bool>,
    #[serde(default, deserialize_with = "args::number")]
    max_matches_per_file: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    total_max_matches: Option<usize>,
}

#[async_trait]
impl Tool for GrepSearch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep_search".to_owned(),
            aliases: &["search_file_content"],
            description: "Searches the files of the workspace for lines that match a regular \
                expression. Answers with the lines and their numbers, and with what is around \
                them when there are few. Ignored and binary files are left out."
                .to_owned(),
            parameters: parameters(),
            kind: ToolKind::Search,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: GrepArgs = parse(args)?;
        let target = match &args.dir_path {
            Some(path) => Some(PathTarget::to_read(cx, path, args.respect()).await),
            None => None,
        };
        blocking(cx, move |cx| prepare(args, target, cx)).await
    }
}

/// Prepares the call, and mostly runs the search here, because the announcement of the call names the files with
/// matches. The call then only returns the result.
///
/// If a person has to be asked first, as the place may hold secrets or is outside of the workspace, the search waits
/// for the call: no file there is read before the person has agreed.
fn prepare(
    args: GrepArgs,
    target: Option<PathTarget>,
    cx: &ToolContext,
) -> Result<Invocation, ToolError> {
    let (label, place) = place(cx, &args, target);
    let summary = Summary::new(label);
    let place = match place {
        Ok(place) => place,
        Err(error) => return Ok(Invocation::failing(summary, error)),
    };
    if place.is_secret(cx) || place.outside.is_some() {
        let paths = place.paths().cloned().collect();
        let access = Access::ReadFiles { paths, outside: place.outside.iter().cloned().collect() };
        return Ok(Invocation::new(summary, access, move |cx| async move {
            blocking(&cx, move |cx| Ok(run(cx, &args, &place)?.1)).await
        }));
    }
    match run(cx, &args, &place) {
        Ok((hits, output)) => {
            let run = |_| std::future::ready(Ok(output));
            Ok(Invocation::new(locate(summary, &hits), Access::Read, run))
        }
        Err(error) if cx.cancel.is_cancelled() => Err(error),
        Err(error) => Ok(Invocation::failing(summary, error)),
    }
}

fn parameters() -> Value {
    let string = |text: &str| json!({ "type": "string", "description": text });
    let flag = |text: &str| json!({ "type": "boolean", "description": text });
    let number = |text: &str| json!({ "type": "integer", "description": text });
    json!({
        "type": "object",
        "properties": {
            "pattern": string(
                "What to search for, within a line: a regular expression in Rust's syntax, \
                 without look-around and back-references.",
            ),
            "dir_path": string("The directory or file to search. Default: the whole workspace."),
            "include_pattern": string("A glob of files to search, such as `*.ts` or `src/**`."),
            "exclude_pattern": string("A regular expression; lines that match it do not count."),
            "names_only": flag("Answer with the names of the files only."),
            "case_sensitive": flag("Whether upper and lower case differ. Default: false."),
            "fixed_strings": flag("The pattern is plain text."),
            "context": number("Lines to show before and after each match."),
            "no_ignore": flag("Search what git ignores, too."),
            "total_max_matches": number("Matches at most. Default: 100."),
        },
        "required": ["pattern"],
    })
}

impl GrepArgs {
    fn respect(&self) -> Respect {
        // `no_ignore` switches off only the rules of git. Files that the user hides from this agent stay hidden.
        Respect { git: !self.no_ignore.unwrap_or(false), own: true }
    }

    fn matcher(&self, pattern: &str, fixed: bool) -> Result<RegexMatcher, ToolError> {
        RegexMatcherBuilder::new()
            .case_insensitive(!self.case_sensitive.unwrap_or(false))
            .fixed_strings(fixed)
            .multi_line(true)
            .crlf(true)
            .line_terminator(Some(b'\n'))
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(REGEX_BYTES)
            .build(pattern)
            .map_err(|err| invalid(pattern, &err))
    }

    fn wanted(&self, cx: &ToolContext) -> Result<LineQuery, ToolError> {
        if self.pattern.is_empty() {
            return Err(ToolError::new("invalid_pattern", "`pattern` is empty."));
        }
        let but_not = self.exclude_pattern.as_ref().filter(|pattern| !pattern.is_empty());
        let count = |lines: Option<usize>| lines.or(self.context).unwrap_or(0).min(MAX_CONTEXT);
        let around = ContextLines { before: count(self.before), after: count(self.after) };
        let most = self.max_matches_per_file.unwrap_or(usize::MAX).clamp(1, self.total());
        let names_only = self.names_only.unwrap_or(false);
        Ok(LineQuery {
            pattern: self.matcher(&self.pattern, self.fixed_strings.unwrap_or(false))?,
            but_not: but_not.map(|pattern| self.matcher(pattern, false)).transpose()?,
            around: if names_only { ContextLines::default() } else { around },
            max: if names_only { 1 } else { most },
            max_line: cx.host.limits.file_bytes,
        })
    }

    fn total(&self) -> usize {
        self.total_max_matches.unwrap_or(DEFAULT_MAX_MATCHES).clamp(1, MAX_MATCHES)
    }

    /// Returns the number of lines to show before and after each of a few matches, if the model has not set a number.
    fn auto_context(&self, matches: usize) -> usize {
        if self.names_only == Some(true) || self.context.or(self.before).or(self.after).is_some() {
            return 0;
        }
        match matches {
            1 => 50,
            2..=3 => 15,
            _ => 0,
        }
    }
}

fn invalid(pattern: &str, err: &grep_regex::Error) -> ToolError {
    let why = match err.kind() {
        ErrorKind::NotAllowed(_) => {
            "Lines are searched one by one: a pattern cannot match a line break.".to_owned()
        }
        // The parser is given the pattern as the model has written it. So the position in the error is right.
        _ => regex::bytes::Regex::new(pattern).err().map_or(err.to_string(), |err| err.to_string()),
    };
    ToolError::new("invalid_pattern", why)
}

/// Directories or a file to search.
struct SearchScope {
    /// Name of the place in messages.
    name: String,
    dirs: Vec<PathBuf>,
    /// File to search, in place of directories.
    file: Option<PathBuf>,
    /// `true` if the place is long output that was stored for the model.
    kept: bool,
    /// The place if it is outside of the workspace and a person has to agree to the search.
    outside: Option<OutsideFile>,
}

impl SearchScope {
    fn with_name(name: &str) -> Self {
        let (dirs, file, kept, outside) = Default::default();
        Self { name: name.to_owned(), dirs, file, kept, outside }
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.dirs.iter().chain(&self.file)
    }

    /// Returns whether the place may hold secrets.
    fn is_secret(&self, cx: &ToolContext) -> bool {
        !self.kept && self.paths().any(|path| cx.host.workspace.secrets().why(path).is_some())
    }
}

/// Returns the title of the search, and its scope.
fn place(
    cx: &ToolContext,
    args: &GrepArgs,
    target: Option<PathTarget>,
) -> (String, Result<SearchScope, ToolError>) {
    let pattern = one_line(&args.pattern, LABEL_CHARS);
    let include = args.include_pattern.as_ref().map(|include| one_line(include, LABEL_CHARS));
    let files = include.map(|include| format!(" ({include})")).unwrap_or_default();
    let Some(target) = target else {
        let dirs = cx.host.workspace.trees().cloned().collect();
        let scope = SearchScope { dirs, ..SearchScope::with_name(".") };
        return (format!("Search for \"{pattern}\"{files}"), Ok(scope));
    };
    let kept = target.is_kept();
    let PathTarget { label: name, path, outside, found, .. } = target;
    let within = if name == "." { String::new() } else { format!(" in {name}") };
    let label = format!("Search for \"{pattern}\"{within}{files}");
    let place = found.and_then(|found| {
        let scope = SearchScope { kept, outside, ..SearchScope::with_name(&name) };
        match found {
            FileKind::Directory => Ok(SearchScope { dirs: vec![path], ..scope }),
            FileKind::File => Ok(SearchScope { file: Some(path), ..scope }),
            FileKind::Other => Err(ToolError::new(
                "not_a_regular_file",
                format!("{} is neither a file nor a directory.", path.display()),
            )),
        }
    });
    (label, place)
}

/// Searches a place:
///
/// 1. Refuses a place that has become a link.
/// 2. Searches the files and counts the matches.
/// 3. If there are few matches and the model has set no context, searches the files with matches again, with context.
/// 4. Makes the report.
fn run(
    cx: &ToolContext,
    args: &GrepArgs,
    place: &SearchScope,
) -> Result<(SearchMatches, ToolOutput), ToolError> {
    let mut wanted = args.wanted(cx)?;
    // Without this check, the search would silently find nothing in a place that has become a link since it was judged.
    let found = |path: &&PathBuf| cx.host.workspace.rooted(path)?.metadata();
    if let Some(path) = place.paths().find(|path| found(path).is_err_and(|err| is_moved(&err))) {
        return Err(moved(path));
    }
    let until = Deadline::new(cx);
    let filters = place.dirs.iter().map(|dir| filter(dir, args.include_pattern.as_deref()));
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    let below = place.dirs.iter().zip(&filters);
    let secret = AtomicUsize::new(0);
    let below = below.flat_map(|(dir, filter)| {
        files(cx, DirectoryWalk { dir, respect: args.respect(), filter }, &secret, &until)
    });
    let files = place.file.clone().map(Some).into_iter().chain(below);
    let open = |path: &Path| cx.host.disk.open(path);
    let mut hits = hunt(files, open, &wanted, args.total(), &until);
    hits.secret = secret.load(Ordering::Relaxed);
    until.check()?;
    let timed_out = until.timed_out();
    let names_only = args.names_only.unwrap_or(false);
    let cut = || hits.files.iter().any(|(_, lines)| lines.more);
    hits.more |= !names_only && hits.matches == args.total() && cut();
    let context = args.auto_context(hits.matches);
    if context > 0 {
        wanted.around = ContextLines { before: context, after: context };
        let files: Vec<_> = hits.files.iter().map(|(path, _)| Some(path.clone())).collect();
        let again = hunt(files.into_iter(), open, &wanted, args.total(), &Deadline::new(cx));
        // If the number of matches differs, a file has just changed. Then the first result is used, without context.
        if again.matches == hits.matches {
            hits.files = again.files;
        }
    }
    let search = SearchSummary {
        pattern: args.pattern.clone(),
        include: args.include_pattern.as_ref().map(|glob| one_line(glob, LABEL_CHARS)),
        place: place.name.clone(),
        names_only,
        timed_out,
    };
    let output = report(&search, &hits, &cx.host.workspace, &cx.host.limits);
    Ok((hits, output))
}

/// Returns the rules that decide which files below `dir` are searched.
fn filter(dir: &Path, include: Option<&str>) -> Result<Override, ToolError> {
    let mut rules = OverrideBuilder::new(dir);
    let invalid = |err| ToolError::new("invalid_pattern", format!("`include_pattern`: {err}"));
    if let Some(glob) = include.map(|glob| glob.trim_end_matches('/')).filter(|it| !it.is_empty()) {
        // A glob that names a directory stands for all files below the directory.
        rules.add(glob).map_err(invalid)?.add(&format!("{glob}/**")).map_err(invalid)?;
    }
    rules.build().map_err(invalid)
}

/// A directory whose files are searched, and the rules that leave files out.
struct DirectoryWalk<'a> {
    dir: &'a Path,
    respect: Respect,
    filter: &'a Override,
}

/// Returns the files below a directory, always in the same order; `None` for an entry that cannot be read. Files that
/// may hold secrets are left out and counted in `secret`, unless the directory itself may hold secrets.
fn files<'a>(
    cx: &ToolContext,
    DirectoryWalk { dir, respect, filter }: DirectoryWalk<'a>,
    secret: &'a AtomicUsize,
    until: &Deadline,
) -> impl Iterator<Item = Option<PathBuf>> + Send + 'a {
    let until = until.clone();
    let walk = cx.host.workspace.walk_where(dir, respect, move |_| !until.over()).sorted();
    let secrets = cx.host.workspace.secrets().clone();
    let open = secrets.why(dir).is_some();
    walk.filter_map(move |entry| match entry {
        Ok(entry) if entry.is_file() && !filter.matched(entry.path(), false).is_ignore() => {
            if !open && secrets.hides(entry.path(), false) {
                secret.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            Some(Some(entry.into_path()))
        }
        Ok(_) => None,
        Err(_) => Some(None),
    })
}

/// Adds the files with matches to the summary.
fn locate(summary: Summary, hits: &SearchMatches) -> Summary {
    hits.files.iter().take(MAX_LOCATIONS).fold(summary, |summary, (path, lines)| {
        let line = lines.first_match().map(|line| u32::try_from(line).unwrap_or(u32::MAX));
        summary.at(path, line)
    })
}
