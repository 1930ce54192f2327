//! Line numbers before the lines of a text: as models are shown them, and as models copy them into their arguments.

use std::fmt::{self, Display};

/// Separators between the number and the line, as the tools of agents show them. A separator that begins with another
/// one comes before it.
const NUMBER_SEPARATORS: [&str; 6] = ["\t", "→", ": ", ":", "| ", "|"];

/// Maximum number of digits of a line number.
const MAX_DIGITS: usize = 9;

/// Returns a line with its number, as models are shown it.
pub(super) fn numbered(number: usize, line: impl Display) -> impl Display {
    fmt::from_fn(move |f| write!(f, "{number:>6}\t{line}"))
}

/// A text whose lines all began with line numbers, without these numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unnumbered {
    pub(super) text: String,
    separator: &'static str,
    first: u32,
    last: u32,
}

/// Returns each way to read a text as numbered lines: every line begins with a number, the same separator follows each
/// number, and the numbers rise.
pub(super) fn unnumbered(text: &str) -> Vec<Unnumbered> {
    let read = |separator| {
        let lines = split(text, separator)?;
        let rising = lines.is_sorted_by(|(number, _), (next, _)| number < next);
        let (first, last) = (lines.first()?.0, lines.last()?.0);
        rising.then(|| Unnumbered { text: join(&lines, text), separator, first, last })
    };
    NUMBER_SEPARATORS.into_iter().filter_map(read).collect()
}

/// Returns whether any line of a text may begin with a line number.
pub(super) fn some(text: &str) -> bool {
    NUMBER_SEPARATORS
        .iter()
        .any(|separator| text.lines().any(|line| number(line, separator).is_some()))
}

impl Unnumbered {
    /// Returns the replacement of this text without its line numbers. `None` if it cannot be decided whether the
    /// numbers at the beginning of its lines are line numbers.
    pub(super) fn replacement(&self, new: &str) -> Option<String> {
        let numbered = |text: &str| text.lines().any(|line| number(line, self.separator).is_some());
        if !numbered(new) {
            return Some(new.to_owned());
        }
        let lines = split(new, self.separator).filter(|_| !numbered(&self.text))?;
        let range = self.first..=self.last;
        // Models give inserted lines the number of the line before, so equal numbers are allowed.
        let rising = lines.is_sorted_by(|(number, _), (next, _)| number <= next);
        let (first, _) = lines.first()?;
        (rising && range.contains(first)).then(|| join(&lines, new))
    }
}

/// Returns the number and the rest of each line; `None` if a line has no number.
fn split<'t>(text: &'t str, separator: &str) -> Option<Vec<(u32, &'t str)>> {
    text.lines().map(|line| number(line, separator)).collect()
}

fn join(lines: &[(u32, &str)], whole: &str) -> String {
    let mut text = lines.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
    text.push_str(if whole.ends_with('\n') { "\n" } else { "" });
    text
}

/// Returns the number that a line begins with, and the rest of the line.
fn number<'t>(line: &'t str, separator: &str) -> Option<(u32, &'t str)> {
    let numbered = line.trim_start_matches(' ');
    let digits = numbered.find(|c: char| !c.is_ascii_digit()).unwrap_or(numbered.len());
    let (digits, rest) = numbered.split_at(digits);
    let number = digits.parse().ok().filter(|_| digits.len() <= MAX_DIGITS)?;
    // An empty line may have lost the white space of the separator at its end.
    let empty = || (rest == separator.trim_end()).then_some("");
    rest.strip_prefix(separator).or_else(empty).map(|line| (number, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let texts: Vec<_> = unnumbered(text).into_iter().map(|reading| reading.text).collect();
        assert_eq!(texts, expected, "{text}");
    }

    #[test]
    fn the_forms_of_other_agents_are_known() {
        check("12\ta\n13\t\tb\n", &["a\n\tb\n"]);
        check("    12→a\n    13→  b", &["a\n  b"]);
        check("  12: a\n 113:   b\n", &["a\n  b\n", " a\n   b\n"]);
        check("00012| a\n00013|\n00014| b", &["a\n\nb", " a\n\n b"]);
        check("12|a\n13|b\n", &["a\nb\n"]);
        check("12:a\n", &["a\n"]);
        check("1\ta\n2\n3\tb\n", &["a\n\nb\n"]);
    }

    #[test]
    fn lines_without_a_number_or_with_one_that_does_not_rise_have_none() {
        check("12\ta\nb\n", &[]);
        check("12\ta\n12\tb\n", &[]);
        check("12\ta\n11\tb\n", &[]);
        check("12\ta\n13: b\n", &[]);
        check("12 a\n13 b\n", &[]);
        check("1234567890\ta\n", &[]);
        check("x12\ta\n", &[]);
        check("", &[]);
    }

    fn check_new(old: &str, new: &str, expected: Option<&str>) {
        let old = unnumbered(old).swap_remove(0);
        assert_eq!(old.replacement(new).as_deref(), expected, "{new}");
    }

    #[test]
    fn a_replacement_loses_numbers_that_follow_those_of_the_text() {
        check_new("12\ta\n13\tb\n", "12\tc\n13\td\n", Some("c\nd\n"));
        check_new("12\ta\n13\tb\n", "12\tc\n12\td\n13\te", Some("c\nd\ne"));
        check_new("12\ta\n13\tb\n", "c\nd\n", Some("c\nd\n"));
        check_new("12\ta\n13\tb\n", "", Some(""));
    }

    #[test]
    fn a_replacement_that_may_begin_with_numbers_of_its_own_is_doubtful() {
        check_new("12\ta\n13\tb\n", "12\tc\nd\n", None);
        check_new("12\ta\n13\tb\n", "1\tc\n2\td\n", None);
        check_new("12\ta\n13\tb\n", "13\tc\n12\td\n", None);
        check_new("12\t12\ta\n", "12\tb\n", None);
    }
}
