//! The search for `@path` in a text. In code, in HTML and within a word, `@path` names nothing.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag};

/// Characters that do not belong to a path if they are at its end.
const ENDING_PUNCTUATION: [char; 9] = ['.', ',', ';', ':', '!', '?', ')', '"', '\''];

/// A path that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AtPath {
    /// The path, without the escapes or quotes that it was written with.
    pub(crate) path: String,
    /// `true` if the path is in quotes, and so is certainly meant as a path.
    pub(crate) quoted: bool,
    /// Range of bytes in the text, `@` included.
    pub(super) place: Range<usize>,
}

/// Returns all paths that a text names, in order.
pub(crate) fn all(text: &str) -> Vec<AtPath> {
    let mut found = parse_at_paths(text);
    // The text is parsed as Markdown only if it has a candidate: most texts have none.
    if !found.is_empty() {
        let literal = literal(text);
        let inside = |at: &AtPath| {
            let after = literal.partition_point(|range| range.end <= at.place.start);
            literal.get(after).is_some_and(|range| range.start <= at.place.start)
        };
        found.retain(|at| !inside(at));
    }
    found
}

fn parse_at_paths(text: &str) -> Vec<AtPath> {
    let mut found = Vec::new();
    let mut end = 0;
    for (at, _) in text.match_indices('@') {
        let begins = text[..at].chars().next_back().is_none_or(char::is_whitespace);
        if !begins || at < end {
            continue;
        }
        let after = &text[at + 1..];
        let in_quotes = quoted(after);
        let is_quoted = in_quotes.is_some();
        let (path, length) = in_quotes.unwrap_or_else(|| path(after));
        end = at + 1 + length;
        if !path.is_empty() {
            found.push(AtPath { path, quoted: is_quoted, place: at..end });
        }
    }
    found
}

/// Returns the path in double quotes at the beginning of a text, and the number of bytes of both with the quotes;
/// `None` if the quotes are not closed on the same line.
fn quoted(text: &str) -> Option<(String, usize)> {
    let path = text.strip_prefix('"')?.split(['"', '\n']).next()?;
    let length = path.len() + 2;
    (!path.is_empty() && text[..length.min(text.len())].ends_with('"'))
        .then(|| (path.to_owned(), length))
}

/// Returns the path at the beginning of a text, and the number of bytes that it takes there. A space after a backslash
/// belongs to the path; punctuation at the end does not.
fn path(text: &str) -> (String, usize) {
    let (mut path, mut length) = (String::new(), 0);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let kept = if c == '\\' { chars.next() } else { Some(c).filter(|c| !c.is_whitespace()) };
        let Some(kept) = kept else { break };
        path.push(kept);
        length = text.len() - chars.as_str().len();
    }
    let over = path.len() - path.trim_end_matches(ENDING_PUNCTUATION).len();
    path.truncate(path.len() - over);
    (path, length - over)
}

/// Returns the ranges of a text that are code or HTML in Markdown, in order and not nested.
fn literal(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let is_literal = matches!(
            event,
            Event::Code(_)
                | Event::InlineHtml(_)
                | Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock)
        );
        if is_literal && ranges.last().is_none_or(|last| last.end <= range.start) {
            ranges.push(range);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::all;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = all(text);
        let found: Vec<_> =
            found.iter().map(|at| (at.path.as_str(), &text[at.place.clone()])).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_ends_where_its_word_does() {
        check("see @src/main.rs, and\n@b", &[("src/main.rs", "@src/main.rs"), ("b", "@b")]);
        check("@my\\ file.txt? yes", &[("my file.txt", "@my\\ file.txt")]);
        check("@./x.md.", &[("./x.md", "@./x.md")]);
    }

    #[test]
    fn a_path_in_quotes_ends_with_them() {
        check("see @\"my file.txt\", ok", &[("my file.txt", "@\"my file.txt\"")]);
        check("@\"a b\"c", &[("a b", "@\"a b\"")]);
        check("@\"日 本\"", &[("日 本", "@\"日 本\"")]);
        check("@\"never closed", &[("\"never", "@\"never")]);
        check("@\"in two\nlines\"", &[("\"in", "@\"in")]);
        check("@\"\" @\"", &[]);
    }

    #[test]
    fn within_a_word_it_is_text() {
        check("me@there.org @ x (@a) [@b] @. @@", &[("@", "@@")]);
        check("", &[]);
        check("@\\", &[]);
    }

    #[test]
    fn in_code_and_html_it_is_text() {
        check("a `@b` @c", &[("c", "@c")]);
        check("a ` @b ` @c", &[("c", "@c")]);
        check("```py\n@property\n```\n@c", &[("c", "@c")]);
        check("~~~\n@a\n~~~\n\n    @indented\n\n@c", &[("c", "@c")]);
        check("<!-- @a -->\n\nx <!-- @b --> @c", &[("c", "@c")]);
        check("- one\n  ```\n  @a\n  ```\n- @c", &[("c", "@c")]);
    }
}
