//! `list_directory`: lists the entries of one directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking::blocking;
use super::target::PathTarget;
use tandem_content::shorten::one_line;
use tandem_host::args::{self, FilterArgs};
use tandem_host::smallest::Smallest;
use tandem_host::workspace::{OUTSIDE_KIND, Respect, Workspace};
use tandem_host::{
    Host, Invocation, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec, parse,
};

/// The tool `list_directory`.
pub(super) struct ListDirectory;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListDirectoryArgs {
    #[serde(default = "here")]
    dir_path: String,
    #[serde(default, deserialize_with = "args::list")]
    ignore: Vec<String>,
    #[serde(default)]
    file_filtering_options: Option<FilterArgs>,
}

fn here() -> String {
    ".".to_owned()
}

#[async_trait]
impl Tool for ListDirectory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_directory".to_owned(),
            aliases: &[],
            description: "Lists the directories and files that are directly in a directory of the \
                workspace, files with their size. Ignored ones are counted, not named."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "dir_path": {
                        "type": "string",
                        "description": "The directory: relative to the workspace, or absolute.",
                    },
                    "ignore": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Globs of names to leave out.",
                    },
                },
                "required": ["dir_path"],
            }),
            kind: ToolKind::List,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let ListDirectoryArgs { dir_path, ignore, file_filtering_options } = parse(args)?;
        let respect = file_filtering_options.unwrap_or_default().respect();
        let ignore = names(&ignore)?;
        let target = PathTarget::look_up(cx, &dir_path, respect).await;
        let summary = target.summary("List", None);
        Ok(match target.directory().map(Path::to_owned) {
            Ok(dir) => Invocation::new(summary, target.access(), move |cx| async move {
                blocking(&cx, move |cx| list(cx, &dir, respect, &ignore)).await
            }),
            Err(error) => Invocation::failing(summary, error),
        })
    }
}

/// Returns rules for names, made of globs.
fn names(globs: &[String]) -> Result<Gitignore, ToolError> {
    let mut rules = GitignoreBuilder::new("");
    for glob in globs {
        rules
            .add_line(None, glob)
            .map_err(|err| ToolError::invalid_args(format_args!("`ignore`: {err}")))?;
    }
    rules.build().map_err(|err| ToolError::invalid_args(format_args!("`ignore`: {err}")))
}

/// Kind of an entry. The order of these values is the order of the listing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EntryKind {
    Directory,
    File,
}

/// Numbers of entries that the listing leaves out, by reason.
#[derive(Default)]
struct HiddenCounts {
    /// `true` if the directory has a `.git`.
    repository: bool,
    git: usize,
    other: usize,
    /// Number of links that lead out of the workspace.
    elsewhere: usize,
    /// Number of links whose target does not exist, and of links in a circle.
    nowhere: usize,
}

/// Lists a directory: names its entries, and counts the entries that are left out, by reason. Blocks.
fn list(
    cx: &ToolContext,
    dir: &Path,
    respect: Respect,
    ignore: &Gitignore,
) -> Result<ToolOutput, ToolError> {
    let unreadable = |err| {
        let message = format!("{} cannot be listed: {err}", dir.display());
        ToolError::new("read_content_failure", message)
    };
    let rules = cx.host.workspace.ignores(dir, respect);
    let mut entries = Smallest::new(cx.host.limits.files);
    let mut hidden = HiddenCounts::default();
    let listed = cx.host.workspace.rooted(dir).and_then(|place| place.entries());
    for entry in listed.map_err(unreadable)? {
        if cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled());
        }
        let (name, kind) = entry.map_err(unreadable)?;
        let path = dir.join(&name);
        if ignore.matched(Path::new(&name), kind.is_dir()).is_ignore() {
            hidden.other += 1;
            continue;
        }
        match rules.cover_entry(&path, kind.is_dir()) {
            _ if respect.git && name == ".git" => hidden.repository = true,
            Some(file) if file.contains(".git/") || file == ".gitignore" => hidden.git += 1,
            Some(_) => hidden.other += 1,
            None if kind.is_symlink() => match cx.host.workspace.link_target(&path) {
                Some(real) if real.is_dir() => entries.push((EntryKind::Directory, path)),
                Some(_) => entries.push((EntryKind::File, path)),
                None if leads_nowhere(cx, &path) => hidden.nowhere += 1,
                None => hidden.elsewhere += 1,
            },
            None if kind.is_dir() => entries.push((EntryKind::Directory, path)),
            None => entries.push((EntryKind::File, path)),
        }
    }
    Ok(report(cx, dir, entries, &hidden))
}

/// Returns whether a link that has no target to list would lead to a path inside the workspace.
fn leads_nowhere(cx: &ToolContext, link: &Path) -> bool {
    let outside = |error: ToolError| error.kind == OUTSIDE_KIND;
    cx.host.workspace.real(link).is_err()
        && !cx.host.workspace.resolve(&link.to_string_lossy()).is_err_and(outside)
}

fn report(
    cx: &ToolContext,
    dir: &Path,
    entries: Smallest<(EntryKind, PathBuf)>,
    hidden: &HiddenCounts,
) -> ToolOutput {
    let Host { workspace, limits, .. } = &*cx.host;
    let dir = workspace.shown(dir);
    let given = entries.offered_count();
    let mut text = match given {
        0 => format!("Nothing to list in {}.\n", dir.display()),
        _ => format!("In {}:\n", dir.display()),
    };
    let mut named = 0;
    for (kind, path) in entries.into_sorted() {
        if text.len() >= limits.output_chars {
            break;
        }
        named += 1;
        text += &line(workspace, kind, &path);
    }
    if given > named {
        let left_out = given - named;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "({left_out} more, which come after these in the alphabet)");
    }
    let mut counts = Vec::new();
    if hidden.repository {
        counts.push("without .git".to_owned());
    }
    if hidden.git > 0 {
        counts.push(format!("{} git-ignored", hidden.git));
    }
    if hidden.other > 0 {
        counts.push(format!("{} ignored", hidden.other));
    }
    if hidden.elsewhere > 0 {
        counts.push(format!("{} leading outside the workspace", hidden.elsewhere));
    }
    if hidden.nowhere > 0 {
        counts.push(format!("{} leading nowhere", hidden.nowhere));
    }
    let counts = if counts.is_empty() { String::new() } else { format!("({})", counts.join(", ")) };
    text += &counts;
    let shown = format!("Listed {given} item(s). {counts}");
    ToolOutput::new(text.trim_end(), shown.trim_end())
}

fn line(workspace: &Workspace, kind: EntryKind, path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = one_line(&name, usize::MAX);
    match (kind, workspace.metadata(path)) {
        (EntryKind::Directory, _) => format!("[DIR] {name}\n"),
        (EntryKind::File, Ok(found)) if found.kind().is_file() => {
            format!("{name} ({} bytes)\n", found.size())
        }
        (EntryKind::File, Ok(_)) => format!("{name} (not a regular file)\n"),
        (EntryKind::File, Err(_)) => format!("{name}\n"),
    }
}
