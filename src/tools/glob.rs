//! `glob`: finds files by their names.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking::{Deadline, blocking};
use super::pattern::GlobPattern;
use super::target::{LABEL_CHARS, PathTarget};
use tandem_content::shorten::one_line;
use tandem_host::args::{self, FilterArgs};
use tandem_host::root::Metadata;
use tandem_host::smallest::Smallest;
use tandem_host::workspace::Respect;
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec,
    parse,
};

/// Age below which a file is recent: recent files come first.
const RECENT_AGE: Duration = Duration::from_hours(24);

/// The tool `glob`.
pub(super) struct Glob;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GlobArgs {
    pattern: String,
    dir_path: Option<String>,
    #[serde(default, deserialize_with = "args::flag")]
    case_sensitive: Option<bool>,
    #[serde(default, deserialize_with = "args::flag")]
    respect_git_ignore: Option<bool>,
    #[serde(default, deserialize_with = "args::flag")]
    respect_gemini_ignore: Option<bool>,
}

impl GlobArgs {
    fn respect(&self) -> Respect {
        let (respect_git_ignore, respect_gemini_ignore) =
            (self.respect_git_ignore, self.respect_gemini_ignore);
        FilterArgs { respect_git_ignore, respect_gemini_ignore }.respect()
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            aliases: &[],
            description: "Finds files of the workspace by a glob such as `src/**/*.rs` or \
                `**/{README,LICENSE}*`. Answers with absolute paths: what changed within a day \
                first, newest first, then the others by name. To search in files, use \
                grep_search."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "The glob. `*` stays within a directory, `**` does not.",
                    },
                    "dir_path": {
                        "type": "string",
                        "description": "The directory that the glob begins in. Default: the whole \
                            workspace.",
                    },
                    "case_sensitive": {
                        "type": "boolean",
                        "description": "Whether upper and lower case differ. Default: false.",
                    },
                },
                "required": ["pattern"],
            }),
            kind: ToolKind::Find,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: GlobArgs = parse(args)?;
        let target = match &args.dir_path {
            Some(dir) => Some(PathTarget::look_up(cx, dir, args.respect()).await),
            None => None,
        };
        let summary = Summary::new(format!("Find {}", label(&args, target.as_ref())));
        Ok(match patterns(cx, &args, target.as_ref()).await {
            Ok(patterns) => {
                let paths = patterns.iter().map(|pattern| pattern.dir().to_owned()).collect();
                let searched = target.iter().filter_map(|target| target.outside.clone());
                let named = patterns.iter().filter_map(|pattern| pattern.outside.clone());
                let access = Access::ReadFiles { paths, outside: searched.chain(named).collect() };
                let label = label(&args, target.as_ref());
                Invocation::new(summary, access, move |cx| async move {
                    blocking(&cx, move |cx| find(cx, &label, &patterns)).await
                })
            }
            Err(error) => Invocation::failing(summary, error),
        })
    }
}

/// Returns the object of the search, for people and the model.
fn label(args: &GlobArgs, target: Option<&PathTarget>) -> String {
    let pattern = format!("\"{}\"", one_line(&args.pattern, LABEL_CHARS));
    match target.filter(|target| target.label != ".") {
        Some(target) => format!("{pattern} in {}", target.label),
        None => pattern,
    }
}

/// Returns a pattern for each directory to search.
async fn patterns(
    cx: &ToolContext,
    args: &GlobArgs,
    target: Option<&PathTarget>,
) -> Result<Vec<GlobPattern>, ToolError> {
    let (case_sensitive, respect) = (args.case_sensitive.unwrap_or(false), args.respect());
    let Some(target) = target else {
        return GlobPattern::in_workspace(cx, &args.pattern, case_sensitive, respect).await;
    };
    let dir = target.directory()?;
    let pattern = GlobPattern::look_up(cx, dir, &args.pattern, case_sensitive, respect);
    Ok(vec![pattern.await?])
}

/// A file that was found. The order of these values is the order of the answer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct MatchedFile {
    age: FileAge,
    path: PathBuf,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum FileAge {
    Recent(Reverse<SystemTime>),
    Old,
}

fn find(cx: &ToolContext, label: &str, patterns: &[GlobPattern]) -> Result<ToolOutput, ToolError> {
    let until = Deadline::new(cx);
    let since = SystemTime::now().checked_sub(RECENT_AGE).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut found = Smallest::new(cx.host.limits.files);
    for pattern in patterns {
        let workspace = &cx.host.workspace;
        let mut walk = pattern.walk(workspace, &until, |_| true);
        while let Some(entry) = walk.next().filter(|_| !until.over()) {
            let Ok(entry) = entry else { continue };
            // A link counts with the kind and age of its target. Walks leave out links that lead outside.
            if pattern.matches(entry.path())
                && let Ok(file) =
                    walk.metadata(&entry).or_else(|_| workspace.metadata(entry.path()))
                && file.kind() == FileType::RegularFile
            {
                found.push(MatchedFile { age: age(&file, since), path: entry.into_path() });
            }
        }
        until.check()?;
    }
    Ok(report(label, found, until.timed_out(), cx))
}

/// Returns the age of a file: recent if it changed at `since` or later.
fn age(file: &Metadata, since: SystemTime) -> FileAge {
    let changed = file.modified();
    if changed >= since { FileAge::Recent(Reverse(changed)) } else { FileAge::Old }
}

fn report(
    label: &str,
    found: Smallest<MatchedFile>,
    timed_out: bool,
    cx: &ToolContext,
) -> ToolOutput {
    let limits = &cx.host.limits;
    let given = found.offered_count();
    let found = found.into_sorted();
    let mut text = match given {
        0 => format!("No files found for {label}.\n"),
        _ => format!("Found {given} file(s) for {label}, those that changed last first:\n"),
    };
    let mut named = 0;
    for file in found {
        if text.len() >= limits.output_chars {
            break;
        }
        named += 1;
        text += &one_line(&cx.host.workspace.shown(&file.path).to_string_lossy(), usize::MAX);
        text.push('\n');
    }
    if given > named {
        let left_out = given - named;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "({left_out} more are not named: a narrower pattern finds them)");
    }
    if timed_out {
        let seconds = limits.search_time.as_secs();
        let _ = writeln!(text, "(The search was ended after {seconds} s: there may be more.)");
    }
    let shown = match given {
        0 => "No files found".to_owned(),
        _ => format!("Found {given} matching file(s)"),
    };
    ToolOutput::new(text.trim_end(), shown)
}
