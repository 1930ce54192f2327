//! Line endings. Changes are made on text with `\n` alone, and leave the endings of the file's other lines unchanged.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::DiffOp;

use crate::compare::{TextUnit, compare};

/// Maximum time to compare the lines of a file with mixed endings.
const MAX_COMPARE_TIME: Duration = Duration::from_secs(1);

/// A replacement of a part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit<'a> {
    /// Range in the normalised text.
    pub range: Range<usize>,
    /// Replacement, with `\n` endings.
    pub new: Cow<'a, str>,
}

/// Returns the text with `\n` alone as line ending.
pub fn normalise(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// Returns the text `new` with the line endings of `old`. Lines that stay keep their own endings.
pub fn like(old: &str, new: &str) -> String {
    match Endings::from_text(old) {
        Endings { crlf: 0, lf: 0 } => new.to_owned(),
        endings => endings.apply(old, &normalise(new)),
    }
}

/// Applies edits that were made on the normalised text, sorted and without overlaps. The rest of the text stays, byte
/// for byte.
pub fn splice(old: &str, edits: &[TextEdit<'_>]) -> String {
    let endings = Endings::from_text(old);
    // Positions, in the normalised text, of the line ends that have lost their `\r`.
    let lost: Vec<usize> =
        old.match_indices("\r\n").enumerate().map(|(before, (at, _))| at - before).collect();
    let place = |at: usize| at + lost.partition_point(|lost| *lost < at);
    let mut spliced = String::with_capacity(old.len());
    let mut done = 0;
    for TextEdit { range, new } in edits {
        let (start, end) = (place(range.start), place(range.end));
        spliced.push_str(&old[done..start]);
        spliced.push_str(&endings.apply(&old[start..end], new));
        done = end;
    }
    spliced.push_str(&old[done..]);
    spliced
}

/// Numbers of lines of a text, by the kind of their endings.
#[derive(Debug, Clone, Copy)]
struct Endings {
    crlf: usize,
    lf: usize,
}

impl Endings {
    fn from_text(text: &str) -> Self {
        let crlf = text.matches("\r\n").count();
        Self { crlf, lf: memchr::memchr_iter(b'\n', text.as_bytes()).count() - crlf }
    }

    fn dominant(self) -> &'static str {
        if self.crlf > self.lf { "\r\n" } else { "\n" }
    }

    /// Returns `new`, which is normalised, with endings for the place of `old`, a part of the text that has these
    /// endings.
    fn apply(self, old: &str, new: &str) -> String {
        if self.crlf == 0 {
            return new.to_owned();
        }
        if self.lf == 0 {
            return new.replace('\n', "\r\n");
        }
        let (old, new) = (lines(old), lines(new));
        let deadline = Instant::now() + MAX_COMPARE_TIME;
        let mut applied = String::new();
        for op in compare(TextUnit::Lines, &contents(&old), &contents(&new), deadline) {
            self.apply_op(op, &old, &new, &mut applied);
        }
        applied
    }

    fn apply_op(
        self,
        op: DiffOp,
        old: &[LineAndEnding<'_>],
        new: &[LineAndEnding<'_>],
        applied: &mut String,
    ) {
        // A changed line takes the ending of the line that it replaces.
        let mut known = old[op.old_range()].iter();
        for (line, ending) in &new[op.new_range()] {
            let known = known.next().map_or("", |(_, ending)| *ending);
            applied.push_str(line);
            applied.push_str(match (*ending, known) {
                ("", _) => "",
                (_, "") => self.dominant(),
                (_, known) => known,
            });
        }
    }
}

/// A line and its ending.
type LineAndEnding<'a> = (&'a str, &'static str);

fn lines(text: &str) -> Vec<LineAndEnding<'_>> {
    let split = |line| match str::strip_suffix(line, "\r\n") {
        Some(line) => (line, "\r\n"),
        None => str::strip_suffix(line, "\n").map_or((line, ""), |line| (line, "\n")),
    };
    text.split_inclusive('\n').map(split).collect()
}

/// Returns the lines without their endings.
fn contents<'a>(lines: &[LineAndEnding<'a>]) -> Vec<&'a str> {
    lines.iter().map(|(line, _)| *line).collect()
}

#[cfg(test)]
mod tests {
    use proptest::test_runner::Config;

    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(like(old, new), expected);
    }

    #[test]
    fn a_whole_text_takes_the_endings_of_the_file() {
        check("a\r\nb\r\n", "a\nc\nb", "a\r\nc\r\nb");
        check("a\nb\n", "a\r\nc\r\n", "a\nc\n");
        check("a\r\nb\r\n", "a\r\nb\n", "a\r\nb\r\n");
    }

    #[test]
    fn a_text_without_endings_says_nothing_of_them() {
        check("", "a\r\nb\n", "a\r\nb\n");
        check("a", "a\r\nb\n", "a\r\nb\n");
    }

    #[test]
    fn in_a_mixed_file_lines_that_stay_keep_their_ending() {
        check("a\r\nb\nc\r\n", "a\nb\nc\n", "a\r\nb\nc\r\n");
        check("a\r\nb\nc\r\n", "a\nnew\nb\nc\n", "a\r\nnew\r\nb\nc\r\n");
        check("a\r\nb\nc\r\n", "a\nB\nc\n", "a\r\nB\nc\r\n");
        check("a\nb\nc\r\n", "a\nb\nc\nd\n", "a\nb\nc\r\nd\n");
        check("a\n\r\nb\r\n\n", "a\n\nb\n", "a\n\r\nb\r\n");
    }

    #[test]
    fn a_carriage_return_inside_a_line_is_no_ending() {
        check("a\rb\r\n", "a\rb\nc\n", "a\rb\r\nc\r\n");
        check("a\r\r\n", "a\r\r\nb\n", "a\r\r\nb\r\n");
    }

    #[test]
    fn edits_touch_nothing_outside_their_range() {
        let check = |old: &str, edits: &[(Range<usize>, &str)], expected: &str| {
            let edits: Vec<_> = edits
                .iter()
                .map(|(range, new)| TextEdit { range: range.clone(), new: (*new).into() })
                .collect();
            assert_eq!(splice(old, &edits), expected);
        };
        check("a\r\nb\nc\r\n", &[(2..3, "x\ny")], "a\r\nx\r\ny\nc\r\n");
        check("a\r\nb\nc\r\n", &[(0..4, "a\nB\n")], "a\r\nB\nc\r\n");
        check("a\r\nb\r\nc", &[(1..2, ""), (3..5, "\n!")], "ab\r\n!");
        check("a\r\nb", &[(1..1, "+"), (2..2, "-")], "a+\r\n-b");
        check("a\r\r\nb\n", &[(1..2, "")], "a\r\nb\n");
    }

    proptest::proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

        #[test]
        fn a_text_without_its_endings_gets_them_back(
            old in "(([ab\r]{0,3}[ab])?(\r\n|\n)){0,8}[ab]?",
            new in "[ab\n]{0,20}",
        ) {
            proptest::prop_assert_eq!(like(&old, &old), old.as_str());
            proptest::prop_assert_eq!(like(&old, &normalise(&old)), old.as_str());
            let made = like(&old, &new);
            proptest::prop_assert_eq!(normalise(&made), new);
        }
    }
}
