//! Laid-out rows of items and questions, which cache these rows.

use ratatui_core::text::{Line, Span};

/// Rows of an item.
#[derive(Debug)]
pub(super) struct ItemRows {
    pub(super) rows: Vec<Line<'static>>,
    /// `true` if nothing of the item is left out.
    pub(super) whole: bool,
}

impl Default for ItemRows {
    fn default() -> Self {
        Self::all(Vec::new())
    }
}

impl ItemRows {
    /// Creates the rows of an item that is shown in full.
    pub(super) fn all(rows: Vec<Line<'static>>) -> Self {
        Self { rows, whole: true }
    }
}

/// Rows of the content of a question.
#[derive(Debug, Default)]
pub(super) struct QuestionRows {
    pub(super) rows: Vec<Line<'static>>,
    /// Text for the title: the numbers of lines that a change adds and removes, and special properties of the file.
    pub(super) counts: Vec<Span<'static>>,
    /// Number of changed files.
    pub(super) changes: usize,
    /// `true` if the content, or the text around it, has hidden characters, which are shown written out.
    pub(super) hidden: bool,
}
