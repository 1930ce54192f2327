//! Text made safe for a terminal: every character is visible, no character moves the cursor, and no row is too wide.
//!
//! Every text that becomes a row goes through [`wrap`], [`fold`] or [`cut`], which write out hidden characters
//! ([`tandem_content::visible`]), so no caller can forget to do that.

use std::borrow::Cow;

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use tandem_content::visible::visible_line;

/// Width of a tab in columns.
pub(super) const TAB_COLUMNS: usize = 4;

/// Returns the width of a text in columns.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Returns the width of spans in columns.
pub(super) fn width_of(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| width(&span.content)).sum()
}

/// Returns the beginning of a text, on one row; with `…` at its end if the text is longer.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let text = visible_line(text);
    if width(&text) <= columns {
        return text.into_owned();
    }
    let mut cut = String::new();
    let mut taken = 0;
    for grapheme in text.graphemes(true) {
        if taken + width(grapheme) + 1 > columns {
            break;
        }
        taken += width(grapheme);
        cut.push_str(grapheme);
    }
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// Returns the first of several wordings that fits, or the last wording if none fits. The wordings go from long to
/// short.
pub(super) fn fitting<'a>(wordings: &[&'a str], columns: usize) -> &'a str {
    let fits = wordings.iter().find(|wording| width(wording) <= columns);
    fits.or(wordings.last()).copied().unwrap_or_default()
}

/// Returns the lines of a text. Only line feeds end a line: a carriage return stays, so that it is shown written out.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator('\n')
}

/// Beginnings of the rows of a wrapped line.
#[derive(Debug, Clone, Default)]
pub(super) struct Margin {
    /// Margin of the first row.
    pub(super) first: Vec<Span<'static>>,
    /// Margin of all other rows, as wide as `first`.
    pub(super) rest: Vec<Span<'static>>,
}

impl Margin {
    /// Returns a margin with a mark on the first row, and spaces on the others.
    pub(super) fn mark(mark: &str, style: Style) -> Self {
        Self {
            first: vec![Span::styled(mark.to_owned(), style)],
            rest: vec![Span::raw(" ".repeat(width(mark)))],
        }
    }

    /// Returns a margin that is the same on every row.
    pub(super) fn bar(bar: &str, style: Style) -> Self {
        let bar = vec![Span::styled(bar.to_owned(), style)];
        Self { first: bar.clone(), rest: bar }
    }
}

/// Returns a line as rows of at most `columns`, broken between words where possible. The space between two rows is left
/// out if it does not fit.
pub(super) fn wrap(spans: &[Span<'static>], margin: &Margin, columns: usize) -> Vec<Line<'static>> {
    rows(spans, margin, columns, false)
}

/// Returns rows like [`wrap`], but leaves out no space: for text that the user approves character by character.
pub(super) fn fold(spans: &[Span<'static>], margin: &Margin, columns: usize) -> Vec<Line<'static>> {
    rows(spans, margin, columns, true)
}

fn rows(
    spans: &[Span<'static>],
    margin: &Margin,
    columns: usize,
    keeps_spaces: bool,
) -> Vec<Line<'static>> {
    let room = columns.saturating_sub(width_of(&margin.first)).max(2);
    let mut rows: Vec<Vec<(&str, Style)>> = vec![Vec::new()];
    let (mut used, mut space) = (0, None::<usize>);
    let spans: Vec<_> = spans.iter().map(|span| (written_out(&span.content), span.style)).collect();
    let graphemes = spans
        .iter()
        .flat_map(|(text, style)| text.graphemes(true).map(move |grapheme| (grapheme, *style)));
    for (grapheme, style) in tabs_as_spaces(graphemes) {
        let wide = width(grapheme);
        if used + wide > room {
            // A space that does not fit is replaced by the break between the rows.
            if grapheme == " " && !keeps_spaces {
                rows.push(Vec::new());
                (used, space) = (0, None);
                continue;
            }
            let full = rows.last_mut().map_or_else(Vec::new, |row| match space {
                Some(at) => row.split_off(at),
                None => Vec::new(),
            });
            used = full.iter().map(|(grapheme, _)| width(grapheme)).sum();
            rows.push(full);
            space = None;
        }
        let Some(row) = rows.last_mut() else { break };
        row.push((grapheme, style));
        used += wide;
        if grapheme == " " {
            space = Some(row.len());
        }
    }
    let margins = std::iter::once(&margin.first).chain(std::iter::repeat(&margin.rest));
    rows.into_iter().zip(margins).map(|(row, margin)| joined(margin, &row)).collect()
}

/// Returns a line without breaks, with hidden characters written out and with spaces for tabs.
pub(super) fn line_as_seen(spans: &[Span<'static>]) -> Line<'static> {
    let spans: Vec<_> = spans.iter().map(|span| (written_out(&span.content), span.style)).collect();
    let graphemes = spans
        .iter()
        .flat_map(|(text, style)| text.graphemes(true).map(move |grapheme| (grapheme, *style)));
    joined(&[], &tabs_as_spaces(graphemes).collect::<Vec<_>>())
}

/// Returns a part of a line with hidden characters written out. Tabs stay.
fn written_out(text: &str) -> Cow<'_, str> {
    if !text.contains('\t') {
        return visible_line(text);
    }
    let parts: Vec<_> = text.split('\t').map(visible_line).collect();
    parts.join("\t").into()
}

/// Returns the graphemes of a line with spaces for tabs.
fn tabs_as_spaces<'a>(
    graphemes: impl Iterator<Item = (&'a str, Style)>,
) -> impl Iterator<Item = (&'a str, Style)> {
    let mut column = 0;
    graphemes.flat_map(move |(grapheme, style)| {
        let (shown, count) = match grapheme {
            "\t" => (" ", TAB_COLUMNS - column % TAB_COLUMNS),
            _ => (grapheme, 1),
        };
        column += width(shown) * count;
        std::iter::repeat_n((shown, style), count)
    })
}

/// Returns a row made of a margin and graphemes; neighbours of the same style form one span.
fn joined(margin: &[Span<'static>], row: &[(&str, Style)]) -> Line<'static> {
    let mut spans = margin.to_vec();
    for run in row.chunk_by(|a, b| a.1 == b.1) {
        let text: String = run.iter().map(|(grapheme, _)| *grapheme).collect();
        spans.push(Span::styled(text, run[0].1));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &[&str]) {
        let spans = [Span::raw(text.to_owned())];
        let rows = wrap(&spans, &Margin::mark("- ", Style::new()), columns);
        let rows: Vec<_> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn lines_are_broken_between_words() {
        check("one two three", 9, &["- one two", "  three"]);
        check("one two three", 10, &["- one two ", "  three"]);
        check("unbreakable", 7, &["- unbre", "  akabl", "  e"]);
        check("a unbreakable", 7, &["- a ", "  unbre", "  akabl", "  e"]);
        check("", 7, &["- "]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_are_never_cut() {
        check("日本語", 6, &["- 日本", "  語"]);
        check("日本語", 7, &["- 日本", "  語"]);
        check("👩‍👩‍👧x", 4, &["- 👩‍👩‍👧", "  x"]);
        check("日本", 1, &["- 日", "  本"]);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn every_character_of_a_row_is_seen() {
        check("a\rb\u{202e}c", 20, &["- a␍b<U+202E>c"]);
        check("a\u{1b}[2Kb\nc", 20, &["- a␛[2Kb\\nc"]);
        check("a\tb", 20, &["- a   b"]);
        check("日\tb\tc", 20, &["- 日  b   c"]);
        assert_eq!(cut("a\nb\tc\u{200b}d", 30), "a\\nb\\tc<U+200B>d");
        assert_eq!(cut("a\u{200b}d", 5), "a<U+…");
    }

    #[test]
    fn text_that_is_approved_keeps_its_spaces() {
        let folded = |text: &str| {
            let rows = fold(&[Span::raw(text.to_owned())], &Margin::default(), 5);
            rows.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(folded("abcde fgh"), ["abcde", " fgh"]);
        assert_eq!(folded("abcdefgh"), ["abcde", "fgh"]);
        assert_eq!(folded("ab cde  f"), ["ab ", "cde  ", "f"]);
    }

    #[test]
    fn carriage_returns_end_no_line() {
        assert_eq!(lines("a\rb\r\nc\n").collect::<Vec<_>>(), ["a\rb\r", "c"]);
    }
}
