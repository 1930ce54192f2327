//! The live rows at the end of a terminal, and the finished rows that go into its scrollback above them.
//!
//! Only changed rows are written, in one piece that the terminal shows at once. Every cursor movement is relative to
//! the live rows, so the terminal need not be asked for the cursor's position.

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::draw::LiveRows;
use super::wrap::{cut, width, width_of};

/// Sequences that begin a synchronized update (mode 2026), which terminals that know this mode show at once, and hide
/// the cursor.
const BEGIN_UPDATE: &str = "\x1b[?2026h\x1b[?25l";
/// Sequence that ends a synchronized update.
const END_UPDATE: &str = "\x1b[?2026l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Sequence that clears the row from the cursor on.
const CLEAR_ROW: &str = "\x1b[K";
/// Sequence that clears the whole row.
const CLEAR_WHOLE_ROW: &str = "\x1b[2K";
/// Sequence that clears the screen from the cursor on.
const CLEAR_BELOW: &str = "\x1b[J";
/// Sequences that clear the screen from the beginning of the cursor's row on. They clear this row on its own, and the
/// rest of the screen from the row's second cell on: some terminals copy text into their scrollback if it is cleared
/// from the very first cell of the screen on.
const CLEAR_FROM_ROW: &str = "\x1b[2K\x1b[C\x1b[J\r";

/// The live rows as the terminal shows them, and the cursor's place.
pub(super) struct Screen {
    columns: usize,
    colour: bool,
    /// `true` if the terminal wraps its rows anew when it gets narrower, as most do; `false` if it cuts them.
    reflows: bool,
    /// Live rows that the terminal shows now.
    shown: Vec<Line<'static>>,
    /// Row and column of the cursor, counted from the first live row.
    cursor: (usize, usize),
    /// `true` if the cursor is visible.
    seen: bool,
}

impl Screen {
    /// Creates a screen without live rows. The terminal's cursor must be at the beginning of a row.
    pub(super) fn new(columns: usize, colour: bool, reflows: bool) -> Self {
        Self { columns, colour, reflows, shown: Vec::new(), cursor: (0, 0), seen: true }
    }

    /// Returns the bytes that put the finished rows above the live rows, and replace the live rows by those of the
    /// frame; an empty string if the screen is up to date.
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
        let mut out = BEGIN_UPDATE.to_owned();
        if finished.is_empty() {
            self.change(&mut out, &rows);
        } else {
            self.move_to_row(&mut out, 0);
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
            self.move_to_row(&mut out, row.min(self.shown.len().saturating_sub(1)));
            forward(&mut out, column);
            self.cursor.1 = column;
            out.push_str(SHOW_CURSOR);
        }
        out.push_str(END_UPDATE);
        out
    }

    /// Returns the bytes that remove the live rows and leave the cursor at the beginning of the first of them.
    pub(super) fn clear(&mut self) -> String {
        let mut out = String::new();
        self.move_to_row(&mut out, 0);
        self.shown.clear();
        self.seen = true;
        out.push_str(CLEAR_FROM_ROW);
        out.push_str(SHOW_CURSOR);
        out
    }

    /// Notes the terminal's new size, and returns the bytes that remove the live rows. The terminal may have wrapped
    /// these rows anew, so the cursor's row is computed for the new width.
    pub(super) fn resized(&mut self, columns: usize, height: usize) -> String {
        let columns = columns.max(1);
        let rows_of = |line: &Line<'_>| width_of(&line.spans).div_ceil(columns).max(1);
        let above: usize = self.shown.iter().take(self.cursor.0).map(rows_of).sum();
        let row = above + self.cursor.1 / columns;
        let same = columns == self.columns || !self.reflows;
        self.cursor.0 = if same { self.cursor.0 } else { row };
        // Only `height - 1` rows fit on the screen above the cursor's row; the cursor cannot move further up.
        self.cursor.0 = self.cursor.0.min(height.saturating_sub(1));
        self.columns = columns;
        self.clear()
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Writes the live rows that are new or different, and clears the rows that are no longer needed.
    fn change(&mut self, out: &mut String, rows: &[Line<'static>]) {
        for (at, row) in rows.iter().enumerate() {
            if self.shown.get(at) == Some(row) {
                continue;
            }
            // A cursor movement does not scroll, so a line feed makes the new row.
            if at >= self.shown.len() && at > 0 {
                self.move_to_row(out, at - 1);
                out.push_str("\r\n");
                self.cursor.0 = at;
            } else {
                self.move_to_row(out, at);
            }
            self.write(out, row);
        }
        if rows.len() < self.shown.len() {
            self.move_to_row(out, rows.len());
            out.push_str(CLEAR_FROM_ROW);
        }
    }

    /// Writes all live rows from the cursor on, which is at the beginning of a row.
    fn rewrite(&mut self, out: &mut String, rows: &[Line<'static>]) {
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                out.push_str("\r\n");
            }
            self.write(out, row);
        }
        self.cursor.0 = rows.len().saturating_sub(1);
        let full = rows.last().is_some_and(|row| width_of(&row.spans) >= self.columns);
        // After a full row, the cursor still stands on the last column, and CLEAR_BELOW would clear that column too.
        out.push_str(if full { "" } else { CLEAR_BELOW });
        if full && self.shown.len() > rows.len() {
            out.push_str("\r\n");
            out.push_str(CLEAR_BELOW);
            out.push_str("\x1b[1A");
        }
    }

    /// Moves the cursor to the beginning of an existing live row.
    fn move_to_row(&mut self, out: &mut String, row: usize) {
        out.push('\r');
        let at = self.cursor.0;
        if row < at {
            out.push_str(&format!("\x1b[{}A", at - row));
        } else if row > at {
            out.push_str(&format!("\x1b[{}B", row - at));
        }
        self.cursor = (row, 0);
    }

    /// Writes a live row, cut so that it takes one row of the terminal.
    fn write(&self, out: &mut String, row: &Line<'static>) {
        if width_of(&row.spans) > self.columns {
            let fitting = fitted(&row.spans, self.columns);
            return self.write_whole(out, &Line::from(fitting).style(row.style));
        }
        self.write_whole(out, row);
    }

    /// Writes a whole row; the terminal itself breaks a row that is too wide.
    fn write_whole(&self, out: &mut String, row: &Line<'static>) {
        if row.spans.is_empty() {
            // The row is cleared as a whole: nothing may be left in it that the terminal could later wrap into a second
            // row.
            return out.push_str(CLEAR_WHOLE_ROW);
        }
        let mut styled = false;
        for span in &row.spans {
            let codes = codes(row.style.patch(span.style), self.colour);
            if styled || !codes.is_empty() {
                out.push_str(&format!("\x1b[0{codes}m"));
                styled = !codes.is_empty();
            }
            // The terminal would obey control characters.
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

/// Returns the beginning of a row that fits into the columns. The terminal would break a wider row into two.
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

/// Returns the codes (SGR parameters) that select a style, each after a semicolon.
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
