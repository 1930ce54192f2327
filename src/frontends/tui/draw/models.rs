//! Rows of the choice of a model and of its level of thinking.

use ratatui_core::text::{Line, Span};

use super::super::model_menu::ModelMenu;
use super::super::theme::{BOLD_STYLE, DIM_STYLE, QUESTION_STYLE};
use super::super::wrap::{cut, width};
use super::picker::{MAX_SHOWN_ROWS, row};
use super::{LiveRows, rule};
use tandem_content::visible::visible_line;

/// Label of the line in which the user types the filter.
const FILTER_LABEL: &str = "Search: ";

/// Returns the rows of the menu, at most `height`.
pub(super) fn rows(menu: &ModelMenu, columns: usize, height: usize) -> LiveRows {
    let line = |text: &str, style| Line::styled(cut(text, columns), style);
    let filter = menu.filter().map(|filter| visible_line(filter.text())).unwrap_or_default();
    let room = columns.saturating_sub(FILTER_LABEL.len() + 1);
    // Of a long filter, the end is shown, because the cursor is there.
    let over = filter.chars().count().saturating_sub(room);
    let filter: String = filter.chars().skip(over).collect();
    let mut shown = vec![
        Line::default(),
        rule(QUESTION_STYLE, columns),
        line(&visible_line(&menu.heading()), BOLD_STYLE),
        Line::from(vec![Span::styled(FILTER_LABEL, QUESTION_STYLE), Span::raw(filter.clone())]),
    ];
    let cursor = (shown.len() - 1, FILTER_LABEL.len() + width(&filter));
    match menu.rows() {
        None => shown.push(line("Asking the servers for their models ...", DIM_STYLE)),
        Some((rows, _)) if rows.is_empty() => {
            shown.push(line("Nothing here has these words.", DIM_STYLE));
        }
        Some((rows, selected)) => {
            let room = height.saturating_sub(shown.len() + 2).clamp(1, MAX_SHOWN_ROWS);
            let first = (selected + 1).saturating_sub(room);
            let count = rows.len();
            for (at, entry) in rows.into_iter().enumerate().skip(first).take(room) {
                let facts = format!("  {}", visible_line(&entry.facts));
                shown.push(row(&visible_line(&entry.title), &facts, at == selected, columns));
            }
            if count > room {
                shown.push(line(&format!("{} of {count}", selected + 1), DIM_STYLE));
            }
        }
    }
    shown.push(line("Enter: choose; Up, Down: mark; Esc: go back", DIM_STYLE));
    // If there is no room for everything, the rows at the top are left out.
    let over = shown.len().saturating_sub(height);
    shown.drain(..over);
    let cursor = cursor.0.checked_sub(over).map(|row| (row, cursor.1));
    LiveRows { rows: shown, cursor }
}
