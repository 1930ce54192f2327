//! Long rows that the terminal itself breaks, so that the user copies each of them as one line: code, and addresses
//! that are wider than the screen.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;

use super::wrap::{Margin, line_as_seen, width, width_of, wrap};

/// Returns the rows of a line, broken between words. An address that is longer than a row gets a row of its own, which
/// is wider than the terminal.
pub(super) fn wrap_words(
    spans: &[Span<'static>],
    margin: &Margin,
    columns: usize,
) -> Vec<Line<'static>> {
    let spans = &line_as_seen(spans).spans;
    let text: String = spans.iter().map(|span| &*span.content).collect();
    let room = columns.saturating_sub(width_of(&margin.first));
    let mut margin = margin.clone();
    let (mut rows, mut done) = (Vec::new(), 0);
    for (at, address) in long_addresses(&text, room) {
        let before = part(spans, done, text[..at].trim_end().len().max(done));
        if !before.is_empty() {
            rows.extend(wrap(&before, &margin, columns));
            margin.first.clone_from(&margin.rest);
        }
        done = at + address.len();
        // A margin that only aligns the row would be copied together with the address.
        let mark = if margin.first == margin.rest { Vec::new() } else { margin.first.clone() };
        rows.push(Line::from([mark, part(spans, at, done)].concat()));
        margin.first.clone_from(&margin.rest);
        done += text[done..].len() - text[done..].trim_start_matches(' ').len();
    }
    if done == 0 {
        return wrap(spans, &margin, columns);
    }
    let rest = part(spans, done, text.len());
    if !rest.is_empty() {
        rows.extend(wrap(&rest, &margin, columns));
    }
    rows
}

/// Returns the addresses in a text that are wider than `room`, each with its offset.
fn long_addresses(text: &str, room: usize) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(' ').filter(move |word| word.contains("://") && width(word) > room);
    let start = text.as_ptr() as usize;
    words.map(move |word| (word.as_ptr() as usize - start, word))
}

/// Returns the part of the text between two byte offsets.
fn part(spans: &[Span<'static>], from: usize, to: usize) -> Vec<Span<'static>> {
    let mut begin = 0;
    let mut parts = Vec::new();
    for span in spans {
        let end = begin + span.content.len();
        let (first, last) = (from.clamp(begin, end), to.clamp(begin, end));
        if first < last {
            let text = span.content[first - begin..last - begin].to_owned();
            parts.push(Span::styled(text, span.style));
        }
        begin = end;
    }
    parts
}

/// Returns the rows as a terminal of this width breaks them.
pub(super) fn broken(rows: Vec<Line<'static>>, columns: usize) -> Vec<Line<'static>> {
    let columns = columns.max(2);
    if rows.iter().all(|row| width_of(&row.spans) <= columns) {
        return rows;
    }
    rows.into_iter().flat_map(|row| break_row(row, columns)).collect()
}

fn break_row(row: Line<'static>, columns: usize) -> Vec<Line<'static>> {
    if width_of(&row.spans) <= columns {
        return vec![row];
    }
    let mut rows: Vec<Vec<Span<'static>>> = vec![Vec::new()];
    let mut used = 0;
    for span in row.spans {
        let mut piece = String::new();
        let push = |rows: &mut Vec<Vec<Span<'static>>>, piece: &mut String, style: Style| {
            let text = std::mem::take(piece);
            rows.last_mut().into_iter().for_each(|row| row.push(Span::styled(text.clone(), style)));
        };
        for grapheme in span.content.graphemes(true) {
            if used + width(grapheme) > columns {
                push(&mut rows, &mut piece, span.style);
                rows.push(Vec::new());
                used = 0;
            }
            piece.push_str(grapheme);
            used += width(grapheme);
        }
        push(&mut rows, &mut piece, span.style);
    }
    let style = row.style;
    rows.into_iter().map(|spans| Line::from(spans).style(style)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &[&str]) {
        let spans = [Span::raw(text.to_owned())];
        let rows = wrap_words(&spans, &Margin::mark("- ", Style::new()), columns);
        let rows: Vec<_> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_long_address_is_one_line() {
        check("see https://a.example/b now", 14, &["- see", "https://a.example/b", "  now"]);
        check("https://a.example/b", 14, &["- https://a.example/b"]);
        check(
            "https://a.example/b https://a.example/c",
            14,
            &["- https://a.example/b", "https://a.example/c"],
        );
        check("see https://a.example/b now", 40, &["- see https://a.example/b now"]);
        check("unbreakablewords all", 12, &["- unbreakabl", "  ewords all"]);
    }

    #[test]
    fn a_line_is_broken_where_the_terminal_does() {
        let rows = vec![Line::from(vec![Span::raw("ab"), Span::raw("c日本")]), Line::raw("x")];
        let rows: Vec<_> = broken(rows, 4).iter().map(ToString::to_string).collect();
        assert_eq!(rows, ["abc", "日本", "x"]);
    }
}
