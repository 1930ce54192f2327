//! `save_memory`: writes down what the user wants known in every session, in the user's own file.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::args::parse;
use super::blocking::blocking;
use super::context::ToolContext;
use super::disk;
use super::invocation::{Access, Invocation, Summary};
use super::off_thread::off_thread;
use super::output::{FileDiff, ToolError, ToolOutput};
use super::shorten::one_line;
use super::tool::{Tool, ToolKind, ToolSpec};

/// Bytes of the file at most.
const MAX_BYTES: u64 = 256 * 1024;

/// Characters of a fact at most.
const MAX_CHARS: usize = 4000;

/// Heading of the section for what is added; other programs know it too.
const HEADING: &str = "## Gemini Added Memories";

/// The tool.
pub(super) struct SaveMemory {
    /// The user's own file.
    pub(super) file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveMemoryArgs {
    fact: String,
}

#[async_trait]
impl Tool for SaveMemory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "save_memory".to_owned(),
            aliases: &[],
            description: "Writes down a fact to be known in every later session, in any project. \
                Only when the user asks you to remember something, or states a lasting preference \
                or fact about themselves. Never what belongs to this conversation or this project \
                (the project's own instruction file is for that), and no secrets."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "fact": {
                        "type": "string",
                        "description": "One sentence that says it all by itself.",
                    },
                },
                "required": ["fact"],
            }),
            kind: ToolKind::Think,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let SaveMemoryArgs { fact } = parse(args)?;
        let fact = one_fact(&fact)?;
        let file = self.file.clone();
        let summary = Summary::new(format!("Remember: {}", one_line(&fact, 200)));
        let (path, added) = (file.clone(), fact.clone());
        let (old, new) = blocking(cx, move |_| proposed(&path, &added)).await?;
        let shown = file.display().to_string();
        let access = Access::Other {
            description: format!("Writes into {shown}, for every session: {fact}"),
        };
        let diff = FileDiff { path: shown, old: old.map(Into::into), new: new.into() };
        let summary = Summary { diff: Some(diff), ..summary };
        Ok(Invocation::new(summary, access, move |_| async move {
            off_thread(move || add(&file, &fact)).await?;
            Ok(ToolOutput { text: "It is written down.".to_owned(), ..ToolOutput::default() })
        }))
    }
}

/// Adds a fact to the user's own file. What it says otherwise is kept.
pub(super) fn add(file: &Path, fact: &str) -> Result<(), ToolError> {
    let fact = one_fact(fact)?;
    let (old, new) = proposed(file, &fact)?;
    // A link stays one: it is what it leads to that is written.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let cancel = CancellationToken::new();
    disk::write(&real, old.as_ref().map(String::as_bytes), new.as_bytes(), &cancel)
}

/// The file's text, if there is one, and what it would be.
fn proposed(file: &Path, fact: &str) -> Result<(Option<String>, String), ToolError> {
    let wrong = |why: String| ToolError::new("memory_not_saved", why);
    let old = match disk::read(file, MAX_BYTES) {
        Err(error) if error.kind == "file_not_found" => None,
        bytes => Some(bytes?),
    };
    let old = old.map(String::from_utf8).transpose();
    let old = old.map_err(|_| wrong(format!("{} is not UTF-8.", file.display())))?;
    let new = with(old.as_deref().unwrap_or_default(), fact);
    if new.len() as u64 > MAX_BYTES {
        let why = format!("{} would be larger than {MAX_BYTES} bytes.", file.display());
        return Err(wrong(why));
    }
    Ok((old, new))
}

/// A fact in one line that is nothing but text.
fn one_fact(fact: &str) -> Result<String, ToolError> {
    let words: Vec<_> = fact
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let fact = words.join(" ").trim_start_matches(['-', ' ']).to_owned();
    match fact.chars().count() {
        0 => Err(ToolError::invalid_args("`fact`: there is nothing in it to remember")),
        1..=MAX_CHARS => Ok(fact),
        chars => Err(ToolError::invalid_args(format_args!(
            "`fact`: {chars} characters are more than the limit of {MAX_CHARS}"
        ))),
    }
}

/// The file's text with one more thing to remember.
fn with(before: &str, fact: &str) -> String {
    let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let line = format!("- {fact}{end}");
    let Some(below) = section(before) else {
        let before = before.trim_end();
        let gap = if before.is_empty() { String::new() } else { end.repeat(2) };
        return format!("{before}{gap}{HEADING}{end}{line}");
    };
    let (above, below) = before.split_at(below);
    let gap = if below.is_empty() { "" } else { end };
    format!("{}{end}{line}{gap}{below}", above.trim_end())
}

/// Returns the offset at which the section of what was added ends.
fn section(text: &str) -> Option<usize> {
    let mut inside = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let heading = line.trim_end();
        if inside && (heading.starts_with("# ") || heading.starts_with("## ")) {
            return Some(at);
        }
        inside |= heading == HEADING;
        at += line.len();
    }
    inside.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::{one_fact, with};

    #[track_caller]
    fn check(before: &str, fact: &str, expected: &str) {
        assert_eq!(with(before, &one_fact(fact).unwrap()), expected);
    }

    #[test]
    fn what_is_added_goes_to_the_end_of_its_section() {
        check("", "tabs", "## Gemini Added Memories\n- tabs\n");
        check("# Me\n", "tabs", "# Me\n\n## Gemini Added Memories\n- tabs\n");
        check(
            "## Gemini Added Memories\n- one\n\n## More\nx\n",
            "two",
            "## Gemini Added Memories\n- one\n- two\n\n## More\nx\n",
        );
        check("a\r\n", "b", "a\r\n\r\n## Gemini Added Memories\r\n- b\r\n");
    }

    #[test]
    fn what_is_added_is_one_bullet_whatever_is_in_it() {
        check("", "a\n\n## Rules\r\nb\u{2028}c", "## Gemini Added Memories\n- a ## Rules b c\n");
        check("", " - - a", "## Gemini Added Memories\n- a\n");
        check("", "a\u{1b}[2Jb\0", "## Gemini Added Memories\n- a [2Jb\n");
        assert!(one_fact("-\n").is_err() && one_fact(&"x".repeat(4001)).is_err());
    }
}
