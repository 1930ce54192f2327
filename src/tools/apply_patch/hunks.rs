//! Application of the groups of lines of a patch to a text.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

use super::patch::{Hunk, PatchLine};
use tandem_host::diff::Side;
use tandem_host::text::TextEdit;

/// Reason why a group of lines cannot be applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The text does not have these lines before the change.
    Lines(String),
    /// The lines are in the text, but indented otherwise, from this line on.
    Indentation { line: usize },
    /// The line behind `@@` is not in the text after the group before.
    Head(String),
}

/// Similarity of two lines that counts as the same line. Each level forgives more than the level before.
#[derive(Clone, Copy)]
enum LineSimilarity {
    Exact,
    /// White space at the end of lines may differ.
    LineEnds,
    /// Typographic characters may be plain characters, too: models write quotes and dashes of their own.
    Punctuation,
    /// Indentation may differ, too. Lines that are only this much alike are not changed: the new lines would be
    /// indented wrongly.
    Indentation,
}

impl LineSimilarity {
    const SAFE_KINDS: [Self; 3] = [Self::Exact, Self::LineEnds, Self::Punctuation];

    fn same(self, a: &str, b: &str) -> bool {
        match self {
            Self::Exact => a == b,
            Self::LineEnds => a.trim_end() == b.trim_end(),
            Self::Punctuation => plain(a.trim_end()) == plain(b.trim_end()),
            Self::Indentation => plain(a.trim()) == plain(b.trim()),
        }
    }
}

/// Returns a text with plain characters in place of typographic quotes, dashes and spaces.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let plain = |c| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    };
    text.chars().map(plain).collect::<String>().into()
}

/// A text, whose line endings are `\n`, by its lines.
struct TextLines<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    /// Offset of the first byte of each line, and of the end of the text.
    starts: Vec<usize>,
}

/// Returns the changes that groups of lines make in a text, whose line endings are `
/// `. The search for each group begins after the group before.
pub(super) fn edits(text: &str, hunks: &[Hunk]) -> Result<Vec<TextEdit<'static>>, NoPlace> {
    let text = TextLines::new(text);
    let mut edits = Vec::new();
    let mut cursor = 0;
    for hunk in hunks {
        let (at, lines) = text.place(hunk, cursor)?;
        cursor = text.edit(at, lines, &mut edits);
    }
    Ok(edits)
}

impl<'t> TextLines<'t> {
    fn new(text: &'t str) -> Self {
        let mut starts = vec![0];
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            starts.push(starts[starts.len() - 1] + line.len());
            lines.push(line.strip_suffix('\n').unwrap_or(line));
        }
        Self { text, lines, starts }
    }

    /// Returns the index of the line at which a group begins, at `cursor` or later, and the lines of the group.
    fn place<'h>(
        &self,
        hunk: &'h Hunk,
        cursor: usize,
    ) -> Result<(usize, &'h [PatchLine]), NoPlace> {
        let lines = hunk.lines.as_slice();
        let old = |lines: &'h [PatchLine]| -> Vec<&'h str> {
            let old = lines.iter().filter(|line| line.side != Side::New);
            old.map(|line| line.text.as_str()).collect()
        };
        let Some(after_heads) = self.after_heads(&hunk.heads, cursor) else {
            // A head need not be a whole line. If no whole line is the head, the old lines must fit in one place
            // only.
            let found = self.find(&old(lines), cursor, false).filter(|at| {
                !old(lines).is_empty() && self.find(&old(lines), at + 1, false).is_none()
            });
            let head = || NoPlace::Head(hunk.heads.join("\n@@ "));
            return found.map(|at| (at, lines)).ok_or_else(head);
        };
        // A model may end a group with empty lines that the file does not have.
        let is_empty = |line: &&PatchLine| line.side == Side::Both && line.text.is_empty();
        let empty = lines.iter().rev().take_while(is_empty).count();
        let without_end = &lines[..lines.len() - empty];
        let shorter = (empty > 0 && !without_end.is_empty()).then_some(without_end);
        for lines in iter::once(lines).chain(shorter) {
            let wanted = old(lines);
            if wanted.is_empty() {
                let at_end = hunk.heads.is_empty() || hunk.is_at_end;
                return Ok((if at_end { self.lines.len() } else { after_heads }, lines));
            }
            // Some models repeat the head as the first line of the group.
            let from_head = || {
                let head = after_heads.checked_sub(1).filter(|_| !hunk.heads.is_empty())?;
                self.find(&wanted, head, false)
            };
            if let Some(at) = self.find(&wanted, after_heads, hunk.is_at_end).or_else(from_head) {
                return Ok((at, lines));
            }
        }
        let wanted = old(&hunk.lines);
        Err(match self.find_like(&wanted, after_heads, LineSimilarity::Indentation) {
            Some(at) => NoPlace::Indentation { line: at + 1 },
            None => NoPlace::Lines(wanted.join("\n")),
        })
    }

    /// Returns the index of the line after the heads; `None` if one of them is not there.
    fn after_heads(&self, heads: &[String], cursor: usize) -> Option<usize> {
        heads.iter().try_fold(cursor, |from, head| {
            let exact = self.find_like(&[head], from, LineSimilarity::LineEnds);
            let found =
                exact.or_else(|| self.find_like(&[head], from, LineSimilarity::Indentation));
            found.map(|at| at + 1)
        })
    }

    /// Returns the index of the first of these lines, at `from` or later.
    fn find(&self, wanted: &[&str], from: usize, is_at_end: bool) -> Option<usize> {
        let end = self.lines.len().checked_sub(wanted.len()).filter(|at| is_at_end && *at >= from);
        let at_end = end.and_then(|end| {
            LineSimilarity::SAFE_KINDS
                .into_iter()
                .find_map(|likeness| self.find_like(wanted, end, likeness))
        });
        let anywhere = || {
            LineSimilarity::SAFE_KINDS
                .into_iter()
                .find_map(|likeness| self.find_like(wanted, from, likeness))
        };
        at_end.or_else(anywhere)
    }

    fn find_like(&self, wanted: &[&str], from: usize, likeness: LineSimilarity) -> Option<usize> {
        let last = self.lines.len().checked_sub(wanted.len())?;
        (from..=last).find(|at| {
            self.lines[*at..].iter().zip(wanted).all(|(line, wanted)| likeness.same(line, wanted))
        })
    }

    /// Adds the changes of a group that begins at a line. Lines that stay are those of the text, not of the patch.
    /// Returns the index of the line after the group.
    fn edit(&self, at: usize, lines: &[PatchLine], edits: &mut Vec<TextEdit<'static>>) -> usize {
        let mut next = at;
        for run in lines.chunk_by(|a, b| (a.side == Side::Both) == (b.side == Side::Both)) {
            let first = next;
            next += run.iter().filter(|line| line.side != Side::New).count();
            if run[0].side != Side::Both {
                let new = run.iter().filter(|line| line.side == Side::New);
                let new: String = new.flat_map(|line| [&line.text, "\n"]).collect();
                let range = self.starts[first]..self.starts[next];
                edits.push(TextEdit { new: self.ended(&range, new).into(), range });
            }
        }
        next
    }

    /// Returns new lines for a part of the text. If the text has no line break at its end, it gets none.
    fn ended(&self, range: &Range<usize>, mut new: String) -> String {
        let is_last =
            range.end == self.text.len() && !self.text.is_empty() && !self.text.ends_with('\n');
        if is_last && new.pop().is_some() && range.is_empty() {
            new.insert(0, '\n');
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::super::patch::{FilePatch, parse};
    use super::*;
    use tandem_host::text::splice;

    fn changed(text: &str, hunks: &str) -> Result<String, NoPlace> {
        let patch = format!("*** Begin Patch\n*** Update File: a\n{hunks}\n*** End Patch");
        let [FilePatch::Update { hunks, .. }] = &parse(&patch).unwrap()[..] else {
            panic!("{patch}")
        };
        edits(text, hunks).map(|edits| splice(text, &edits))
    }

    #[track_caller]
    fn check(text: &str, hunks: &str, expected: &str) {
        assert_eq!(changed(text, hunks).as_deref(), Ok(expected));
    }

    #[test]
    fn each_group_is_found_after_the_one_before() {
        check("a\nb\na\nb\n", "-b\n+1\n@@\n-b\n+2", "a\n1\na\n2\n");
        check("a\nb\nc\n", " a\n-b\n+x\n+y\n c", "a\nx\ny\nc\n");
        check("a\nb\nc\nd\n", " a\n-b\n c\n+x\n d", "a\nc\nx\nd\n");
        let back = changed("a\nb\n", "-b\n+1\n@@\n-a\n+2");
        assert_eq!(back, Err(NoPlace::Lines("a".to_owned())));
    }

    #[test]
    fn heads_lead_to_the_place() {
        let text = "class A:\n    def f():\n        x\nclass B:\n    def f():\n        x\n";
        let expected = "class A:\n    def f():\n        x\nclass B:\n    def f():\n        y\n";
        check(text, "@@ class B:\n@@ def f():\n-        x\n+        y", expected);
        check(text, "@@ class B:\n     def f():\n-        x\n+        y", expected);
        check(text, "@@ class B:\n class B:\n     def f():\n-        x\n+        y", expected);
        let missing = changed(text, "@@ class C\n-        x\n+        y");
        assert_eq!(missing, Err(NoPlace::Head("class C".to_owned())));
        // No whole line is the head, but the old line fits in one place only.
        check("fn f(a: u8) {\n    1\n}\n", "@@ fn f\n-    1\n+    2", "fn f(a: u8) {\n    2\n}\n");
    }

    #[test]
    fn lines_without_others_are_added_after_the_head_or_at_the_end() {
        check("a\nb\n", "+c", "a\nb\nc\n");
        check("a\nb\n", "@@ a\n+c", "a\nc\nb\n");
        check("a\nb", "+c", "a\nb\nc");
        check("", "+c", "c\n");
        // Empty lines at the end of the group lead nowhere.
        check("a\n\nb\n", "@@ a\n+c\n\n", "a\nc\n\nb\n");
        check("a\nb\n", "+c\n \n ", "a\nb\nc\n");
        check("a\nb\n", "@@ a\n+c\n ", "a\nc\nb\n");
    }

    #[test]
    fn the_end_of_the_file_is_preferred_where_the_patch_names_it() {
        check("a\nb\na\nb\n", " a\n-b\n+c\n*** End of File", "a\nb\na\nc\n");
        check("a\nb", "-b\n+c\n+d\n*** End of File", "a\nc\nd");
        check("a\nb\n", "-a\n+c\n*** End of File", "c\nb\n");
        check("a\nb", "-b", "a\n");
    }

    #[test]
    fn white_space_at_line_ends_and_typography_are_forgiven_and_stay() {
        check("a  \nb\n", " a\n-b\n+c", "a  \nc\n");
        check("say \u{201c}a\u{201d}\nb\n", " say \"a\"\n-b\n+c", "say \u{201c}a\u{201d}\nc\n");
        check("a\nb\n", " a\n-b\n+c\n\n", "a\nc\n");
    }

    #[test]
    fn lines_that_are_indented_otherwise_are_refused() {
        let refused = changed("if a:\n    b()\n", " if a:\n-  b()\n+  c()");
        assert_eq!(refused, Err(NoPlace::Indentation { line: 1 }));
    }
}
