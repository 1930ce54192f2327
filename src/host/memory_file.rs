//! The user's own memory file, with facts that every session is told.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::disk;
use super::output::ToolError;

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// Maximum length of a fact, in characters.
const MAX_CHARS: usize = 4000;

/// Heading of the section for added facts, which other programs also use.
const MEMORY_HEADING: &str = "## Gemini Added Memories";

/// Adds a fact to the user's own file. The rest of the file is unchanged.
pub fn add(file: &Path, fact: &str) -> Result<(), ToolError> {
    let fact = one_fact(fact)?;
    let (old, new) = proposed(file, &fact)?;
    // Written to the target of a symbolic link, so that the link is not replaced by a file.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let cancel = CancellationToken::new();
    disk::write(&real, old.as_ref().map(String::as_bytes), new.as_bytes(), &cancel)
}

/// Returns the present text of the user's own file, if it exists, and the text with a fact added.
pub fn proposed(file: &Path, fact: &str) -> Result<(Option<String>, String), ToolError> {
    let wrong = |why: String| ToolError::new("memory_not_saved", why);
    let old = match disk::read(file, MAX_BYTES) {
        Err(error) if error.is_file_not_found() => None,
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

/// Returns a fact as one line without control characters.
pub fn one_fact(fact: &str) -> Result<String, ToolError> {
    let words: Vec<_> = fact
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let fact = words.join(" ").trim_start_matches(['-', ' ']).to_owned();
    match fact.chars().count() {
        0 => Err(ToolError::invalid_args("`fact` is empty")),
        1..=MAX_CHARS => Ok(fact),
        chars => Err(ToolError::invalid_args(format_args!(
            "`fact`: {chars} characters are more than the limit of {MAX_CHARS}"
        ))),
    }
}

/// Returns the text of the file with one more fact.
fn with(before: &str, fact: &str) -> String {
    let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let line = format!("- {fact}{end}");
    let Some(below) = section(before) else {
        let before = before.trim_end();
        let gap = if before.is_empty() { String::new() } else { end.repeat(2) };
        return format!("{before}{gap}{MEMORY_HEADING}{end}{line}");
    };
    let (above, below) = before.split_at(below);
    let gap = if below.is_empty() { "" } else { end };
    format!("{}{end}{line}{gap}{below}", above.trim_end())
}

/// Returns the byte offset at which the section of added facts ends.
fn section(text: &str) -> Option<usize> {
    let mut inside = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let heading = line.trim_end();
        if inside && (heading.starts_with("# ") || heading.starts_with("## ")) {
            return Some(at);
        }
        inside |= heading == MEMORY_HEADING;
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
