//! Layout of tables: each column is as wide as its cells need, or as there is room for.

use pulldown_cmark::Alignment;
use ratatui_core::text::{Line, Span};

use super::super::theme::{BOLD_STYLE, DIM_STYLE};
use super::super::wrap::{Margin, width_of, wrap};

/// Separator between two columns.
const COLUMN_SEPARATOR: &str = " │ ";

/// Width in columns of the terminal below which no column of the table is narrowed.
const MIN_NARROWED_WIDTH: usize = 5;

/// The cells of a table so far.
#[derive(Default)]
pub(super) struct TableBuilder {
    rows: Vec<Vec<Vec<Span<'static>>>>,
    /// Alignments of the columns.
    alignments: Vec<Alignment>,
    /// Cells of the row that is being read.
    row: Vec<Vec<Span<'static>>>,
}

impl TableBuilder {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, ..Self::default() }
    }

    pub(super) fn cell(&mut self, cell: Vec<Span<'static>>) {
        self.row.push(cell);
    }

    pub(super) fn row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Returns the rows of the terminal for the table, whose first row is its head.
    pub(super) fn rows(mut self, columns: usize) -> Vec<Line<'static>> {
        for span in self.rows.iter_mut().take(1).flatten().flatten() {
            span.style = span.style.patch(BOLD_STYLE);
        }
        let widths = self.widths(columns);
        let mut lines = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            if at == 1 {
                let rules: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(Line::styled(rules.join("─┼─"), DIM_STYLE));
            }
            lines.extend(self.laid_out(row, &widths));
        }
        lines
    }

    /// Returns the width of each column. If there is too little room, the widest columns are narrowed first.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wanted = |column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell: &Vec<_>| width_of(cell)).max().unwrap_or(0).max(1)
        };
        let mut widths: Vec<usize> = (0..count).map(wanted).collect();
        let room = columns.saturating_sub(3 * count.saturating_sub(1));
        let mut over = widths.iter().sum::<usize>().saturating_sub(room);
        while over > 0 {
            let Some(widest) = widths.iter_mut().max().filter(|width| **width > MIN_NARROWED_WIDTH)
            else {
                break;
            };
            *widest -= 1;
            over -= 1;
        }
        widths
    }

    /// Returns the rows of the terminal for one row of the table, whose cells may take several.
    fn laid_out(&self, row: &[Vec<Span<'static>>], widths: &[usize]) -> Vec<Line<'static>> {
        let none = Vec::new();
        let cells: Vec<_> = (0..widths.len())
            .map(|at| wrap(row.get(at).unwrap_or(&none), &Margin::default(), widths[at]))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| {
            let mut spans = Vec::new();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    spans.push(Span::styled(COLUMN_SEPARATOR, DIM_STYLE));
                }
                let text = cell.get(at).map_or_else(Vec::new, |line| line.spans.clone());
                let missing = width.saturating_sub(width_of(&text));
                let before = match self.alignments.get(column) {
                    Some(Alignment::Right) => missing,
                    Some(Alignment::Center) => missing / 2,
                    Some(Alignment::Left | Alignment::None) | None => 0,
                };
                spans.push(Span::raw(" ".repeat(before)));
                spans.extend(text);
                spans.push(Span::raw(" ".repeat(missing - before)));
            }
            Line::from(spans)
        };
        (0..height).map(line).collect()
    }
}
