//! The search for a text to replace: exact at first, then ever more lenient.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::merge::{self, IndentMismatch};
use super::sequence::{lines, occurrences, words};
use tandem_host::text::TextEdit;

/// Maximum number of occurrences that are replaced at once.
const MAX_OCCURRENCES: usize = 100_000;

/// Maximum length of a text for the lenient strategies, in bytes. A longer text is only found exactly: it hardly
/// differs from the file in white space alone.
const MAX_LENIENT: usize = 1 << 20;

/// Maximum number of line numbers in an error.
const SHOWN_LINES: usize = 10;

/// A text to look for, and its replacement. Line ends are `\n`.
#[derive(Clone, Copy)]
pub(super) struct EditRequest<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) count: ExpectedCount,
    /// Maximum size of the resulting text, in bytes.
    pub(super) max_bytes: usize,
}

/// Expected number of occurrences of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedCount {
    Exactly(usize),
    Any,
}

/// Way in which a text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// The text is the same.
    Exact,
    /// The lines are the same except for white space at their ends.
    LineEnds,
    /// The words are the same; the white space between them may differ.
    Tokens,
}

/// Places in which a text was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextMatch<'a> {
    pub(super) strategy: Strategy,
    /// Edits, in order and without overlap; at least one.
    pub(super) edits: Vec<TextEdit<'a>>,
}

/// Reason for which no text is replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMatch {
    Nothing,
    /// The text is not found as often as it should be.
    Count {
        /// Number of occurrences, in words.
        found: String,
        /// Numbers of the lines in which the first occurrences begin.
        lines: Vec<usize>,
    },
    /// The text is found, but with another indentation.
    Indentation {
        /// Number of the first line in the file that is indented otherwise.
        line: usize,
        mismatch: IndentMismatch,
    },
    /// The result would be too large.
    TooLarge,
}

/// Looks for `wanted.old`. The first strategy that finds an occurrence decides.
pub(super) fn find<'a>(text: &str, wanted: &EditRequest<'a>) -> Result<TextMatch<'a>, NoMatch> {
    if let Some(ranges) = exact(text, wanted)? {
        let growth = wanted.new.len().saturating_sub(wanted.old.len());
        if text.len().saturating_add(growth.saturating_mul(ranges.len())) > wanted.max_bytes {
            return Err(NoMatch::TooLarge);
        }
        let edit = |range| TextEdit { range, new: Cow::Borrowed(wanted.new) };
        return Ok(TextMatch {
            strategy: Strategy::Exact,
            edits: ranges.into_iter().map(edit).collect(),
        });
    }
    if wanted.old.len() > MAX_LENIENT || wanted.old.trim().is_empty() {
        return Err(NoMatch::Nothing);
    }
    if let Some(ranges) = line_ends(text, wanted)? {
        return merged(Strategy::LineEnds, text, ranges, wanted);
    }
    match tokens(text, wanted)? {
        Some(ranges) => merged(Strategy::Tokens, text, ranges, wanted),
        None => Err(NoMatch::Nothing),
    }
}

fn exact(text: &str, wanted: &EditRequest<'_>) -> Result<Option<Vec<Range<usize>>>, NoMatch> {
    let finder = memmem::Finder::new(wanted.old);
    let length = wanted.old.len();
    let mut ranges: Vec<_> = finder
        .find_iter(text.as_bytes())
        .take(MAX_OCCURRENCES + 1)
        .map(|at| at..at + length)
        .collect();
    // `find_iter` skips overlapping occurrences. Two of them are two places as well, and the edit is ambiguous.
    if let [only] = ranges.as_slice()
        && wanted.count == ExpectedCount::Exactly(1)
        && let Some(at) = finder.find(&text.as_bytes()[only.start + 1..])
    {
        let at = only.start + 1 + at;
        ranges.push(at..at + length);
    }
    check_count(text, ranges, wanted.count)
}

fn line_ends(text: &str, wanted: &EditRequest<'_>) -> Result<Option<Vec<Range<usize>>>, NoMatch> {
    let key = |(range, line): (Range<usize>, _)| (range, str::trim_end(line));
    let pattern: Vec<_> = merge::lines(wanted.old).map(str::trim_end).collect();
    let ranges = occurrences(lines(text).map(key), &pattern, MAX_OCCURRENCES);
    check_count(text, ranges, wanted.count)
}

fn tokens(text: &str, wanted: &EditRequest<'_>) -> Result<Option<Vec<Range<usize>>>, NoMatch> {
    let pattern: Vec<_> = words(wanted.old).map(|(_, word)| word).collect();
    check_count(text, occurrences(words(text), &pattern, MAX_OCCURRENCES), wanted.count)
}

/// Returns the ranges to replace, if their number is the expected one; `None` if there are no ranges.
fn check_count(
    text: &str,
    ranges: Vec<Range<usize>>,
    expected: ExpectedCount,
) -> Result<Option<Vec<Range<usize>>>, NoMatch> {
    if ranges.is_empty() {
        return Ok(None);
    }
    let ranges = if expected == ExpectedCount::Exactly(1) { ranges } else { apart(ranges) };
    let as_expected = match expected {
        ExpectedCount::Exactly(count) => ranges.len() == count,
        ExpectedCount::Any => ranges.len() <= MAX_OCCURRENCES,
    };
    match ranges.len() {
        _ if as_expected => Ok(Some(ranges)),
        MAX_OCCURRENCES.. => {
            Err(count(&format!("more than {MAX_OCCURRENCES} occurrences"), text, &ranges))
        }
        1 => Err(count("1 occurrence", text, &ranges)),
        many => Err(count(&format!("{many} occurrences"), text, &ranges)),
    }
}

fn count(found: &str, text: &str, ranges: &[Range<usize>]) -> NoMatch {
    NoMatch::Count {
        found: found.to_owned(),
        lines: ranges.iter().take(SHOWN_LINES).map(|range| line_of(text, range.start)).collect(),
    }
}

/// Returns the number of the line, counted from 1, that contains a byte.
fn line_of(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

/// Returns the ranges without those that overlap the range before.
fn apart(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut end = 0;
    let mut is_apart = |range: &Range<usize>| {
        let apart = range.start >= end;
        if apart {
            end = range.end;
        }
        apart
    };
    ranges.into_iter().filter(|range| is_apart(range)).collect()
}

/// Returns the edits of ranges whose text differs from `wanted.old` in white space.
fn merged<'a>(
    strategy: Strategy,
    text: &str,
    ranges: Vec<Range<usize>>,
    wanted: &EditRequest<'_>,
) -> Result<TextMatch<'a>, NoMatch> {
    let mut size = text.len();
    let mut edits = Vec::with_capacity(ranges.len());
    for range in ranges {
        let first = range.start;
        let edit = merge::edit(text, range, wanted.old, wanted.new).map_err(|mismatch| {
            NoMatch::Indentation { line: line_of(text, first) + mismatch.line, mismatch }
        })?;
        size = size.saturating_add(edit.new.len()).saturating_sub(edit.range.len());
        if size > wanted.max_bytes {
            return Err(NoMatch::TooLarge);
        }
        edits.push(edit);
    }
    Ok(TextMatch { strategy, edits })
}

#[cfg(test)]
mod tests {
    use proptest::test_runner::Config;

    use super::*;

    fn find_in(
        text: &str,
        old: &str,
        new: &str,
        count: ExpectedCount,
    ) -> Result<(Strategy, String), NoMatch> {
        let wanted = EditRequest { old, new, count, max_bytes: 1000 };
        let found = find(text, &wanted)?;
        Ok((found.strategy, tandem_host::text::splice(text, &found.edits)))
    }

    fn check(text: &str, old: &str, new: &str, strategy: Strategy, expected: &str) {
        let found = find_in(text, old, new, ExpectedCount::Exactly(1));
        assert_eq!(found, Ok((strategy, expected.to_owned())));
    }

    fn check_miss(text: &str, old: &str, count: ExpectedCount, found: &str, lines: &[usize]) {
        let miss = NoMatch::Count { found: found.to_owned(), lines: lines.to_owned() };
        assert_eq!(find_in(text, old, "new", count), Err(miss));
    }

    #[test]
    fn an_exact_occurrence_is_replaced_literally() {
        check("a b c", "b", "$1 \\1 ${b}", Strategy::Exact, "a $1 \\1 ${b} c");
        check("  a\n a\n", "  a", "b", Strategy::Exact, "b\n a\n");
    }

    #[test]
    fn lines_are_found_whatever_white_space_they_end_with() {
        check("a  \nb\n", "a\nb\n", "c\n", Strategy::LineEnds, "c\n");
        check("\ta  \n\tb\n", "\ta\n\tb\n", "\ta\n\tc\n", Strategy::LineEnds, "\ta  \n\tc\n");
    }

    #[test]
    fn lines_that_are_indented_otherwise_are_not_replaced() {
        let refused = |text, old, line| {
            let found = find_in(text, old, "new\n", ExpectedCount::Exactly(1));
            assert!(
                matches!(&found, Err(NoMatch::Indentation { line: at, .. }) if *at == line),
                "{found:?}"
            );
        };
        refused("x\n\tfoo()\n\tbar()\n", "foo()\nbar()\n", 3);
        refused("x\n\tfoo()\n\tbar()\n", "  foo()\n  bar()\n", 2);
        refused("  a:\n    b\n", "a:\n  b\n", 2);
    }

    #[test]
    fn words_are_found_whatever_white_space_is_between() {
        check("if( a==b ){\n", "if (a == b) {", "if (a) {", Strategy::Tokens, "if (a) {\n");
        check("v = f(a,\n  b);\n", "f(a, b)", "g()", Strategy::Tokens, "v = g();\n");
    }

    #[test]
    fn no_part_of_a_word_is_taken_for_the_word() {
        assert_eq!(find_in("max = 1", "x  = 1", "", ExpectedCount::Any), Err(NoMatch::Nothing));
        assert_eq!(find_in("returned", "return ed", "", ExpectedCount::Any), Err(NoMatch::Nothing));
    }

    #[test]
    fn other_words_are_not_replaced() {
        let text = "fn main() {\n    println!(\"Hello, world\");\n}\n";
        let old = "    println!(\"Hello, World\");\n";
        assert_eq!(find_in(text, old, "", ExpectedCount::Any), Err(NoMatch::Nothing));
    }

    #[test]
    fn several_places_are_an_error_that_says_where() {
        check_miss("a\nb\na\n", "a", ExpectedCount::Exactly(1), "2 occurrences", &[1, 3]);
        check_miss("a\nb\na\n", "a", ExpectedCount::Exactly(3), "2 occurrences", &[1, 3]);
        check_miss(" a \nb\n a \n", " a\n", ExpectedCount::Exactly(1), "2 occurrences", &[1, 3]);
        check_miss("a b", "a", ExpectedCount::Exactly(2), "1 occurrence", &[1]);
        check_miss("f( x )\nf( x )\n", "f(x)", ExpectedCount::Exactly(1), "2 occurrences", &[1, 2]);
    }

    #[test]
    fn places_that_overlap_are_several() {
        check_miss("}\n}\n}\n", "}\n}\n", ExpectedCount::Exactly(1), "2 occurrences", &[1, 2]);
        check_miss("} \n} \n} \n", "}\n}\n", ExpectedCount::Exactly(1), "2 occurrences", &[1, 2]);
        let all = find_in("aaa", "aa", "b", ExpectedCount::Any);
        assert_eq!(all, Ok((Strategy::Exact, "ba".to_owned())));
    }

    #[test]
    fn all_occurrences_are_replaced_on_demand() {
        let all =
            |text, old, new| find_in(text, old, new, ExpectedCount::Any).map(|(_, text)| text);
        assert_eq!(all("a-a-a", "a", "bb"), Ok("bb-bb-bb".to_owned()));
        assert_eq!(all(" a \n a\t\n", " a\n", " b\n"), Ok(" b\n b\n".to_owned()));
        assert_eq!(
            find_in("a a", "a", "b", ExpectedCount::Exactly(2)).map(|(_, text)| text),
            Ok("b b".to_owned())
        );
    }

    #[test]
    fn the_result_has_a_limit() {
        let new = "n".repeat(600);
        assert_eq!(find_in("a a", "a", &new, ExpectedCount::Any), Err(NoMatch::TooLarge));
        assert_eq!(find_in("( a )(\ta )", "(a)", &new, ExpectedCount::Any), Err(NoMatch::TooLarge));
    }

    #[test]
    fn white_space_alone_is_only_found_exactly() {
        check("a\t\tb", "\t\t", " ", Strategy::Exact, "a b");
        assert_eq!(find_in("a\n\nb", " \n", "", ExpectedCount::Any), Err(NoMatch::Nothing));
    }

    proptest::proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

        /// The edits of any strategy are in order, do not overlap, and begin and end at characters; otherwise the test
        /// panics.
        #[test]
        fn what_is_found_can_be_replaced(
            text in "([ \t]{0,3}[a-c(é]{0,4}[ \t]{0,2}\n){0,6}",
            from in 0..20_usize,
            length in 1..20_usize,
            gap in "[ \n\t]{0,2}",
            new in "[ \tab\n]{0,12}",
        ) {
            let old: String = text.chars().skip(from).take(length).collect();
            for old in [old.replace(' ', &gap), old.replace(['\t', '('], &gap), old + &gap] {
                if old.is_empty() {
                    continue;
                }
                for count in [ExpectedCount::Exactly(1), ExpectedCount::Any] {
                    drop(find_in(&text, &old, &new, count));
                }
            }
        }
    }
}
