//! Laid-out rows of items and questions, which those keep until they are shown in another way.

use ratatui_core::text::{Line, Span};

/// Rows of an item.
#[derive(Debug)]
pub(super) struct ItemRows {
    pub(super) rows: Vec<Line<'static>>,
    /// `true` if they are all there are.
    pub(super) whole: bool,
}

impl Default for ItemRows {
    fn default() -> Self {
        Self::all(Vec::new())
    }
}

impl ItemRows {
    /// All rows that there are.
    pub(super) fn all(rows: Vec<Line<'static>>) -> Self {
        Self { rows, whole: true }
    }
}

/// Rows of the content of a question.
#[derive(Debug, Default)]
pub(super) struct QuestionRows {
    pub(super) rows: Vec<Line<'static>>,
    /// Numbers of lines that a change adds and removes.
    pub(super) counts: Vec<Span<'static>>,
    /// `true` if there are characters in the content, or in what is said of it, that had to be
    /// written out.
    pub(super) hidden: bool,
}
