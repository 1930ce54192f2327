//! Changes between two texts: shortened for a model, complete for a person.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use similar::udiff::UnifiedHunkHeader;
use similar::{DiffOp, DiffTag, group_diff_ops};
use unicode_segmentation::UnicodeSegmentation as _;

use super::compare::{TextUnit, compare};
use super::limits::ToolLimits;
use super::text::normalise;
use tandem_content::shorten::first_chars;
use tandem_content::visible::visible;

/// Number of unchanged lines that are shown around each change.
const CONTEXT_LINES: usize = 5;

/// Maximum time to compare two texts exactly; after it, the result is an approximation.
const MAX_COMPARE_TIME: Duration = Duration::from_secs(2);

/// Returns a unified diff without file names, for a model: cut to the limits. Different line endings count as equal.
pub fn unified(old: &str, new: &str, limits: &ToolLimits) -> String {
    let (old, new) = (normalise(old), normalise(new));
    let line = |line: &str| cut(line.trim_end_matches('\n'), limits.line_chars);
    hunks(&old, &new, MAX_COMPARE_TIME, limits.output_chars / 2, line)
}

/// Returns a complete unified diff without file names, for people, with hidden characters written out. After about
/// `time`, the comparison is cut short, and the difference is larger than necessary.
pub(super) fn whole(time: Duration, old: &str, new: &str) -> String {
    let crlf = is_crlf(old, new);
    let line = |line: &str| {
        let line = line.strip_suffix('\n').unwrap_or(line);
        visible(line.strip_suffix('\r').filter(|_| crlf).unwrap_or(line)).into_owned()
    };
    hunks(old, new, time, usize::MAX, line)
}

/// Returns the hunks of a unified diff, whose lines are shown as `line` returns them. After about `max_bytes`, the rest
/// is left out.
fn hunks(
    old: &str,
    new: &str,
    time: Duration,
    max_bytes: usize,
    line: impl Fn(&str) -> String,
) -> String {
    let (old, new) = (split(old), split(new));
    let mut shown = String::new();
    for hunk in group_diff_ops(compare_lines(time, &old, &new), CONTEXT_LINES) {
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "{}", UnifiedHunkHeader::new(&hunk));
        for change in hunk.iter().flat_map(|op| op.iter_changes(&old[..], &new[..])) {
            if shown.len() > max_bytes {
                shown.push_str("[the rest of the diff is left out]\n");
                return shown;
            }
            let _ = writeln!(shown, "{}{}", change.tag(), line(change.value()));
            if !change.value().ends_with(['\r', '\n']) {
                shown.push_str("\\ No newline at end of file\n");
            }
        }
    }
    shown
}

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn compare_lines(time: Duration, old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    compare(TextUnit::Lines, old, new, Instant::now() + time)
}

/// Number of unchanged lines that people are shown around each change.
const SHOWN_CONTEXT_LINES: usize = 3;

/// Maximum time to look for changed words. Lines after that are shown without marked words.
const MAX_MARKING_TIME: Duration = Duration::from_millis(200);

/// A complete change of a text, line by line, with every character of its lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineDiff {
    /// Groups of changed lines that are near each other, with the lines around them.
    pub hunks: Vec<Vec<DiffLine>>,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
    /// `true` if every line of both texts ends in `\r\n`. Otherwise each `\r` stays in its line, so that a change of
    /// line endings is a change of lines.
    pub crlf: bool,
}

/// A line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// Text to which the line belongs.
    pub side: Side,
    /// Line number in the text, from 1. A line of both texts has its number in the new text.
    pub number: usize,
    /// Line without its ending, in pieces. `true` marks words that differ from those of the replaced line.
    pub pieces: Vec<(bool, String)>,
    /// `true` if the line is a last line without a newline.
    pub unended: bool,
}

/// Text to which a line of a change belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Both texts: the line stays.
    Both,
    /// Only the old text: the line is removed.
    Old,
    /// Only the new text: the line is added.
    New,
}

/// Compares two texts line by line. After about `time`, the comparison is cut short, and the difference is larger than
/// necessary.
pub(super) fn lines(time: Duration, old: &str, new: &str) -> LineDiff {
    let crlf = is_crlf(old, new);
    let (old, new) = (split(old), split(new));
    let ops = compare_lines(time, &old, &new);
    let deadline = Instant::now() + MAX_MARKING_TIME;
    let mut lines = LineDiff { crlf, ..LineDiff::default() };
    for group in group_diff_ops(ops, SHOWN_CONTEXT_LINES) {
        let mut hunk = Vec::new();
        for op in group {
            let (before, after) = (&old[op.old_range()], &new[op.new_range()]);
            let (first_old, first_new) = (op.old_range().start + 1, op.new_range().start + 1);
            if op.tag() == DiffTag::Equal {
                hunk.extend(diff_lines(Side::Both, first_new, plain(after), crlf));
                continue;
            }
            lines.removed += before.len();
            lines.added += after.len();
            let (removed, added) = marked(before, after, deadline);
            hunk.extend(diff_lines(Side::Old, first_old, removed, crlf));
            hunk.extend(diff_lines(Side::New, first_new, added, crlf));
        }
        lines.hunks.push(hunk);
    }
    lines
}

/// A line in pieces; `true` marks changed words.
type Pieces = Vec<(bool, String)>;

/// Returns lines of one side, of which the first has the number `first`.
fn diff_lines(
    side: Side,
    first: usize,
    lines: Vec<Pieces>,
    crlf: bool,
) -> impl Iterator<Item = DiffLine> {
    (first..).zip(lines).map(move |(number, line)| {
        let (pieces, unended) = without_ending(line, crlf);
        DiffLine { side, number, pieces, unended }
    })
}

/// Returns lines without marks.
fn plain(lines: &[&str]) -> Vec<Pieces> {
    lines.iter().map(|line| vec![(false, (*line).to_owned())]).collect()
}

/// Marks the words that differ between removed lines and the lines that replace them. If less than half stays the same,
/// no word is marked.
fn marked(old: &[&str], new: &[&str], deadline: Instant) -> (Vec<Pieces>, Vec<Pieces>) {
    let is_same_enough = |same, all| 4 * same >= all;
    if !is_same_enough(old.len().min(new.len()), old.len() + new.len()) {
        return (plain(old), plain(new));
    }
    let (old_words, new_words) = (words(old), words(new));
    let ops = compare(TextUnit::Words, &old_words, &new_words, deadline);
    let same = ops.iter().filter(|op| op.tag() == DiffTag::Equal).map(|op| op.old_range().len());
    if !is_same_enough(same.sum(), old_words.len() + new_words.len()) {
        return (plain(old), plain(new));
    }
    let (mut removed, mut added) = (vec![Pieces::new(); old.len()], vec![Pieces::new(); new.len()]);
    for op in ops {
        let mark = op.tag() != DiffTag::Equal;
        add_words(&mut removed, &old_words[op.old_range()], mark);
        add_words(&mut added, &new_words[op.new_range()], mark);
    }
    (removed, added)
}

/// A word of some lines, or what is between two words.
struct Word<'t> {
    text: &'t str,
    /// Index of the line.
    line: usize,
}

impl AsRef<str> for Word<'_> {
    fn as_ref(&self) -> &str {
        self.text
    }
}

fn words<'t>(lines: &[&'t str]) -> Vec<Word<'t>> {
    let words = |(line, text): (usize, &&'t str)| {
        text.split_word_bounds().map(move |text| Word { text, line })
    };
    lines.iter().enumerate().flat_map(words).collect()
}

/// Adds words to their lines, with a mark or without one. Line endings get no mark.
fn add_words(lines: &mut [Pieces], words: &[Word<'_>], mark: bool) {
    for Word { text, line } in words {
        let mark = mark && !text.ends_with(['\r', '\n']);
        match lines[*line].last_mut() {
            Some((last, so_far)) if *last == mark => so_far.push_str(text),
            _ => lines[*line].push((mark, (*text).to_owned())),
        }
    }
}

/// Returns whether both texts have lines and every line ends in `\r\n`.
fn is_crlf(old: &str, new: &str) -> bool {
    let all = |text: &str| text.matches('\n').count() == text.matches("\r\n").count();
    all(old) && all(new) && [old, new].iter().any(|text| text.contains('\n'))
}

/// Returns a line's pieces without its ending, and whether it had none.
fn without_ending(mut pieces: Pieces, crlf: bool) -> (Pieces, bool) {
    let ended = pop_last(&mut pieces, '\n');
    if ended && crlf {
        pop_last(&mut pieces, '\r');
    }
    pieces.retain(|(_, text)| !text.is_empty());
    // A line of which every word is marked replaces no other line, so its marks are removed.
    if pieces.iter().all(|(marked, text)| *marked || text.trim().is_empty()) {
        pieces = vec![(false, pieces.into_iter().map(|(_, text)| text).collect())];
    }
    (pieces, !ended)
}

/// Removes a line's last character if it is `c`. Returns whether it was.
fn pop_last(pieces: &mut [(bool, String)], c: char) -> bool {
    let last = pieces.iter_mut().rev().find(|(_, text)| !text.is_empty());
    last.is_some_and(|(_, text)| text.ends_with(c) && text.pop().is_some())
}

/// Returns a line cut to at most `chars` characters.
pub fn cut(line: &str, chars: usize) -> String {
    let first = first_chars(line, chars);
    if first.len() < line.len() { format!("{first}... [truncated]") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let limits = ToolLimits { line_chars: 8, output_chars: 200, ..ToolLimits::default() };
        assert_eq!(unified(old, new, &limits), expected);
    }

    #[test]
    fn five_lines_around_a_change_are_shown() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            "1\n2\n3\n4\n5\n6\nx\n8\n",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n 5\n 6\n-7\n+x\n 8\n",
        );
        check("", "a\n", "@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn a_missing_newline_at_the_end_is_said() {
        check("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
    }

    #[test]
    fn people_are_shown_all_of_a_change_and_every_character() {
        let check = |old: &str, new: &str, expected: &str| {
            assert_eq!(whole(Duration::from_mins(1), old, new), expected);
        };
        check("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        check("a\n", "a\r\n", "@@ -1 +1 @@\n-a\n+a␍\n");
        check("", "evil()\r# \u{202e}\n", "@@ -0,0 +1 @@\n+evil()␍# <U+202E>\n");
        let long = "x".repeat(100_000);
        check("", &long, &format!("@@ -0,0 +1 @@\n+{long}\n\\ No newline at end of file\n"));
    }

    #[test]
    fn line_endings_are_no_change() {
        check("a\r\nb\r\n", "a\nb\n", "");
    }

    /// Lines as `12-text`, with `[]` around changed words and `$` after an unended line.
    #[track_caller]
    fn check_lines(old: &str, new: &str, expected: &[&str]) {
        let diff = lines(MAX_COMPARE_TIME, old, new);
        let line = |line: &DiffLine| {
            let side = match line.side {
                Side::Both => ' ',
                Side::Old => '-',
                Side::New => '+',
            };
            let piece = |(marked, text): &(bool, String)| {
                if *marked { format!("[{text}]") } else { text.clone() }
            };
            let text: String = line.pieces.iter().map(piece).collect();
            format!("{}{side}{text}{}", line.number, if line.unended { "$" } else { "" })
        };
        let shown: Vec<_> = diff.hunks.iter().flatten().map(line).collect();
        assert_eq!(shown, expected);
        let count = |side| diff.hunks.iter().flatten().filter(|line| line.side == side).count();
        assert_eq!((diff.added, diff.removed), (count(Side::New), count(Side::Old)));
    }

    #[test]
    fn lines_have_their_numbers_and_changed_words_are_marked() {
        check_lines(
            "1\n2\n3\n4\nlet x = one();\n6\n",
            "1\n2\n3\n4\nlet x = two();\nmore\n6\n",
            &["2 2", "3 3", "4 4", "5-let x = [one]();", "5+let x = [two]();", "6+more", "7 6"],
        );
        check_lines("", "a", &["1+a$"]);
        check_lines("a\n", "a", &["1-a", "1+a$"]);
    }

    #[test]
    fn line_endings_are_left_out_only_where_all_are_the_same() {
        check_lines("a\r\nb\r\n", "a\r\nc\r\n", &["1 a", "2-b", "2+c"]);
        check_lines("a\nb\n", "a\r\nb\n", &["1-a", "1+a\r", "2 b"]);
        check_lines("a\r\n", "a\n", &["1-a\r", "1+a"]);
        check_lines("", "a\rb\r\n", &["1+a\rb"]);
        check_lines("", "a\r\r\n", &["1+a\r"]);
        check_lines("a\r", "b", &["1-a\r$", "1+b$"]);
    }

    #[test]
    fn for_people_nothing_is_cut() {
        let long = format!("{}\n", "x".repeat(100_000));
        let many = "line\n".repeat(50_000);
        let diff = lines(MAX_COMPARE_TIME, "", &format!("{long}{many}"));
        assert_eq!(diff.added, 50_001);
        assert_eq!(diff.hunks[0][0].pieces[0].1.len(), 100_000);
    }

    #[test]
    fn long_lines_and_long_diffs_are_cut() {
        check(
            "",
            "123456789",
            "@@ -0,0 +1 @@\n+12345678... [truncated]\n\\ No newline at end of file\n",
        );
        let many = "line\n".repeat(100);
        let limits = ToolLimits { output_chars: 100, ..ToolLimits::default() };
        let shown = unified("", &many, &limits);
        assert!(shown.ends_with("+line\n[the rest of the diff is left out]\n"), "{shown}");
        assert!(shown.len() < 120);
    }
}
