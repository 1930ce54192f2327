//! What can be done here: all keys, or what matters on one screen.

use ratatui::text::{Line, Span};

use super::super::keys::{ESSENTIAL, HELP};
use super::super::local::LOCAL;
use super::super::theme::CODE;
use super::super::wrap::{Margin, cut, wrap};
use super::plain;
use crate::commands::Registry;

/// Every key.
pub(super) fn keys(columns: usize) -> Vec<Line<'static>> {
    HELP.iter().map(|row| key(row, columns)).collect()
}

/// What matters.
pub(super) fn essential(columns: usize) -> Vec<Line<'static>> {
    let text = |text: &str| plain(text, &Margin::default(), ratatui::style::Style::new(), columns);
    let mut rows = text(
        "Ask in your own words. The agent works in this directory, and asks before it changes \
         anything.",
    );
    rows.push(Line::default());
    rows.extend(ESSENTIAL.iter().map(|row| key(row, columns)));
    rows.push(Line::default());
    rows.extend(wrap(&[Span::styled(commands(), CODE)], &Margin::default(), columns));
    rows.extend(text("A / lists them with what they do; tandem --help has flags and limits."));
    rows
}

/// The names of all commands.
fn commands() -> String {
    let known = Registry::default();
    let shared = known.list().iter().map(|command| format!("/{}", command.name));
    let mut names: Vec<_> = LOCAL.iter().map(|(name, ..)| (*name).to_owned()).collect();
    names.extend(shared);
    names.sort();
    names.dedup();
    names.join(" ")
}

fn key((key, what): &(&str, &str), columns: usize) -> Line<'static> {
    Line::from(vec![
        Span::styled(format!("  {key:<24}"), CODE),
        Span::raw(cut(what, columns.saturating_sub(26))),
    ])
}
