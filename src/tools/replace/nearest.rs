//! The part of a file that is most like a text which the file does not contain; for the error message.

use std::collections::HashMap;
use std::fmt::Write as _;

use memchr::memmem;

use super::sequence::{lines, words};
use crate::line_numbers::numbered;
use tandem_host::diff::cut;

/// Maximum number of lines that are shown.
const MAX_SHOWN_LINES: usize = 20;

/// Number of lines that are shown before and after the nearest lines, if there is room.
const CONTEXT_LINES: usize = 2;

/// Maximum number of words of the wanted text that are compared.
const MAX_COMPARED_WORDS: usize = 100_000;

/// Maximum length of a line that is shown, in characters.
const MAX_LINE_CHARS: usize = 200;

/// Returns advice about a text that was not found.
pub(in crate::replace) fn describe(text: &str, old: &str, new: &str) -> String {
    let mut said = String::new();
    if let Some(at) = memmem::find(text.as_bytes(), new.trim().as_bytes())
        && !new.trim().is_empty()
    {
        let line = memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1;
        let _ = write!(said, "But new_string is there, at line {line}: was it made already? ");
    }
    let Some(near) = lines_like(text, old) else {
        return said + "Nothing in the file is like it. Read the file again with read_file.";
    };
    said + &near + "Copy old_string from the file exactly, white space included."
}

/// Returns the lines that are most like a text, with their numbers, below a heading; `None` if there are none.
pub(crate) fn lines_like(text: &str, old: &str) -> Option<String> {
    let (first, shown) = nearest(text, old)?;
    let last = first + shown.len().saturating_sub(1);
    let mut said = format!("Most like it are lines {first} to {last}:\n");
    for (number, line) in (first..).zip(shown) {
        let _ = writeln!(said, "{}", numbered(number, cut(line, MAX_LINE_CHARS)));
    }
    Some(said)
}

/// Returns the lines that share the rarest words with `old`, and the number of the first of these lines.
fn nearest<'t>(text: &'t str, old: &str) -> Option<(usize, Vec<&'t str>)> {
    // The number of times that each word of the wanted text occurs in the file.
    let mut counts: HashMap<&str, u32> =
        words(old).take(MAX_COMPARED_WORDS).map(|(_, word)| (word, 0)).collect();
    for (_, word) in words(text) {
        if let Some(count) = counts.get_mut(word) {
            *count += 1;
        }
    }
    let weight = |word: &str| counts.get(word).map_or(0.0, |count| 1.0 / f64::from(*count));
    let weigh = |line: &str| words(line).map(|(_, word)| weight(word)).sum::<f64>();
    let weights: Vec<f64> = lines(text).map(|(_, line)| weigh(line)).collect();
    let size = lines(old).count().clamp(1, MAX_SHOWN_LINES);
    let mut sum: f64 = weights.iter().take(size).sum();
    let (mut best, mut best_sum) = (0, sum);
    for start in 1..=weights.len().saturating_sub(size) {
        sum += weights[start + size - 1] - weights[start - 1];
        // The margin keeps rounding errors from preferring a later place that is no better.
        if sum > best_sum + 1e-9 {
            (best, best_sum) = (start, sum);
        }
    }
    if best_sum < 1e-6 {
        return None;
    }
    let around = CONTEXT_LINES.min((MAX_SHOWN_LINES - size) / 2);
    let first = best.saturating_sub(around);
    let count = best - first + size + around;
    let shown = lines(text).skip(first).take(count).map(|(_, line)| line).collect();
    Some((first + 1, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, old: &str, expected: Option<(usize, usize)>) {
        let found = nearest(text, old).map(|(first, lines)| (first, first + lines.len() - 1));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_lines_with_the_rarest_words_are_shown_with_two_around() {
        let text = "one = 1\ntwo = 2\nthree = 3\nrare = 4\nfive = 5\nsix = 6\nseven = 7\n";
        check(text, "rare = 40", Some((2, 6)));
        check(text, "one = 1\nzwei = 2", Some((1, 4)));
    }

    #[test]
    fn at_most_twenty_lines_are_shown() {
        let lines = |numbers: std::ops::Range<u32>, end: &str| -> String {
            numbers
                .flat_map(|line| ["line ".to_owned(), line.to_string(), end.to_owned()])
                .collect()
        };
        let (text, old) = (lines(0..100, "\n"), lines(40..90, "!\n"));
        check(&text, &old, Some((41, 60)));
    }

    #[test]
    fn nothing_is_shown_if_no_word_is_there() {
        check("a b c\n", "x y z", None);
        check("", "x", None);
    }
}
