//! Text made fit for a terminal: nothing in it can move the cursor, and no row is too wide.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// How wide a tab is.
const TAB: usize = 4;

/// Text without escape sequences and control characters, tabs as spaces. Of a line that was
/// written over, as progress bars are, the last version.
pub(super) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut line = 0;
    let mut column = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => {
                clean.push(c);
                (line, column) = (clean.len(), 0);
            }
            '\r' if chars.peek().is_some_and(|next| *next != '\n' && *next != '\r') => {
                clean.truncate(line);
                column = 0;
            }
            '\t' => {
                let spaces = TAB - column % TAB;
                clean.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\u{1b}' => skip_escape(&mut chars),
            // What would reorder a line on the screen is no part of what it says.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => {
                clean.push(c);
                column += 1;
            }
        }
    }
    clean
}

/// Skips what follows an escape character and belongs to it.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
        // A title or a link: up to a bell or `ESC \`.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' {
                    return;
                }
                if c == '\u{1b}' {
                    chars.next();
                    return;
                }
            }
        }
        Some('(' | ')' | '#') => _ = chars.next(),
        _ => {}
    }
}

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// How many columns spans take.
pub(super) fn width_of(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| width(&span.content)).sum()
}

/// The beginning of a text that fits; with `…` if it is not all.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
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

/// What the rows of a wrapped line begin with.
#[derive(Debug, Clone, Default)]
pub(super) struct Margin {
    /// The first.
    pub(super) first: Vec<Span<'static>>,
    /// All others; as wide.
    pub(super) rest: Vec<Span<'static>>,
}

impl Margin {
    /// The same text, then spaces.
    pub(super) fn mark(mark: &str, style: Style) -> Self {
        Self {
            first: vec![Span::styled(mark.to_owned(), style)],
            rest: vec![Span::raw(" ".repeat(width(mark)))],
        }
    }

    /// The same on every row.
    pub(super) fn bar(bar: &str, style: Style) -> Self {
        let bar = vec![Span::styled(bar.to_owned(), style)];
        Self { first: bar.clone(), rest: bar }
    }
}

/// A line as rows of at most `columns`, broken between words where that is possible.
pub(super) fn wrap(spans: &[Span<'static>], margin: &Margin, columns: usize) -> Vec<Line<'static>> {
    let room = columns.saturating_sub(width_of(&margin.first)).max(2);
    let mut rows: Vec<Vec<(&str, Style)>> = vec![Vec::new()];
    let (mut used, mut space) = (0, None::<usize>);
    let graphemes = spans
        .iter()
        .flat_map(|span| span.content.graphemes(true).map(move |grapheme| (grapheme, span.style)));
    for (grapheme, style) in graphemes {
        let wide = width(grapheme);
        if used + wide > room {
            // Space that does not fit is what separates the rows.
            if grapheme == " " {
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

/// A row of a margin and graphemes, neighbours of one style in one span.
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
    fn nothing_is_left_that_a_terminal_would_obey() {
        let cases = [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink"),
            ("10%\r20%\r\nnext", "20%\nnext"),
            ("done\r", "done"),
            ("a\tb\n\tc", "a   b\n    c"),
            ("bell\x07 back\x08 c1\u{9b}31m", "bell back c131m"),
            ("\u{202e}evil", "evil"),
            ("end\x1b", "end"),
            ("\x1bPq\x1b\\after\x1b(B.", "after."),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }
}
