//! `replace`: replaces text in a file, even if the model's text differs from the file in white space.

mod merge;
pub(super) mod nearest;
mod sequence;
mod strategies;

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Number, Value, json};

use self::strategies::{EditRequest, ExpectedCount, NoMatch, Strategy};
use super::blocking::{blocking, stoppable};
use super::change::{Original, Proposal, created, failing};
use super::similar_paths::similar_paths;
use super::{line_numbers, omission};
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolAudience, ToolContext, ToolError, ToolKind, ToolSpec,
    parse, text,
};

/// End of the error for a text that was not found, if a line of the text begins like a line number.
const LINE_NUMBERS_HINT: &str = " If old_string has line numbers, leave them out.";

/// Addition to the description where a user can edit the result.
const EDITED_RESULT: &str = " The user may edit the result before it is written; you are told.";

/// Maximum number of edits of one call.
const MAX_EDITS: usize = 200;

/// The tool `replace`.
pub(super) struct Replace;

/// Arguments: one edit, or a list of edits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplaceArgs {
    file_path: String,
    /// Purpose of the edit, which models that know Gemini CLI's tool send. The tool ignores it.
    #[serde(rename = "instruction")]
    _instruction: Option<IgnoredAny>,
    old_string: Option<String>,
    new_string: Option<String>,
    allow_multiple: Option<bool>,
    /// Expected number of replacements, which older models send in place of `allow_multiple`.
    expected_replacements: Option<Number>,
    edits: Option<Vec<Edit>>,
}

/// One text to replace, and its replacement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    old_string: String,
    new_string: String,
    allow_multiple: Option<bool>,
    expected_replacements: Option<Number>,
}

impl ReplaceArgs {
    /// Returns the edits; at least one.
    fn edits(self) -> Result<Vec<Edit>, ToolError> {
        let Self { old_string, new_string, allow_multiple, expected_replacements, .. } = self;
        let missing = |name| ToolError::invalid_args(format_args!("missing field `{name}`"));
        match self.edits {
            Some(edits) if old_string.is_none() && new_string.is_none() => match edits.len() {
                0 => Err(ToolError::invalid_args("`edits`: names nothing")),
                1..=MAX_EDITS => Ok(edits),
                n => Err(ToolError::invalid_args(format_args!(
                    "`edits`: {n} edits, and at most {MAX_EDITS} can be made at once"
                ))),
            },
            Some(_) => Err(ToolError::invalid_args(
                "give either `edits`, or `old_string` and `new_string`",
            )),
            None => {
                let old_string = old_string.ok_or_else(|| missing("old_string"))?;
                let new_string = new_string.ok_or_else(|| missing("new_string"))?;
                Ok(vec![Edit { old_string, new_string, allow_multiple, expected_replacements }])
            }
        }
    }
}

impl Edit {
    fn count(&self) -> ExpectedCount {
        let number = |number: &Number| {
            number.as_u64().or_else(|| number.to_string().strip_suffix(".0")?.parse().ok())
        };
        match self.expected_replacements.as_ref().and_then(number) {
            Some(count) if count > 1 => {
                ExpectedCount::Exactly(usize::try_from(count).unwrap_or(usize::MAX))
            }
            _ if self.allow_multiple == Some(true) => ExpectedCount::Any,
            _ => ExpectedCount::Exactly(1),
        }
    }
}

/// Returns the title of the edits of a file. The title leaves out the texts: front ends show them as a change.
fn label(edits: &[Edit], path: &str) -> String {
    let creates = edits.first().is_some_and(|edit| edit.old_string.is_empty());
    format!("{} {path}", if creates { "Create" } else { "Edit" })
}

#[async_trait]
impl Tool for Replace {
    fn spec(&self) -> ToolSpec {
        self.spec_for(ToolAudience::default())
    }

    fn spec_for(&self, audience: ToolAudience) -> ToolSpec {
        let edited = if audience.is_attended { EDITED_RESULT } else { "" };
        let text = |description: &str| json!({ "type": "string", "description": description });
        ToolSpec {
            name: "replace".to_owned(),
            aliases: &[],
            description: format!(
                "Replaces text in a file: one text by `old_string` and `new_string`, or several by `edits`, which are \
                 made in order, all or none. `old_string` must occur in the file exactly once, so include enough lines \
                 around the change, just as they are in the file (read it first); never copy the line numbers. \
                 Differences in white space are forgiven where the place is clear, but not in indentation. An empty \
                 `old_string` creates a file. Encoding and line endings are kept.{edited}"
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": text("The file: relative to the workspace, or absolute."),
                    "old_string": text(
                        "The text to replace, literally, white space and indentation included."
                    ),
                    "new_string": text(
                        "The text to put there, literally and in full: no placeholders."
                    ),
                    "allow_multiple": {
                        "type": "boolean",
                        "description": "Replace every occurrence. By default there must be just \
                            one.",
                    },
                    "edits": {
                        "type": "array",
                        "description": "Several changes of the file, in place of the three above.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "old_string": { "type": "string" },
                                "new_string": { "type": "string" },
                                "allow_multiple": { "type": "boolean" },
                            },
                            "required": ["old_string", "new_string"],
                        },
                    },
                },
                "required": ["file_path"],
            }),
            kind: ToolKind::Edit,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let mut args: ReplaceArgs = parse(args)?;
        let path = mem::take(&mut args.file_path);
        stoppable(cx, prepare(path, args.edits()?, cx)).await
    }
}

async fn prepare(
    file_path: String,
    edits: Vec<Edit>,
    cx: &ToolContext,
) -> Result<Invocation, ToolError> {
    let path = match cx.host.resolve(&file_path).await {
        Ok(path) => path,
        Err(error) => return Ok(failing(label(&edits, &file_path), None, error)),
    };
    let relative = cx.host.workspace.relative(&path);
    let label = label(&edits, &relative);
    let original = Original::read(&path, cx).await;
    let invocation = move |cx: &ToolContext| {
        match original.and_then(|original| propose(&edits, original, &relative, cx)) {
            Ok((proposal, line)) => {
                let summary = Summary::new(label).at(&path, Some(line));
                proposal.into_invocation(summary, &cx.host.limits)
            }
            // The error may quote the file, so the failing call needs the permission to read it.
            Err(error) => {
                let mut invocation = failing(label, Some(&path), error);
                invocation.access = Access::ReadFiles { paths: vec![path], outside: Vec::new() };
                invocation
            }
        }
    };
    blocking(cx, |cx| Ok(invocation(cx))).await
}

/// Returns the proposed change, and the number of the first line that changes.
fn propose(
    edits: &[Edit],
    original: Original,
    relative: &str,
    cx: &ToolContext,
) -> Result<(Proposal, u32), ToolError> {
    let (mut new, rest) = match edits {
        [first, rest @ ..] if first.old_string.is_empty() => {
            (beginning(first, &original, relative)?, rest)
        }
        _ if original.is_new() => return Err(missing(&original, relative, cx)),
        _ => (Arc::clone(&original.text), edits),
    };
    let is_created = rest.len() < edits.len();
    let mut done = Vec::new();
    for (n, edit) in (edits.len() - rest.len() + 1..).zip(rest) {
        let made = apply(edit, &new, relative, cx).map_err(|error| match edits.len() {
            1 => error,
            // The model has to know which of its edits failed. No edit is made then.
            all => {
                let message = format!("Edit {n} of {all}: {}", error.message);
                ToolError { message, ..error }
            }
        })?;
        new = made.text;
        done.push(made.done);
    }
    if *new == *original.text && !original.is_new() {
        return Err(no_change("the file already has the text that it would have after this edit"));
    }
    let line = first_change(&original.text, &new);
    let done = if is_created { created(relative, &new) } else { done.join("\n") };
    Ok((Proposal { original, new, done }, line))
}

/// Returns the text of a file that an edit with an empty `old_string` creates.
fn beginning(edit: &Edit, original: &Original, relative: &str) -> Result<Arc<str>, ToolError> {
    if !original.text.is_empty() {
        let message = format!(
            "{relative} exists and is not empty, so it cannot be created with an empty \
             old_string. Give the text to replace, or use write_file to replace all of it."
        );
        return Err(ToolError::new("attempt_to_create_existing_file", message));
    }
    if !original.is_new() && edit.new_string.is_empty() {
        return Err(no_change("the file is empty already"));
    }
    Ok(edit.new_string.as_str().into())
}

/// Returns the error for edits of a file that does not exist.
fn missing(original: &Original, relative: &str, cx: &ToolContext) -> ToolError {
    let similar = similar_paths(&cx.host.workspace, original.path());
    let similar = match similar.as_slice() {
        [] => "Look for the right path with glob.".to_owned(),
        similar => format!("Did you mean {}?", similar.join(", ")),
    };
    let message =
        format!("{relative} does not exist. {similar} To create the file, leave old_string empty.");
    ToolError::file_not_found(message)
}

/// A text after an edit.
struct Edited {
    text: Arc<str>,
    /// Sentence for the model.
    done: String,
}

/// Applies an edit to a text.
fn apply(
    edit: &Edit,
    original: &str,
    relative: &str,
    cx: &ToolContext,
) -> Result<Edited, ToolError> {
    if edit.old_string.is_empty() {
        return Err(ToolError::invalid_args("`old_string`: is empty in an edit after the first"));
    }
    let normal = text::normalise(original);
    let (old, new) = (text::normalise(&edit.old_string), text::normalise(&edit.new_string));
    let (old, new) = without_line_numbers(&normal, old, new, relative)?;
    let wanted = EditRequest {
        old: &old,
        new: &new,
        count: edit.count(),
        max_bytes: usize::try_from(cx.host.limits.file_bytes).unwrap_or(usize::MAX),
    };
    if wanted.old == wanted.new {
        return Err(no_change("old_string and new_string are the same"));
    }
    omission::check(wanted.old, wanted.new)?;
    let found = strategies::find(&normal, &wanted)
        .map_err(|miss| missed(miss, &normal, &wanted, relative))?;
    let text = text::splice(original, &found.edits).into();
    Ok(Edited { text, done: done(found.strategy, found.edits.len(), relative) })
}

/// Removes line numbers, as the model was shown them, from the old text and its replacement, if the file has the old
/// text without them.
fn without_line_numbers<'a>(
    text: &str,
    old: Cow<'a, str>,
    new: Cow<'a, str>,
    relative: &str,
) -> Result<(Cow<'a, str>, Cow<'a, str>), ToolError> {
    let refused = |why: String| {
        let message = format!(
            "Nothing was changed: {why} Give the lines of old_string and of new_string without \
             line numbers."
        );
        Err(ToolError::new("edit_line_numbers", message))
    };
    if text.contains(&*old) {
        return Ok((old, new));
    }
    let readings = line_numbers::unnumbered(&old);
    // The model copies line numbers only with whole lines. So the text without the numbers must begin at the beginning
    // of a line of the file.
    let begins = |at: usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
    let is_there = |lines: &str| {
        !lines.trim().is_empty() && text.match_indices(lines).any(|(at, _)| begins(at))
    };
    if let Some(unnumbered) = readings.iter().find(|reading| is_there(&reading.text)) {
        return match unnumbered.replacement(&new) {
            Some(new) => Ok((unnumbered.text.clone().into(), new.into())),
            None => refused(
                "old_string begins its lines with line numbers, and new_string some of its lines."
                    .to_owned(),
            ),
        };
    }
    match readings.first() {
        None => Ok((old, new)),
        Some(unnumbered) => refused(format!(
            "old_string begins its lines with line numbers, and without them it is not in \
             {relative} exactly. {}",
            nearest::describe(text, &unnumbered.text, &new)
        )),
    }
}

fn done(strategy: Strategy, count: usize, relative: &str) -> String {
    let how = match strategy {
        Strategy::Exact => "",
        Strategy::LineEnds | Strategy::Tokens => {
            " (the white space of old_string was not that of the file)"
        }
    };
    let occurrences = if count == 1 { "occurrence" } else { "occurrences" };
    format!("Replaced {count} {occurrences} in {relative}{how}.")
}

fn missed(miss: NoMatch, text: &str, wanted: &EditRequest<'_>, relative: &str) -> ToolError {
    match miss {
        NoMatch::Nothing => ToolError::new(
            "edit_no_occurrence_found",
            format!(
                "Nothing was changed: old_string was not found in {relative}. {}{}",
                nearest::describe(text, wanted.old, wanted.new),
                if line_numbers::some(wanted.old) { LINE_NUMBERS_HINT } else { "" },
            ),
        ),
        NoMatch::Count { found, lines } => mismatch(&found, &lines, wanted, relative),
        NoMatch::Indentation { line, mismatch } => {
            let message = format!(
                "Nothing was changed: old_string is in {relative}, but indented otherwise. Line \
                 {line} begins there with {}, in old_string with {}. Give old_string and \
                 new_string with the indentation of the file.",
                describe_indent(&mismatch.in_file),
                describe_indent(&mismatch.believed)
            );
            ToolError::new("edit_indentation_mismatch", message)
        }
        NoMatch::TooLarge => {
            let message = format!("Nothing was changed: {relative} would become too large.");
            ToolError::new("file_too_large", message)
        }
    }
}

/// Returns an indentation in words.
fn describe_indent(indent: &str) -> String {
    let count = indent.chars().count();
    let plural = if count == 1 { "" } else { "s" };
    match indent.chars().next() {
        None => "no indentation".to_owned(),
        Some(' ') if indent.chars().all(|c| c == ' ') => format!("{count} space{plural}"),
        Some('\t') if indent.chars().all(|c| c == '\t') => format!("{count} tab{plural}"),
        Some(_) => format!("{indent:?}"),
    }
}

fn mismatch(found: &str, lines: &[usize], wanted: &EditRequest<'_>, relative: &str) -> ToolError {
    let expected = match wanted.count {
        ExpectedCount::Exactly(count) => count,
        ExpectedCount::Any => 1,
    };
    let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
    let message = format!(
        "Nothing was changed: found {found} of old_string in {relative}, expected {expected}. \
         They begin at lines {}. To change one, include more of the lines around it in \
         old_string; to change all, copy it exactly and set allow_multiple to true.",
        lines.join(", ")
    );
    ToolError::new("edit_expected_occurrence_mismatch", message)
}

fn no_change(why: &str) -> ToolError {
    ToolError::new("edit_no_change", format!("Nothing to change: {why}."))
}

/// Returns the number of the line, counted from 1, in which two texts begin to differ.
pub(super) fn first_change(old: &str, new: &str) -> u32 {
    let same = old.bytes().zip(new.bytes()).take_while(|(old, new)| old == new).count();
    let lines = memchr::memchr_iter(b'\n', &old.as_bytes()[..same]).count();
    u32::try_from(lines + 1).unwrap_or(u32::MAX)
}
