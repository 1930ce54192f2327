//! Files that a prompt mentions: they are looked up, read in calls that every front end sees, and told to the model
//! with the prompt.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::session::calls::call;
use crate::session::context::at_path;
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::{Event, PromptPart};
use tandem_content::blocking::blocking;
use tandem_host::files::FileKind;
use tandem_host::workspace::{Respect, WalkEntry, Workspace};
use tandem_host::{Host, ReadablePath, ToolError};
use tandem_model::Call;

/// Heading of the text that tells the model which mentioned files were not read.
const NOT_READ: &str = "\n\n--- Mentioned and not read ---\n";

/// Maximum number of mentions in a prompt that are looked up.
const MAX_MENTIONS: usize = 100;

/// A piece of a prompt that may be a file's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) path: String,
    /// `true` if this is certainly a path, because it is quoted or a client has sent it as a path; `false` for a word
    /// that begins with `@`.
    certain: bool,
}

impl Mention {
    /// Returns `true` if the mention looks like a file's name. Then people are told if there is no such file.
    fn is_file_name(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.certain || name.trim_start_matches('.').contains('.')
    }

    /// Returns `true` if the mention may be a pattern of paths.
    fn is_glob(&self) -> bool {
        let has = |chars: &[char]| chars.iter().all(|c| self.path.contains(*c));
        let glob = has(&['*']) || has(&['?']) || has(&['[', ']']) || has(&['{', '}']);
        glob && self.is_part_of_path()
    }

    /// Returns `true` if the mention may be part of a path. A single word without a dot may be anything.
    fn is_part_of_path(&self) -> bool {
        self.is_file_name() || self.path.contains('/')
    }
}

/// Lines of a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineRange {
    first: usize,
    /// Last line, which is included.
    last: usize,
}

/// One interpretation of a mention.
#[derive(Debug, Default, PartialEq, Eq)]
struct MentionReading {
    path: String,
    lines: Option<LineRange>,
}

/// Target of a mention.
struct MentionTarget {
    /// Interpretation of the mention that was chosen.
    reading: MentionReading,
    /// Path that was found, or the reason why there is none.
    found: Result<ReadablePath, ToolError>,
}

/// Files, directories and excerpts that a prompt mentions and that are to be read.
#[derive(Default)]
struct MentionedFiles {
    unasked: ReadList,
    /// Files, directories and excerpts that are read only after a question.
    asked: ReadList,
    /// Notices to people of the mentions that lead nowhere.
    notices: Vec<String>,
}

/// Files, directories and excerpts that one call reads.
#[derive(Default)]
struct ReadList {
    /// Whole files and directories, relative to the workspace where they can be.
    include: Vec<String>,
    excerpts: Vec<(String, LineRange)>,
}

impl ReadList {
    /// Returns the call that reads the list; `None` if the list is empty.
    fn call(&self) -> Option<Call> {
        let Self { include, excerpts } = self;
        if include.is_empty() && excerpts.is_empty() {
            return None;
        }
        let mut args = json!({ "include": include });
        if !excerpts.is_empty() {
            let excerpts = excerpts.iter().map(|(path, LineRange { first, last })| {
                json!({ "path": path, "start_line": first, "end_line": last })
            });
            args["excerpts"] = excerpts.collect();
        }
        Some(Call { id: String::new(), name: "read_many_files".to_owned(), args })
    }
}

/// Reads the files that the prompt mentions. Returns `false` if the prompt has no mentions. A mention that cannot be
/// read stays in the prompt as it was typed, and people and the model are told why.
pub(super) async fn read(engine: &Engine, turn: CurrentTurn<'_>, prompt: &[PromptPart]) -> bool {
    let cancel = turn.cancel;
    let (mut mentions, over) = mentions(prompt);
    // Resources of MCP servers are left out here: `resources::read` reads them.
    mentions.retain(|mention| engine.servers.hub.resource(&mention.path).is_none());
    if mentions.is_empty() {
        return false;
    }
    let (workspace, stop) = (Arc::clone(&engine.host.workspace), cancel.child_token());
    let _stop_on_drop = stop.clone().drop_guard();
    let search = async {
        let mut targets = Vec::new();
        for mention in &mentions {
            targets.push(target(&engine.host, &mention.path).await);
        }
        let find = move || find_all(&workspace, &mentions, targets, &stop);
        blocking(find).await
    };
    let Some(Ok(wanted)) = cancel.run_until_cancelled(search).await else {
        return true;
    };
    let MentionedFiles { unasked, asked, mut notices } = wanted;
    if over > 0 {
        notices.push(format!(
            "{over} more mentions are not looked up: only the first {MAX_MENTIONS} of a prompt are"
        ));
    }
    if !notices.is_empty() {
        let text = format!("{NOT_READ}{}\n", notices.join("\n"));
        engine.log.append(Event::Told { call: None, text });
    }
    for notice in notices {
        engine.log.append(Event::Notice(notice));
    }
    // Files that need a question are read in a call of their own, so that a no does not stop the reading of the others.
    for call in [unasked, asked].iter().filter_map(ReadList::call) {
        call::run_for_prompt(engine, turn, engine.calls.with_unique_id(call)).await;
    }
    true
}

/// Returns the mentions of a prompt, each once, at most [`MAX_MENTIONS`]; also returns the number of further mentions
/// that look like names of files.
fn mentions(prompt: &[PromptPart]) -> (Vec<Mention>, usize) {
    let mut mentions: Vec<Mention> = Vec::new();
    let mut over = 0;
    for mention in all_mentions(prompt) {
        let known = mentions.iter().any(|known| known.path == mention.path);
        // An unquoted word with a scheme is an address for other programs, not a path.
        if known || (!mention.certain && mention.path.contains("://")) {
            continue;
        }
        if mentions.len() < MAX_MENTIONS {
            mentions.push(mention);
        } else if mention.is_file_name() {
            over += 1;
        }
    }
    (mentions, over)
}

/// Returns all that a prompt mentions, in order.
pub(super) fn all_mentions(prompt: &[PromptPart]) -> Vec<Mention> {
    let of_part = |part: &PromptPart| match part {
        PromptPart::Path(path) => vec![Mention { path: path.clone(), certain: true }],
        PromptPart::Text(text) => {
            let found = at_path::all(text).into_iter();
            found.map(|at| Mention { path: at.path, certain: at.quoted }).collect()
        }
        PromptPart::Input(_)
        | PromptPart::Shell(_)
        | PromptPart::Media(_)
        | PromptPart::File(_)
        | PromptPart::AnswerSchema(_) => Vec::new(),
    };
    prompt.iter().flat_map(of_part).collect()
}

/// Finds the files and directories to read for the mentions. If nothing is at a mention's path, searches the workspace
/// for a file by the mention's name.
fn find_all(
    workspace: &Workspace,
    mentions: &[Mention],
    mut targets: Vec<MentionTarget>,
    stop: &CancellationToken,
) -> MentionedFiles {
    let is_missing = |found: &ReadablePath| found.kind.is_none() && workspace.contains(&found.real);
    let missing = mentions.iter().zip(&mut targets).filter(|(mention, target)| {
        mention.is_part_of_path()
            && !mention.is_glob()
            && target.found.as_ref().is_ok_and(is_missing)
    });
    by_name(workspace, missing.map(|(_, target)| target), stop);
    let mut wanted = MentionedFiles::default();
    for (mention, MentionTarget { reading, found }) in mentions.iter().zip(targets) {
        match to_read(workspace, mention, found) {
            Some(Ok(ReadablePath { real, kind, is_asked })) => {
                let path = workspace.relative(&real);
                let list = if is_asked { &mut wanted.asked } else { &mut wanted.unasked };
                match reading.lines.filter(|_| kind == Some(FileKind::File)) {
                    Some(lines) => list.excerpts.push((path, lines)),
                    None if !list.include.contains(&path) => list.include.push(path),
                    None => {}
                }
            }
            Some(Err(why)) => wanted.notices.push(format!("@{}: {why}", mention.path)),
            None => {}
        }
    }
    wanted
}

/// Looks up a mention. Chooses the first interpretation whose path exists, or else the last interpretation.
async fn target(host: &Host, mentioned: &str) -> MentionTarget {
    let mut readings = readings(mentioned);
    // `readings` returns at least one reading.
    let last = readings.pop().unwrap_or_default();
    for reading in readings {
        let found = looked_up(host, &reading).await;
        if found.as_ref().is_ok_and(|found| found.kind.is_some()) {
            return MentionTarget { reading, found };
        }
    }
    let found = looked_up(host, &last).await;
    MentionTarget { reading: last, found }
}

async fn looked_up(host: &Host, reading: &MentionReading) -> Result<ReadablePath, ToolError> {
    if reading.path.is_empty() {
        return Err(ToolError::new("invalid_path", "it names no file".to_owned()));
    }
    host.look_up_to_read(&reading.path).await
}

/// Returns the path to read, or the reason why the mention is not read; `None` if the mention is only a word of the
/// text.
fn to_read(
    workspace: &Workspace,
    mention: &Mention,
    found: Result<ReadablePath, ToolError>,
) -> Option<Result<ReadablePath, String>> {
    let is_elsewhere = |found: &ReadablePath| !workspace.contains(&found.real);
    Some(match found {
        // Unquoted, `@/lib` is mostly code that imports from the project: directories and globs outside need quotes.
        Ok(found)
            if is_elsewhere(&found)
                && !mention.certain
                && (mention.is_glob() || found.kind == Some(FileKind::Directory)) =>
        {
            let path = &mention.path;
            Err(format!(
                "outside the workspace; a directory or a pattern there is read if it is in quotes (`@\"{path}\"`)"
            ))
        }
        Ok(found) if found.kind.is_some() => {
            match workspace.ignored_by(&found.real, Respect::GIT_AND_OWN) {
                Some(rules) => Err(format!("not read, because it is ignored by {rules}")),
                None => Ok(found),
            }
        }
        // The path stays a pattern: the tool that reads the pattern says which files there are, and which files are
        // not read.
        Ok(found) if mention.is_glob() => Ok(found),
        Ok(_) if !mention.is_file_name() => return None,
        Ok(_) => Err("there is no such file in the workspace".to_owned()),
        // `@scope/package`, the form of a package that a program imports, is no mention unless such a file exists.
        Err(_) if !mention.is_file_name() && !Path::new(&mention.path).exists() => return None,
        Err(error) => Err(error.message),
    })
}

/// Returns at most `most` files that are neither ignored nor secret, the files of the first root first.
pub(crate) fn files(workspace: &Workspace, most: usize) -> Vec<String> {
    walk(workspace).take(most).map(|path| workspace.relative(&path)).collect()
}

fn walk(workspace: &Workspace) -> impl Iterator<Item = PathBuf> {
    let below = |root: &PathBuf| workspace.walk(root, Respect::GIT_AND_OWN).sorted().flatten();
    let files = workspace.roots().iter().flat_map(below);
    let files = files.filter(WalkEntry::is_file);
    // No search leads to a secret file: a user who wants it mentions its path.
    let files = files.filter(|entry| !workspace.secrets().hides(entry.path(), false));
    files.map(WalkEntry::into_path)
}

/// Returns the interpretations of a mention, the literal path first, because names of files can contain `#` and `?`.
/// Editors write the lines of a selection as `PATH#L10:20`, the lines of a symbol as `PATH?symbol=NAME#L10:20`, and
/// both in a URI.
fn readings(mentioned: &str) -> Vec<MentionReading> {
    if let Some(uri) = mentioned.strip_prefix("zed:///agent/") {
        return vec![in_zed(uri)];
    }
    let Some(uri) = mentioned.strip_prefix("file://") else {
        let mut readings = vec![MentionReading { path: mentioned.to_owned(), lines: None }];
        if let Some((path, fragment)) = mentioned.rsplit_once('#')
            && let Some(lines) = fragment.strip_prefix('L').and_then(line_range)
        {
            readings.push(MentionReading { path: path.to_owned(), lines: Some(lines) });
        }
        return readings;
    };
    let uri = uri.strip_prefix("localhost").unwrap_or(uri);
    let mut readings = vec![MentionReading { path: decoded(uri), lines: None }];
    let (path, lines) = match uri.rsplit_once('#') {
        Some((path, fragment)) => (path, line_range(fragment)),
        None => (uri, None),
    };
    if path != uri {
        readings.push(MentionReading { path: decoded(path), lines });
    }
    if let Some((path, _)) = path.rsplit_once('?') {
        readings.push(MentionReading { path: decoded(path), lines });
    }
    readings
}

/// Parses the rest of a URI after `zed:///agent/`: a `path` in the query, and lines in the fragment. A URI without a
/// path names a thing that only the editor knows; its path here is empty.
fn in_zed(uri: &str) -> MentionReading {
    let (uri, fragment) = uri.split_once('#').unwrap_or((uri, ""));
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    let path = query.split('&').find_map(|field| field.strip_prefix("path="));
    let path = path.map(|path| decoded(&path.replace('+', " "))).unwrap_or_default();
    MentionReading { path, lines: line_range(fragment) }
}

/// Parses `10:20`, `10-20` or `10`, each number with or without an `L` before it.
fn line_range(text: &str) -> Option<LineRange> {
    let number = |text: &str| {
        let number = text.strip_prefix('L').unwrap_or(text).parse::<usize>();
        number.ok().filter(|number| *number > 0)
    };
    let (first, last) = text.split_once([':', '-']).unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    Some(LineRange { first: first.min(last), last: first.max(last) })
}

/// Returns a path without the percent escapes of a URI.
fn decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Searches the workspace for the missing targets by their names. Each target gets the first file, in alphabetical
/// order, whose last path components contain its name.
fn by_name<'a>(
    workspace: &Workspace,
    missing: impl Iterator<Item = &'a mut MentionTarget>,
    stop: &CancellationToken,
) {
    let mut missing: Vec<_> = missing
        .filter_map(|MentionTarget { reading, found }| Some((like(&reading.path)?, found)))
        .collect();
    if missing.is_empty() {
        return;
    }
    for path in walk(workspace).take_while(|_| !stop.is_cancelled()) {
        let Some(root) = workspace.roots().iter().find(|root| path.starts_with(root)) else {
            continue;
        };
        let below = path.strip_prefix(root).unwrap_or(&path);
        missing.retain_mut(|(glob, found)| {
            let is_it = glob.is_match(below);
            if is_it {
                let kind = Some(FileKind::File);
                **found = Ok(ReadablePath { real: path.clone(), kind, is_asked: false });
            }
            !is_it
        });
        if missing.is_empty() {
            return;
        }
    }
}

/// Returns a matcher for paths whose last components contain the name; `None` if the name is empty.
fn like(name: &str) -> Option<GlobMatcher> {
    let name = name.trim_start_matches(['/', '.']);
    if name.is_empty() {
        return None;
    }
    let pattern = format!("**/*{}*", globset::escape(name));
    Some(GlobBuilder::new(&pattern).literal_separator(true).build().ok()?.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::{LineRange, MentionReading, readings};

    /// Checks the interpretations of a mention: a path, and the first and last line if only some lines are meant.
    #[track_caller]
    fn check(mentioned: &str, expected: &[(&str, Option<(usize, usize)>)]) {
        let range = |(first, last)| LineRange { first, last };
        let reading = |(path, lines): &(&str, Option<_>)| MentionReading {
            path: (*path).to_owned(),
            lines: lines.map(range),
        };
        assert_eq!(readings(mentioned), expected.iter().map(reading).collect::<Vec<_>>());
    }

    #[test]
    fn a_uri_is_read_as_editors_write_it() {
        check("file:///w/a%20b.md", &[("/w/a b.md", None)]);
        check("file://localhost/w/a.md", &[("/w/a.md", None)]);
        check("file:///w/a%23b%3F.md", &[("/w/a#b?.md", None)]);
        check("file:///w/a.md#L1:2", &[("/w/a.md#L1:2", None), ("/w/a.md", Some((1, 2)))]);
        check(
            "file:///w/a.md?symbol=x#L3:9",
            &[
                ("/w/a.md?symbol=x#L3:9", None),
                ("/w/a.md?symbol=x", Some((3, 9))),
                ("/w/a.md", Some((3, 9))),
            ],
        );
        check("file:///w/a.md#intro", &[("/w/a.md#intro", None), ("/w/a.md", None)]);
        check("zed:///agent/selection?path=%2Fw%2Fa+b.md#L4:5", &[("/w/a b.md", Some((4, 5)))]);
        check("zed:///agent/symbol/x?path=/w/a.md#L4", &[("/w/a.md", Some((4, 4)))]);
        check("zed:///agent/file?path=/w/a.md", &[("/w/a.md", None)]);
        check("zed:///agent/thread/1?name=x", &[("", None)]);
    }

    #[test]
    fn a_path_is_read_as_it_is_or_with_lines() {
        check("a.md", &[("a.md", None)]);
        check("a#b.md", &[("a#b.md", None)]);
        check("a.md#12", &[("a.md#12", None)]);
        for lines in ["L10:20", "L10-20", "L10-L20", "L20:10"] {
            let written = format!("a.md#{lines}");
            check(&written, &[(&written, None), ("a.md", Some((10, 20)))]);
        }
        check("a#b.md#L7", &[("a#b.md#L7", None), ("a#b.md", Some((7, 7)))]);
        check("a.md#L0", &[("a.md#L0", None)]);
        check("a.md#L99999999999999999999", &[("a.md#L99999999999999999999", None)]);
    }
}
