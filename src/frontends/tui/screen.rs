//! The live rows at the end of a terminal, and what is put into its scrollback above them.
//!
//! Only what changes is written, in one piece that the terminal shows at once. Every movement is
//! relative to the live rows, so nobody asks the terminal where they are.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::draw::LiveRows;
use super::wrap::{cut, width, width_of};

/// Begins and ends what is shown at once, by terminals that know how; the cursor is off meanwhile.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?2026l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Clears the rest of the row, the whole row, the rest of the screen.
const CLEAR_ROW: &str = "\x1b[K";
const CLEAR_WHOLE_ROW: &str = "\x1b[2K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The same from the beginning of a row: what is cleared from the very first cell on, some
/// terminals keep in their scrollback.
const CLEAR_FROM_ROW: &str = "\x1b[2K\x1b[C\x1b[J\r";

/// Rows on the screen.
pub(super) struct Screen {
    columns: usize,
    colour: bool,
    /// `true` if the terminal breaks its rows anew when it gets narrower, as most do, or cuts them.
    reflows: bool,
    /// The live rows.
    shown: Vec<Line<'static>>,
    /// Row and column of the cursor, from the first live row.
    cursor: (usize, usize),
    /// `true` if it is seen.
    seen: bool,
}

impl Screen {
    /// Nothing is shown yet; the cursor is at the beginning of a row.
    pub(super) fn new(columns: usize, colour: bool, reflows: bool) -> Self {
        Self { columns, colour, reflows, shown: Vec::new(), cursor: (0, 0), seen: true }
    }

    /// Returns the bytes to write so that the finished rows are above the live ones, which become
    /// those of the frame; an empty string if the screen is up to date.
    pub(super) fn update(&mut self, finished: &[Line<'static>], frame: LiveRows) -> String {
        let LiveRows { rows, cursor } = frame;
        let place = cursor.unwrap_or(self.cursor);
        if finished.is_empty()
            && rows == self.shown
            && cursor.is_some() == self.seen
            && (cursor.is_none() || place == self.cursor)
        {
            return String::new();
        }
        let mut out = BEGIN.to_owned();
        if finished.is_empty() {
            self.change(&mut out, &rows);
        } else {
            self.go(&mut out, 0);
            let wide = |row: &Line<'_>| width_of(&row.spans) > self.columns;
            if finished.iter().any(wide) {
                // The terminal breaks such a row. A wide character that does not fit into the last cell moves to the
                // next row, and the last cell keeps its old content. No later code clears this cell, so the live rows
                // are cleared first.
                out.push_str(CLEAR_FROM_ROW);
            }
            for row in finished {
                self.write_whole(&mut out, row);
                out.push_str("\r\n");
            }
            self.rewrite(&mut out, &rows);
        }
        self.shown = rows;
        self.seen = cursor.is_some();
        if let Some((row, column)) = cursor {
            self.go(&mut out, row.min(self.shown.len().saturating_sub(1)));
            forward(&mut out, column);
            self.cursor.1 = column;
            out.push_str(SHOW_CURSOR);
        }
        out.push_str(END);
        out
    }

    /// Returns the bytes that remove the live rows and leave the cursor where they began.
    pub(super) fn clear(&mut self) -> String {
        let mut out = String::new();
        self.go(&mut out, 0);
        self.shown.clear();
        self.seen = true;
        out.push_str(CLEAR_FROM_ROW);
        out.push_str(SHOW_CURSOR);
        out
    }

    /// The terminal has another width, and may have broken its rows anew. What to write so that no
    /// live rows are left.
    pub(super) fn resized(&mut self, columns: usize, height: usize) -> String {
        let columns = columns.max(1);
        let rows_of = |line: &Line<'_>| width_of(&line.spans).div_ceil(columns).max(1);
        let above: usize = self.shown.iter().take(self.cursor.0).map(rows_of).sum();
        let row = above + self.cursor.1 / columns;
        let same = columns == self.columns || !self.reflows;
        self.cursor.0 = if same { self.cursor.0 } else { row };
        self.cursor.0 = self.cursor.0.min(height.saturating_sub(1));
        self.columns = columns;
        self.clear()
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Rewrites the rows that are different.
    fn change(&mut self, out: &mut String, rows: &[Line<'static>]) {
        for (at, row) in rows.iter().enumerate() {
            if self.shown.get(at) == Some(row) {
                continue;
            }
            if at >= self.shown.len() && at > 0 {
                self.go(out, at - 1);
                out.push_str("\r\n");
                self.cursor.0 = at;
            } else {
                self.go(out, at);
            }
            self.write(out, row);
        }
        if rows.len() < self.shown.len() {
            self.go(out, rows.len());
            out.push_str(CLEAR_FROM_ROW);
        }
    }

    /// Writes all rows where the cursor is, at the beginning of a row.
    fn rewrite(&mut self, out: &mut String, rows: &[Line<'static>]) {
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                out.push_str("\r\n");
            }
            self.write(out, row);
        }
        self.cursor.0 = rows.len().saturating_sub(1);
        let full = rows.last().is_some_and(|row| width_of(&row.spans) >= self.columns);
        // Right after the last column, that column would be cleared too.
        out.push_str(if full { "" } else { CLEAR_BELOW });
        if full && self.shown.len() > rows.len() {
            out.push_str("\r\n");
            out.push_str(CLEAR_BELOW);
            out.push_str("\x1b[1A");
        }
    }

    /// Moves to the beginning of a live row that is there.
    fn go(&mut self, out: &mut String, row: usize) {
        out.push('\r');
        let at = self.cursor.0;
        if row < at {
            out.push_str(&format!("\x1b[{}A", at - row));
        } else if row > at {
            out.push_str(&format!("\x1b[{}B", row - at));
        }
        self.cursor = (row, 0);
    }

    /// Writes a live row, which is one row of the terminal.
    fn write(&self, out: &mut String, row: &Line<'static>) {
        if width_of(&row.spans) > self.columns {
            let fitting = fitted(&row.spans, self.columns);
            return self.write_whole(out, &Line::from(fitting).style(row.style));
        }
        self.write_whole(out, row);
    }

    /// Writes a row, which the terminal breaks if it is wider.
    fn write_whole(&self, out: &mut String, row: &Line<'static>) {
        if row.spans.is_empty() {
            // Nothing is left that could be broken into two rows later.
            return out.push_str(CLEAR_WHOLE_ROW);
        }
        let mut styled = false;
        for span in &row.spans {
            let codes = codes(row.style.patch(span.style), self.colour);
            if styled || !codes.is_empty() {
                out.push_str(&format!("\x1b[0{codes}m"));
                styled = !codes.is_empty();
            }
            out.extend(span.content.chars().filter(|c| !c.is_control()));
        }
        if styled {
            out.push_str("\x1b[0m");
        }
        if width_of(&row.spans) < self.columns {
            out.push_str(CLEAR_ROW);
        }
    }
}

/// As much of a row as there is room for: the terminal would make two rows of it.
fn fitted(spans: &[Span<'static>], columns: usize) -> Vec<Span<'static>> {
    let mut room = columns;
    let mut fitting = Vec::new();
    for span in spans {
        let text = cut(&span.content, room);
        room = room.saturating_sub(width(&text));
        fitting.push(Span::styled(text, span.style));
        if room == 0 {
            break;
        }
    }
    fitting
}

fn forward(out: &mut String, columns: usize) {
    if columns > 0 {
        out.push_str(&format!("\x1b[{columns}C"));
    }
}

/// The numbers that select a style, each after a semicolon.
fn codes(style: Style, colour: bool) -> String {
    let mut codes = String::new();
    let modifiers = [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::ITALIC, ";3"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::CROSSED_OUT, ";9"),
    ];
    for (modifier, code) in modifiers {
        if style.add_modifier.contains(modifier) {
            codes.push_str(code);
        }
    }
    let number = match style.fg {
        Some(Color::Red) => ";31",
        Some(Color::Green) => ";32",
        Some(Color::Yellow) => ";33",
        Some(Color::Blue) => ";34",
        Some(Color::Magenta) => ";35",
        Some(Color::Cyan) => ";36",
        _ => "",
    };
    if colour {
        codes.push_str(number);
    }
    codes
}

#[cfg(test)]
mod tests;
