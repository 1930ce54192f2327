//! Shortening of text: for a model whose input is limited, and for a line on a screen.

use std::borrow::Cow;

use super::visible::visible_line;

/// Returns at most `max_chars` characters of a text, and a line that says how many characters are left out. A fifth of
/// the characters comes from the beginning of the text, the rest from its end. Lines are not cut if at least half of
/// such a part remains without the cut line.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    shorten_with(text, max_chars, |missing| format!("{missing} characters left out"))
}

/// Shortens a text as [`shorten`] does. `left_out` returns the words in the line for the number of missing characters.
pub fn shorten_with(
    text: &str,
    max_chars: usize,
    left_out: impl FnOnce(usize) -> String,
) -> Cow<'_, str> {
    // A character has at least one byte, so a text this short need not be counted.
    if text.len() <= max_chars {
        return Cow::Borrowed(text);
    }
    let chars = text.chars().count();
    if chars <= max_chars {
        return Cow::Borrowed(text);
    }
    let first = max_chars / 5;
    let head = whole_lines_at_start(&text[..char_offset(text, first)]);
    let tail = whole_lines_at_end(text, nth_from_end(text, max_chars - first));
    let missing = chars - head.chars().count() - tail.chars().count();
    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    Cow::Owned(format!("{head}{line_end}[... {} ...]\n{tail}", left_out(missing)))
}

/// Returns the beginning of any text as one line of about `max_chars` characters at most. Line ends and tabs become
/// spaces, and other hidden characters are written out. A path must go through [`visible_line`] first, since a line end
/// in a path is part of a name.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let first = first_chars(text, max_chars);
    let line = first.replace("\r\n", " ").replace(['\n', '\t'], " ");
    let mut line = visible_line(&line).into_owned();
    if first.len() < text.len() {
        line.push('…');
    }
    line
}

/// Returns at most `max_chars` characters of a text's beginning.
pub fn first_chars(text: &str, max_chars: usize) -> &str {
    // A text of at most `max_chars` bytes cannot have more characters, and need not be scanned.
    if text.len() <= max_chars { text } else { &text[..char_offset(text, max_chars)] }
}

/// Returns at most `max_chars` characters of a text's beginning, and an ellipsis if that is not all.
pub fn ellipsis(text: &str, max_chars: usize) -> Cow<'_, str> {
    let first = first_chars(text, max_chars);
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", first.trim_end()))
}

/// Returns the byte offset of the character number `n`, counted from 0, or of the end.
fn char_offset(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// Returns the byte offset at which the last `n` characters begin.
fn nth_from_end(text: &str, n: usize) -> usize {
    n.checked_sub(1)
        .map_or(text.len(), |last| text.char_indices().rev().nth(last).map_or(0, |(at, _)| at))
}

/// Returns the text without the line that is cut off at its end, if at least half of the text remains.
fn whole_lines_at_start(text: &str) -> &str {
    let end = memchr::memrchr(b'\n', text.as_bytes()).map_or(0, |at| at + 1);
    if end * 2 >= text.len() { &text[..end] } else { text }
}

/// Returns the text from `from` on, without the line that is cut off at its start, if at least half of the text
/// remains.
fn whole_lines_at_end(text: &str, from: usize) -> &str {
    let (before, text) = text.split_at(from);
    if before.ends_with('\n') {
        return text;
    }
    let start = memchr::memchr(b'\n', text.as_bytes()).map_or(text.len(), |at| at + 1);
    if start * 2 <= text.len() { &text[start..] } else { text }
}

#[cfg(test)]
mod tests {
    use super::{ellipsis, one_line, shorten};

    fn check(text: &str, max: usize, expected: &str) {
        assert_eq!(shorten(text, max), expected);
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        check("", 0, "");
        check("abc", 3, "abc");
        check("äöü", 3, "äöü");
        check("a\nb\n", 4, "a\nb\n");
    }

    #[test]
    fn a_fifth_is_kept_of_the_beginning_and_the_rest_of_the_end() {
        check("0123456789abcdef", 10, "01\n[... 6 characters left out ...]\n89abcdef");
        check("ääääääääääöööööööö", 10, "ää\n[... 8 characters left out ...]\nöööööööö");
        check("abc", 0, "[... 3 characters left out ...]\n");
        check("abc", 1, "[... 2 characters left out ...]\nc");
    }

    #[test]
    fn lines_stay_whole_where_that_costs_little() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            11,
            "1\n[... 8 characters left out ...]\n6\n7\n8\n9\n",
        );
        check(
            "12\n3456789\nabcdefg\nhijklmnopqrst\n",
            20,
            "12\n[... 16 characters left out ...]\nhijklmnopqrst\n",
        );
    }

    #[test]
    fn a_long_line_is_cut_where_it_must_be() {
        let line = "x".repeat(100);
        check(&format!("{line}\n"), 10, "xx\n[... 91 characters left out ...]\nxxxxxxx\n");
    }

    #[test]
    fn an_ellipsis_stands_for_the_rest() {
        assert_eq!(ellipsis("äöü", 3), "äöü");
        assert_eq!(ellipsis("äöü", 2), "äö…");
        assert_eq!(ellipsis("ab cd", 3), "ab…");
        assert_eq!(ellipsis("a", 0), "…");
    }

    #[test]
    fn nothing_breaks_or_hides_in_one_line() {
        let check = |text, max, expected: &str| assert_eq!(one_line(text, max), expected);
        check("a b", 3, "a b");
        check("a\nb\tc\u{1b}", 9, "a b c␛");
        check("abcd", 3, "abc…");
        check("äöüß", 4, "äöüß");
        check("a\u{202e}b", 9, "a<U+202E>b");
        check("", 0, "");
    }
}
