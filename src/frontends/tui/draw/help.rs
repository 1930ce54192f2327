//! Help: all keys, or the essentials on one screen.

use ratatui_core::text::{Line, Span};

use super::super::keys::{ESSENTIAL, HELP};
use super::super::theme::CODE;
use super::super::wrap::{Margin, cut, wrap};
use super::plain;

/// Every key.
pub(super) fn keys(columns: usize) -> Vec<Line<'static>> {
    HELP.iter().map(|row| key(row, columns)).collect()
}

/// Returns the essentials; `commands` are the names of all commands.
pub(super) fn essential(commands: &str, columns: usize) -> Vec<Line<'static>> {
    let text =
        |text: &str| plain(text, &Margin::default(), ratatui_core::style::Style::new(), columns);
    let mut rows = text(
        "Ask in your own words. The agent works in this directory, and asks before it changes \
         anything.",
    );
    rows.push(Line::default());
    rows.extend(ESSENTIAL.iter().map(|row| key(row, columns)));
    rows.push(Line::default());
    rows.extend(wrap(&[Span::styled(commands.to_owned(), CODE)], &Margin::default(), columns));
    rows.extend(text("A / lists them with what they do; tandem --help has flags and limits."));
    rows
}

fn key((key, what): &(&str, &str), columns: usize) -> Line<'static> {
    Line::from(vec![
        Span::styled(cut(&format!("  {key:<24}"), columns), CODE),
        Span::raw(cut(what, columns.saturating_sub(26))),
    ])
}
