//! Lines that are nearly a given text: by edit distance, in which white space hardly counts.

use std::collections::BTreeMap;
use std::ops::Range;

use tokio_util::sync::CancellationToken;

/// Shorter texts are too easily like something else.
const MIN_CHARS: usize = 10;

/// Weights, in tenths of an edit.
const SPACE: u32 = 1;
const OTHER: u32 = 10;

/// Steps after which the search is given up.
const MAX_STEPS: usize = 400_000_000;

/// Interval, in characters of the text, of looking whether to go on.
const LOOK: usize = 4096;

/// A window of whole lines and its distance.
struct FuzzyWindow {
    range: Range<usize>,
    distance: u32,
}

/// Windows of whole lines whose distance to `old` is at most a tenth of its length, apart from
/// each other, in order. Nothing, if it would take too long; `None`, if cancelled.
pub(super) fn find(text: &str, old: &str, cancel: &CancellationToken) -> Option<Vec<Range<usize>>> {
    let old: Vec<_> = old.strip_suffix('\n').unwrap_or(old).chars().map(Weighed::new).collect();
    if old.len() < MIN_CHARS {
        return Some(Vec::new());
    }
    let mut column = Column::new(&old);
    let mut candidates = Vec::new();
    let mut steps = 0;
    column.begin_line(0);
    for (index, (at, c)) in text.char_indices().enumerate() {
        if index % LOOK == 0 && cancel.is_cancelled() {
            return None;
        }
        if c == '\n' {
            candidates.extend(column.ending(at));
        }
        steps += column.advance(c);
        if steps > MAX_STEPS {
            return Some(Vec::new());
        }
        if c == '\n' {
            column.begin_line(at + 1);
        }
    }
    if !text.ends_with('\n') {
        candidates.extend(column.ending(text.len()));
    }
    Some(best(candidates))
}

/// The nearest candidates that do not overlap nearer ones.
fn best(mut candidates: Vec<FuzzyWindow>) -> Vec<Range<usize>> {
    candidates.sort_by_key(|found| (found.distance, found.range.start));
    let mut chosen: BTreeMap<usize, usize> = BTreeMap::new();
    for FuzzyWindow { range, .. } in candidates {
        let before = chosen.range(..range.end).next_back();
        if before.is_none_or(|(_, end)| *end <= range.start) {
            chosen.insert(range.start, range.end);
        }
    }
    chosen.into_iter().map(|(start, end)| start..end).collect()
}

/// The distances of the beginnings of `old` to what ends where the search is and starts where
/// some line does (Sellers). Beginnings that are too far off are passed over (Ukkonen).
struct Column<'a> {
    old: &'a [Weighed],
    /// By length of the beginning: the distance, and where the line starts.
    cells: Vec<(u32, usize)>,
    /// The longest beginning that is near enough; all cells after it are too far.
    last: usize,
    /// Maximum distance. One more is too far, however far.
    limit: u32,
}

impl<'a> Column<'a> {
    fn new(old: &'a [Weighed]) -> Self {
        // A tenth of the length, in tenths.
        let limit = u32::try_from(old.len()).unwrap_or(u32::MAX / 2);
        Self { old, cells: vec![(limit + 1, 0); old.len() + 1], last: 0, limit }
    }

    /// A window may start here.
    fn begin_line(&mut self, at: usize) {
        self.cells[0] = (0, at);
        for length in 1..self.cells.len() {
            let distance = self.cells[length - 1].0 + self.old[length - 1].weight;
            if distance > self.limit || distance > self.cells[length].0 {
                break;
            }
            self.cells[length] = (distance, at);
            self.last = self.last.max(length);
        }
    }

    /// The window that ends here, if it is near enough.
    fn ending(&self, at: usize) -> Option<FuzzyWindow> {
        let (distance, start) = self.cells[self.old.len()];
        (distance <= self.limit).then_some(FuzzyWindow { range: start..at, distance })
    }

    /// Goes on by one character of the text; how many steps that took.
    fn advance(&mut self, c: char) -> usize {
        let c = Weighed::new(c);
        let far = self.limit + 1;
        let reach = self.last + 1;
        let mut diagonal = self.cells[0];
        self.cells[0].0 = far.min(diagonal.0 + c.weight);
        self.last = 0;
        let mut length = 1;
        // Beyond the reach, a beginning is near only because a shorter one is.
        while length < self.cells.len()
            && (length <= reach || self.cells[length - 1].0 <= self.limit)
        {
            let (wanted, before, shorter) =
                (self.old[length - 1], self.cells[length], self.cells[length - 1]);
            let mut cell = (diagonal.0 + wanted.substitution(c), diagonal.1);
            for (distance, start) in
                [(before.0 + c.weight, before.1), (shorter.0 + wanted.weight, shorter.1)]
            {
                if distance < cell.0 {
                    cell = (distance, start);
                }
            }
            if cell.0 <= self.limit {
                self.last = length;
            }
            self.cells[length] = (cell.0.min(far), cell.1);
            diagonal = before;
            length += 1;
        }
        length
    }
}

/// A character and what it costs to leave it out.
#[derive(Clone, Copy)]
struct Weighed {
    character: char,
    weight: u32,
}

impl Weighed {
    fn new(character: char) -> Self {
        Self { character, weight: if character.is_whitespace() { SPACE } else { OTHER } }
    }

    /// Returns the cost to put one for the other.
    fn substitution(self, other: Self) -> u32 {
        if self.character == other.character { 0 } else { self.weight.max(other.weight) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::test_runner::Config;

    use super::*;

    fn check(text: &str, old: &str, expected: &[&str]) {
        let found = find(text, old, &CancellationToken::new()).expect("not cancelled");
        let found: Vec<_> = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tenth_of_the_characters_may_differ() {
        check("x\nabcdefghij\ny\n", "abcdefghiX", &["abcdefghij"]);
        check("x\nabcdefghij\ny\n", "abcdefghXX", &[]);
        check("abcdefghij", "abcdefghijk\n", &["abcdefghij"]);
        check("abcdefghijk", "abcdefghij\n", &["abcdefghijk"]);
    }

    #[test]
    fn white_space_counts_a_tenth_of_that() {
        check("      abcd   efghij\n", "abcd efghij", &["      abcd   efghij"]);
        check("a\n\nabcde\n\nfghij\n", "abcde\nfghij\n", &["abcde\n\nfghij"]);
        check("ab cd efghij", "abcdefghij", &["ab cd efghij"]);
    }

    #[test]
    fn short_texts_are_not_guessed() {
        check("abcdefghX\n", "abcdefghi", &[]);
    }

    #[test]
    fn only_whole_lines_are_taken() {
        check("abcdefghijkl and more\n", "abcdefghijkX", &[]);
        check("before abcdefghijkl\n", "abcdefghijkX", &[]);
    }

    #[test]
    fn the_nearest_of_what_overlaps_is_taken() {
        check("abcdefghij\n\nabcdefghij", "abcdefghij\n", &["abcdefghij", "abcdefghij"]);
        check(
            "fn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n",
            "fn b() {\n    twos();\n}\n",
            &["fn b() {\n    two();\n}"],
        );
    }

    #[test]
    fn any_characters_count_as_characters() {
        check(
            "\u{E9}\u{E8}\u{4E2D}\u{6587}\u{1F600}abcde",
            "\u{E9}\u{E8}\u{4E2D}\u{6587}\u{1F600}abcdX",
            &["\u{E9}\u{E8}\u{4E2D}\u{6587}\u{1F600}abcde"],
        );
    }

    #[test]
    fn the_newline_at_the_end_is_no_line_to_take() {
        check(" \nb  ab\n\n", " \nb  ab\n \na", &[]);
    }

    #[test]
    fn a_cancel_ends_it() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(find("abcdefghij", "abcdefghiX", &cancel), None);
    }

    /// Returns the distance by its plain definition.
    fn distance(window: &str, old: &str) -> u32 {
        let old: Vec<_> = old.chars().map(Weighed::new).collect();
        let mut row: Vec<u32> = vec![0];
        row.extend(old.iter().scan(0, |sum, c| {
            *sum += c.weight;
            Some(*sum)
        }));
        for c in window.chars().map(Weighed::new) {
            let mut next = vec![row[0] + c.weight];
            for (at, wanted) in old.iter().enumerate() {
                let ways = [
                    row[at] + wanted.substitution(c),
                    row[at + 1] + c.weight,
                    next[at] + wanted.weight,
                ];
                next.push(*ways.iter().min().expect("three"));
            }
            row = next;
        }
        row[old.len()]
    }

    /// Returns the smallest distance of any window of whole lines.
    fn slowly(text: &str, old: &str) -> u32 {
        // After a newline at the end comes no further line.
        let last = (!text.ends_with('\n')).then_some(text.len());
        let ends: Vec<_> = text.match_indices('\n').map(|(at, _)| at).chain(last).collect();
        let starts: Vec<_> = [0].into_iter().chain(ends.iter().map(|at| at + 1)).collect();
        let windows = starts.iter().flat_map(|start| {
            ends.iter().filter(move |end| start <= *end).map(move |end| &text[*start..*end])
        });
        windows.map(|window| distance(window, old)).min().expect("a text has a line")
    }

    proptest::proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

        #[test]
        fn it_is_the_edit_distance(text in "[ab \n]{0,40}", old in "[ab ][ab \n]{9,14}[ab]") {
            let found = find(&text, &old, &CancellationToken::new()).expect("not cancelled");
            let is_near = |distance: u32| distance as usize <= old.len();
            proptest::prop_assert_eq!(!found.is_empty(), is_near(slowly(&text, &old)));
            for range in found {
                proptest::prop_assert!(is_near(distance(&text[range], &old)));
            }
        }
    }
}
