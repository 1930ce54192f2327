//! The patch format that GPT models are trained on: files that are added, deleted, or updated by groups of lines.
//!
//! A patch is text between `*** Begin Patch` and `*** End Patch`. A group of lines of an update begins with `@@`, which
//! may have a line of the file behind it that the group comes after. Line numbers have no place in the format.

use std::mem;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use tandem_host::diff::Side;

/// Grammar of the format, for APIs that keep a model to it.
pub(super) const PATCH_GRAMMAR: &str = include_str!("patch.lark");

const BEGIN_LINE: &str = "*** Begin Patch";
const END_LINE: &str = "*** End Patch";
const ADD_PREFIX: &str = "*** Add File: ";
const DELETE_PREFIX: &str = "*** Delete File: ";
const UPDATE_PREFIX: &str = "*** Update File: ";
const MOVE_PREFIX: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// Maximum number of files in a patch.
const MAX_FILES: usize = 200;

/// Line numbers as other formats have them behind `@@`. They are not used: models count badly.
static LINE_NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^-\d+(?:,\d+)? \+\d+(?:,\d+)? ?(?:@@ ?)?").expect("the pattern is fixed")
});

/// Change of one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilePatch {
    /// A new file with this text.
    Add { path: String, text: String },
    /// A file that is removed.
    Delete { path: String },
    /// A file whose lines are changed, and which may be moved.
    Update { path: String, moved_to: Option<String>, hunks: Vec<Hunk> },
}

/// A group of lines of an update.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines of the file, in their order, that the group comes after.
    pub(super) heads: Vec<String>,
    pub(super) lines: Vec<PatchLine>,
    /// `true` if the group is at the end of the file.
    pub(super) is_at_end: bool,
}

/// A line of a group: of both texts, of the old text, or of the new text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PatchLine {
    pub(super) side: Side,
    pub(super) text: String,
}

impl FilePatch {
    /// Makes relative paths begin in a directory. An absolute path stays unchanged.
    pub(super) fn begin_in(&mut self, directory: &str) {
        let (path, moved_to) = match self {
            Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Update { path, moved_to, .. } => (path, moved_to.as_mut()),
        };
        for path in [path].into_iter().chain(moved_to) {
            *path = Path::new(directory).join(&*path).to_string_lossy().into_owned();
        }
    }

    /// Returns the paths that the change names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, moved_to) = match self {
            Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Update { path, moved_to, .. } => (path, moved_to.as_deref()),
        };
        [path.as_str()].into_iter().chain(moved_to)
    }
}

/// Reads a patch. The error is a sentence that names the line.
pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, String> {
    let mut lines: Vec<&str> =
        text.trim().lines().map(|line| line.trim_end_matches('\r')).collect();
    // Models put the patch into a fenced block, as in an answer.
    if lines.first().is_some_and(|line| line.starts_with("```")) && lines.last() == Some(&"```") {
        lines.pop();
        lines.remove(0);
    }
    if lines.first().map(|line| line.trim()) != Some(BEGIN_LINE) {
        return Err(format!("the first line is not `{BEGIN_LINE}`"));
    }
    if lines.last().map(|line| line.trim()) != Some(END_LINE) {
        return Err(format!("the last line is not `{END_LINE}`"));
    }
    let last = lines.len() - 1;
    let mut rest = Lines { lines: &lines[..last], next: 1 };
    let mut files = Vec::new();
    while let Some(line) = rest.next_line() {
        if line.trim().is_empty() {
            continue;
        }
        files.push(rest.file(line)?);
    }
    match files.len() {
        0 => Err("it changes no file".to_owned()),
        1..=MAX_FILES => Ok(files),
        n => Err(format!("it changes {n} files, and at most {MAX_FILES} can be changed at once")),
    }
}

/// The lines of a patch that are not read yet.
struct Lines<'t> {
    lines: &'t [&'t str],
    /// Index of the next line, which is also the number of the line before, counted from 1.
    next: usize,
}

impl<'t> Lines<'t> {
    fn next_line(&mut self) -> Option<&'t str> {
        let line = self.lines.get(self.next)?;
        self.next += 1;
        Some(line)
    }

    fn peek(&self) -> Option<&'t str> {
        self.lines.get(self.next).copied()
    }

    /// Returns an error about the line that was taken last.
    fn wrong<T>(&self, why: &str) -> Result<T, String> {
        Err(format!("line {}: {why}", self.next))
    }

    /// Reads the change of a file that begins with this line.
    fn file(&mut self, line: &str) -> Result<FilePatch, String> {
        let named =
            |keyword| line.trim_end().strip_prefix(keyword).map(|path| path.trim().to_owned());
        if let Some(path) = named(ADD_PREFIX) {
            return Ok(FilePatch::Add { path, text: self.added()? });
        }
        if let Some(path) = named(DELETE_PREFIX) {
            return Ok(FilePatch::Delete { path });
        }
        if let Some(path) = named(UPDATE_PREFIX) {
            let moved_to = self.peek().and_then(|line| line.strip_prefix(MOVE_PREFIX));
            let moved_to = moved_to.map(|path| path.trim().to_owned());
            self.next += usize::from(moved_to.is_some());
            let hunks = self.hunks()?;
            if hunks.is_empty() && moved_to.is_none() {
                return self.wrong("the update of a file has no lines");
            }
            return Ok(FilePatch::Update { path, moved_to, hunks });
        }
        self.wrong(&format!(
            "expected `{ADD_PREFIX}PATH`, `{DELETE_PREFIX}PATH` or `{UPDATE_PREFIX}PATH`"
        ))
    }

    /// Reads the lines of a new file.
    fn added(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut empty_lines = 0;
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            self.next += 1;
            match line.strip_prefix('+') {
                Some(line) => {
                    text.push_str(&"\n".repeat(mem::take(&mut empty_lines)));
                    text.extend([line, "\n"]);
                }
                // Models leave out the `+` of an empty line. At the end of the part, such a line only separates.
                None if line.trim().is_empty() => empty_lines += 1,
                None => return self.wrong("each line of a new file begins with `+`"),
            }
        }
        Ok(text)
    }

    /// Skips empty lines, if a group of lines ends with them. Then they only separate the group from what follows: as
    /// lines of the file, they would lead added lines to the first empty line of the file. Returns `true` if so.
    fn skip_separators(&mut self) -> bool {
        let rest = &self.lines[self.next..];
        let empty = rest.iter().take_while(|line| line.is_empty()).count();
        let ends = rest.get(empty).is_none_or(|line| {
            line.starts_with("@@") || line.starts_with("*** ") && line.trim_end() != END_OF_FILE
        });
        if ends {
            self.next += empty;
        }
        ends
    }

    /// Reads the groups of lines of an update.
    fn hunks(&mut self) -> Result<Vec<Hunk>, String> {
        let mut hunks: Vec<Hunk> = Vec::new();
        while let Some(line) = self.peek() {
            let ends = line.trim_end() == END_OF_FILE;
            if line.starts_with("*** ") && !ends {
                break;
            }
            self.next += 1;
            if line.is_empty() && self.skip_separators() {
                continue;
            }
            if let Some(head) = line.strip_prefix("@@") {
                // Several heads in a row lead to the place step by step: a class, then a method.
                if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty() || hunk.is_at_end) {
                    hunks.push(Hunk::default());
                }
                let head = head.strip_prefix(' ').unwrap_or(head);
                let head = LINE_NUMBERS.replace(head, "");
                let hunk = hunks.last_mut().filter(|_| !head.trim().is_empty());
                if let Some(hunk) = hunk {
                    hunk.heads.push(head.into_owned());
                }
                continue;
            }
            if hunks.last().is_none_or(|hunk| hunk.is_at_end) {
                hunks.push(Hunk::default());
            }
            let Some(hunk) = hunks.last_mut() else { break };
            if ends {
                hunk.is_at_end = true;
                continue;
            }
            match PatchLine::read(line) {
                Some(line) => hunk.lines.push(line),
                None => {
                    return self.wrong("each line of an update begins with ` `, `-`, `+` or `@@`");
                }
            }
        }
        if hunks.iter().any(|hunk| hunk.lines.is_empty()) {
            return self.wrong("a group of lines is empty");
        }
        Ok(hunks)
    }
}

impl PatchLine {
    fn read(line: &str) -> Option<Self> {
        let mut chars = line.chars();
        let side = match chars.next() {
            // Models leave out the space of an empty line.
            None | Some(' ') => Side::Both,
            Some('-') => Side::Old,
            Some('+') => Side::New,
            Some(_) => return None,
        };
        Some(Self { side, text: chars.as_str().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the expectation is a literal")]
    fn check(lines: &str, expected: Expect) {
        let parsed = parse(&format!("*** Begin Patch\n{lines}\n*** End Patch\n"));
        let files = |files: Vec<FilePatch>| {
            files.iter().fold(String::new(), |said, file| said + &format!("{file:?}\n"))
        };
        expected.assert_eq(&parsed.map_or_else(|why| format!("wrong: {why}"), files));
    }

    #[test]
    fn a_patch_adds_deletes_updates_and_moves_files() {
        check(
            "*** Add File: a b.txt\n+one\n+\n+two\n*** Delete File: c\n*** Update File: d\n*** Move to: e/d\n\
             @@ class A\n@@ def f\n x\n-y\n+z\n\n*** End of File\n*** Update File: f\n-1\n+2",
            expect![[r#"
                Add { path: "a b.txt", text: "one\n\ntwo\n" }
                Delete { path: "c" }
                Update { path: "d", moved_to: Some("e/d"), hunks: [Hunk { heads: ["class A", "def f"], lines: [PatchLine { side: Both, text: "x" }, PatchLine { side: Old, text: "y" }, PatchLine { side: New, text: "z" }, PatchLine { side: Both, text: "" }], is_at_end: true }] }
                Update { path: "f", moved_to: None, hunks: [Hunk { heads: [], lines: [PatchLine { side: Old, text: "1" }, PatchLine { side: New, text: "2" }], is_at_end: false }] }
            "#]],
        );
        check(
            "*** Update File: a\n*** Move to: b",
            expect![[r#"
                Update { path: "a", moved_to: Some("b"), hunks: [] }
            "#]],
        );
        check(
            "*** Add File: a\n+x\n\n\n+y\n\n*** Add File: empty",
            expect![[r#"
                Add { path: "a", text: "x\n\n\ny\n" }
                Add { path: "empty", text: "" }
            "#]],
        );
    }

    #[test]
    fn empty_lines_between_parts_and_groups_belong_to_none() {
        check(
            "*** Update File: a\n*** Move to: b\n\n*** Update File: c\n@@ f\n+x\n\n\n@@ g\n\n-y\n\n",
            expect![[r#"
                Update { path: "a", moved_to: Some("b"), hunks: [] }
                Update { path: "c", moved_to: None, hunks: [Hunk { heads: ["f"], lines: [PatchLine { side: New, text: "x" }], is_at_end: false }, Hunk { heads: ["g"], lines: [PatchLine { side: Both, text: "" }, PatchLine { side: Old, text: "y" }], is_at_end: false }] }
            "#]],
        );
    }

    #[test]
    fn line_numbers_of_other_formats_are_skipped() {
        check(
            "*** Update File: a\n@@ -1,2 +1,2 @@ fn f() {\n-1\n+2\n@@ -9 +9 @@\n-3\n+4",
            expect![[r#"
                Update { path: "a", moved_to: None, hunks: [Hunk { heads: ["fn f() {"], lines: [PatchLine { side: Old, text: "1" }, PatchLine { side: New, text: "2" }], is_at_end: false }, Hunk { heads: [], lines: [PatchLine { side: Old, text: "3" }, PatchLine { side: New, text: "4" }], is_at_end: false }] }
            "#]],
        );
    }

    #[test]
    fn what_is_no_patch_says_which_line_is_wrong() {
        check("", expect!["wrong: it changes no file"]);
        check("*** Update File: a", expect!["wrong: line 2: the update of a file has no lines"]);
        check("*** Update File: a\n@@ x", expect!["wrong: line 3: a group of lines is empty"]);
        check(
            "*** Update File: a\nx",
            expect!["wrong: line 3: each line of an update begins with ` `, `-`, `+` or `@@`"],
        );
        check(
            "*** Add File: a\n+x\ny",
            expect!["wrong: line 4: each line of a new file begins with `+`"],
        );
        check(
            "*** Rename File: a",
            expect![
                "wrong: line 2: expected `*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`"
            ],
        );
        let cut = parse("*** Begin Patch\n*** Delete File: a");
        assert_eq!(cut.unwrap_err(), "the last line is not `*** End Patch`");
        assert_eq!(parse("x").unwrap_err(), "the first line is not `*** Begin Patch`");
    }

    #[test]
    fn a_fence_around_the_patch_and_other_line_endings_are_forgiven() {
        let patch =
            "\n```diff\r\n*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n```\n";
        let file = FilePatch::Add { path: "a".to_owned(), text: "x\n".to_owned() };
        assert_eq!(parse(patch), Ok(vec![file]));
    }
}
