//! Split of a growing paragraph after its last complete row. The complete rows go into the scrollback, where a change
//! of the terminal's width cannot leave a second copy of them.

use std::ops::Range;

use pulldown_cmark::{Event, Parser};
use ratatui_core::style::Style;
use ratatui_core::text::Line;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

use super::super::{Growing, render_rest};
use super::{BlockKind, PARSE_OPTIONS, context, last_blocks, line_start, margin};

/// Maximum number of places at which a split is tried: more than the number of words in two rows.
const MAX_TRIED: usize = 64;

/// Removes and returns the beginning of a growing text, up to its last complete row. Both parts together look as the
/// text did before.
pub(in super::super) fn settle_rows(growing: &mut Growing, columns: usize) -> Option<Growing> {
    let rows = render_rest(growing, columns);
    if rows.len() < 2 {
        return None;
    }
    let text = &growing.text;
    let (start, before, reopen) = last_paragraph(text)?;
    let from = start.max(growing.context);
    let end = first_open_mark(text, from);
    let whole = seen(&rows);
    // A split is right if both parts, rendered on their own, look exactly like the whole.
    let (head, rest) = word_starts(text, from..end).take(MAX_TRIED).find_map(|at| {
        let head = Growing { text: text[..at].to_owned(), ..growing.clone() };
        let text = format!("{reopen}{}", &text[at..]);
        let rest = Growing { text, context: before, joined: true, goes_on: true };
        let mut parts = seen(&render_rest(&head, columns));
        parts.extend(seen(&render_rest(&rest, columns)));
        (parts == whole).then_some((head, rest))
    })?;
    *growing = rest;
    Some(head)
}

/// Returns three values for the last paragraph of a text: its offset, the length of the context, and the markup to put
/// before the rest of the paragraph. The markup begins with the context, which opens the blocks around the paragraph.
fn last_paragraph(text: &str) -> Option<(usize, usize, String)> {
    let path = last_blocks(text);
    let (last, outer) = path.split_last()?;
    let (start, outer) = match last.kind {
        BlockKind::Paragraph => (last.start, outer),
        BlockKind::Item => (last.content?, &path[..]),
        _ => return None,
    };
    let before = context(text, outer);
    let length = before.len();
    Some((start, length, before + &margin(text, start)))
}

/// Returns the offsets of words, the last word first. Words that could be taken for the beginning of a block are
/// left out.
fn word_starts(text: &str, range: Range<usize>) -> impl Iterator<Item = usize> {
    let from = range.start;
    let mut next = ' ';
    text[range].char_indices().rev().filter_map(move |(at, c)| {
        // Scripts of wide characters have no spaces between words.
        let begins = next.is_alphabetic() && (c.is_whitespace() || is_wide(next));
        next = c;
        let at = from + at + c.len_utf8();
        // The last line may still become the head of a table.
        let is_cell = || text[line_start(text, at)..].lines().next().unwrap_or("").contains('|');
        (begins && at > from && !is_cell()).then_some(at)
    })
}

fn is_wide(c: char) -> bool {
    c.width().is_some_and(|columns| columns > 1)
}

/// Returns the offset of the first mark that later text may turn into the beginning of a code span, of a link or of
/// emphasis; the end of the text if there is none.
fn first_open_mark(text: &str, from: usize) -> usize {
    let events = Parser::new_ext(text, PARSE_OPTIONS).into_offset_iter();
    let texts = events.filter(|(event, _)| matches!(event, Event::Text(_)));
    let mut marks = texts.flat_map(|(_, range)| {
        let marks = text[range.clone()].char_indices();
        marks.map(move |(at, c)| (range.start + at, c)).collect::<Vec<_>>()
    });
    let open = marks
        .find(|(at, c)| *at >= from && may_open(*c, &text[..*at], &text[*at + c.len_utf8()..]));
    open.map_or(text.len(), |(at, _)| at)
}

fn may_open(mark: char, before: &str, after: &str) -> bool {
    if before.ends_with('\\') {
        return false;
    }
    let next = after.chars().next();
    let begins_word = next.is_none_or(|c| !c.is_whitespace());
    match mark {
        '`' => true,
        '*' | '~' => begins_word,
        '_' => begins_word && !before.ends_with(char::is_alphanumeric),
        '[' => {
            after.split_once(']').is_none_or(|(_, rest)| rest.is_empty() || rest.starts_with('('))
        }
        '<' => next.is_none_or(|c| c.is_alphabetic() || matches!(c, '/' | '!')),
        _ => false,
    }
}

/// Returns the visible content of rows: graphemes with their styles, without spaces at the end.
fn seen(rows: &[Line<'static>]) -> Vec<Vec<(String, Style)>> {
    let seen = |row: &Line<'static>| {
        let graphemes = row.spans.iter().flat_map(|span| {
            span.content.graphemes(true).map(|grapheme| (grapheme.to_owned(), span.style))
        });
        let mut graphemes: Vec<_> = graphemes.collect();
        while graphemes.pop_if(|(grapheme, _)| grapheme == " ").is_some() {}
        graphemes
    };
    rows.iter().map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::{Growing, render, render_rest};
    use super::settle_rows;

    /// Lets a text grow by a few bytes at a time; checks that it looks as if drawn at once, and that no more than
    /// `most` rows are ever drawn anew.
    #[track_caller]
    fn check(text: &str, columns: usize, most: usize) {
        let (mut rows, mut live, mut from) = (Vec::new(), 0, 0);
        let mut growing = Growing::default();
        while from < text.len() {
            let to = text.ceil_char_boundary(from + 7);
            growing.text.push_str(&text[from..to]);
            from = to;
            while let Some(head) = settle_rows(&mut growing, columns) {
                rows.extend(render_rest(&head, columns));
            }
            live = live.max(render_rest(&growing, columns).len());
        }
        rows.extend(render_rest(&growing, columns));
        let shown = |rows: &[ratatui_core::text::Line<'_>]| -> Vec<String> {
            rows.iter().map(|row| row.to_string().trim_end().to_owned()).collect()
        };
        assert_eq!(shown(&rows), shown(&render(text, columns)), "{text:?}");
        assert!(live <= most, "{live} rows are drawn anew: {text:?}");
    }

    #[test]
    fn a_paragraph_that_grows_has_one_row_to_draw_anew() {
        let words: Vec<_> = (1..=180).map(|word| format!("word{word}")).collect();
        for columns in [40, 80] {
            check(&words.join(" "), columns, 2);
            check(&words.join("\n"), columns, 2);
            check(&format!("- {}", words.join(" ")), columns, 2);
            check(&format!("- a\n  - {}", words.join(" ")), columns, 3);
            check(&format!("> {}", words.join(" ")), columns, 2);
            check(&"言葉と文字、".repeat(60), columns, 2);
            check(&format!("1. one\n\n   {}", words.join(" ")), columns, 4);
        }
    }

    #[test]
    fn a_mark_that_is_open_keeps_what_follows_it() {
        let words = "some words that fill a row ".repeat(3);
        for mark in ["**", "*", "_", "`", "~~"] {
            check(&format!("{words}{mark}{}{mark} and {words}", words.trim()), 40, 9);
        }
        check(&format!("{words}[a link of {}](http://a.example/) {words}", words.trim()), 40, 9);
        check(&format!("{words} 2 * 3, snake_case, a [note] and {words}{words}"), 40, 2);
    }

    #[test]
    fn what_may_become_a_table_is_kept() {
        let cells = "| one | two and three and four and five and six | seven |";
        check(&format!("{cells}\n|---|---|---|\n| a | b | c |\n"), 30, 20);
    }
}
