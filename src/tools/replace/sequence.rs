//! A text as a sequence of lines or of words, and the search for a sequence in it.

use std::collections::VecDeque;
use std::ops::Range;

/// Returns the ranges of tokens that equal the pattern, including overlapping ranges. Makes one pass, whatever the
/// pattern (Knuth, Morris and Pratt). Ends when more than `most` ranges are found.
pub(super) fn occurrences<'t>(
    tokens: impl Iterator<Item = (Range<usize>, &'t str)>,
    pattern: &[&str],
    most: usize,
) -> Vec<Range<usize>> {
    let shorter = borders(pattern);
    let mut found = Vec::new();
    let mut starts = VecDeque::with_capacity(pattern.len() + 1);
    let mut matched = 0;
    for (range, token) in tokens {
        while matched > 0 && pattern[matched] != token {
            matched = shorter[matched - 1];
        }
        matched += usize::from(pattern[matched] == token);
        starts.push_back(range.start);
        if starts.len() > pattern.len() {
            starts.pop_front();
        }
        if matched == pattern.len() {
            found.push(starts[0]..range.end);
            matched = shorter[matched - 1];
        }
        if found.len() > most {
            break;
        }
    }
    found
}

/// Returns, for each prefix of the pattern, the length of its longest proper prefix that is also its suffix.
fn borders(pattern: &[&str]) -> Vec<usize> {
    let mut borders = vec![0; pattern.len()];
    let mut length = 0;
    for at in 1..pattern.len() {
        while length > 0 && pattern[at] != pattern[length] {
            length = borders[length - 1];
        }
        length += usize::from(pattern[at] == pattern[length]);
        borders[at] = length;
    }
    borders
}

/// Returns the lines of a text, without their ends, and their ranges.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |whole| {
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        let range = start..start + line.len();
        start += whole.len();
        (range, line)
    })
}

/// Returns the words of a text and their ranges. A character that is neither white space nor part of a word counts as a
/// word.
pub(super) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(|c: char| !c.is_whitespace())?;
        let rest = &text[start..];
        let length = match rest.find(|c| !in_word(c)) {
            Some(0) => rest.chars().next()?.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        at = start + length;
        Some((start..at, &rest[..length]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pattern: &str, expected: &[&str]) {
        let pattern: Vec<_> = words(pattern).map(|(_, word)| word).collect();
        let found = occurrences(words(text), &pattern, 10);
        assert_eq!(found.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn words_and_signs_count_and_white_space_does_not() {
        check("f( a,b )", "f(a, b)", &["f( a,b )"]);
        check("a->b a - > b", "a->b", &["a->b", "a - > b"]);
        check("ab a b", "a b", &["a b"]);
        check("été_1\u{3000}été", "été", &["été"]);
    }

    #[test]
    fn places_may_overlap() {
        check("a a a", "a a", &["a a", "a a"]);
        check("a b a b a c", "a b a c", &["a b a c"]);
        check("a a b a a a b", "a a a b", &["a a a b"]);
    }

    #[test]
    fn too_many_are_not_counted_on() {
        check(&"a ".repeat(100), "a", &["a"; 11]);
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer() {
        let text = "a\n".repeat(200_000);
        let almost = [vec!["a"; 100_000], vec!["b"]].concat();
        assert_eq!(occurrences(lines(&text), &almost[..100_000], 200_000).len(), 100_001);
        assert!(occurrences(lines(&text), &almost, 200_000).is_empty());
    }
}
