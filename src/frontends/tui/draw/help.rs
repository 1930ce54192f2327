//! Rows of the help: all keys, or the essentials.

use ratatui_core::text::{Line, Span};

use super::super::keys::{ESSENTIAL_KEYS, HELP_KEYS};
use super::super::theme::CODE_STYLE;
use super::super::wrap::{Margin, wrap};
use super::plain;

/// Number of columns below which the keys have no column of their own.
const MIN_KEY_COLUMN_WIDTH: usize = 60;

/// Returns the rows of all keys.
pub(super) fn keys(columns: usize) -> Vec<Line<'static>> {
    HELP_KEYS.iter().flat_map(|(keys, effect)| key(keys, effect, columns)).collect()
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
    rows.extend(ESSENTIAL_KEYS.iter().flat_map(|(keys, effect)| key(keys, effect, columns)));
    rows.push(Line::default());
    rows.extend(wrap(
        &[Span::styled(commands.to_owned(), CODE_STYLE)],
        &Margin::default(),
        columns,
    ));
    rows.extend(text("A / lists them with what they do; tandem --help has flags and limits."));
    rows
}

/// Returns the rows of keys and their effect, which is never cut.
fn key(keys: &str, effect: &str, columns: usize) -> Vec<Line<'static>> {
    let margin = Margin::mark(&format!("  {keys:<24}"), CODE_STYLE);
    if columns >= MIN_KEY_COLUMN_WIDTH {
        return wrap(&[Span::raw(effect.to_owned())], &margin, columns);
    }
    let spans = [Span::styled(format!("  {keys}: "), CODE_STYLE), Span::raw(effect.to_owned())];
    wrap(&spans, &Margin::mark("", CODE_STYLE), columns)
}
