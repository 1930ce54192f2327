//! Rows of the choice among the stored sessions.

use std::path::Path;

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::super::picker::Picker;
use super::super::theme::{ASKS, BAD, BOLD, CODE, DIM, USER};
use super::super::wrap::{Margin, cut, fitting, width, wrap};
use super::{LiveRows, rule};
use tandem_agent::session::{Listed, Millis, explain_age};
use tandem_content::visible::visible_line;

/// Maximum number of rows of a choice that are shown at once.
pub(super) const SHOWN: usize = 12;

/// Number of columns from which on a row shows facts beside the title.
const WIDE: usize = 50;

/// Height in rows from which on the keys may take more than one row.
const HIGH: usize = 12;

/// Returns the rows of a choice, at most `height`.
pub(super) fn rows(picker: &Picker, columns: usize, height: usize, now: Millis) -> LiveRows {
    let line = |text: &str, style| Line::styled(cut(text, columns), style);
    let (scope, other) = if picker.all {
        ("all directories", "this directory")
    } else {
        ("this directory", "all directories")
    };
    let label = "Search: ";
    let filter = picker.filter.text();
    let room = columns.saturating_sub(label.len() + 1);
    // Of a long filter, the end is shown, because the cursor is there.
    let over = filter.chars().count().saturating_sub(room);
    let filter: String = visible_line(filter).chars().skip(over).collect();
    let mut above = vec![
        Line::default(),
        rule(ASKS, columns),
        line(&format!("Go on with a session of {scope}"), BOLD),
        Line::from(vec![Span::styled(label, ASKS), Span::raw(filter.clone())]),
    ];
    let cursor = (above.len() - 1, label.len() + width(&filter));
    let mut below = Vec::new();
    let text = |text: &str, style| {
        wrap(&[Span::styled(text.to_owned(), style)], &Margin::default(), columns)
    };
    if let Some(found) = picker.marked_line() {
        below.push(line(&format!("  {}", visible_line(found)), CODE));
    }
    match picker.count() {
        _ if picker.opening => below.push(line("Opening it ...", DIM)),
        _ if picker.searching => below.push(line("Searching ...", DIM)),
        None => below.push(line("Reading ...", DIM)),
        Some(_) if let Some(hits) = picker.hits() => below.push(line(&found(hits), DIM)),
        Some((0, 0)) if picker.is_first() => below.push(line("There is no session.", DIM)),
        Some((0, 0)) => below.push(line("There is no other session.", DIM)),
        Some((0, _)) => below.extend(text(
            "No session has these words in its title; Ctrl+R searches what was said.",
            DIM,
        )),
        Some((fitting, all)) if fitting < all => {
            below.push(line(&format!("{fitting} of {all} sessions"), DIM));
        }
        Some((_, 1)) => below.push(line("1 session", DIM)),
        Some((_, all)) => below.push(line(&format!("{all} sessions"), DIM)),
    }
    if let Some(holder) = picker.marked().and_then(Listed::explain_holder) {
        below.extend(text(&visible_line(&format!("This session is {holder}")), DIM));
    }
    if let Some(why) = &picker.failure {
        below.extend(text(&visible_line(why), BAD));
    }
    below.extend(keys(picker, other, columns, height));
    let room = height.saturating_sub(above.len() + below.len()).min(SHOWN);
    let first = (picker.selected + 1).saturating_sub(room);
    let sessions = picker.fitting().enumerate().skip(first).take(room);
    above.extend(sessions.map(|(at, it)| session(picker, it, at == picker.selected, columns, now)));
    above.append(&mut below);
    // If there is no room for everything, the rows at the top are left out.
    let over = above.len().saturating_sub(height);
    above.drain(..over);
    let cursor = cursor.0.checked_sub(over).map(|row| (row, cursor.1));
    LiveRows { rows: above, cursor }
}

/// Returns the rows that list the keys. `other`: the directories that Tab switches to.
fn keys(picker: &Picker, other: &str, columns: usize, height: usize) -> Vec<Line<'static>> {
    let leave = if picker.is_first() { "new session" } else { "go back" };
    let keys = format!("Enter: open; Tab: {other}; Ctrl+R: search contents; Esc: {leave}");
    if height >= HIGH {
        return wrap(&[Span::styled(keys, DIM)], &Margin::default(), columns);
    }
    let fewer = format!("Enter: open; Tab: {other}; Esc: {leave}");
    let fewest = format!("Enter: open; Esc: {leave}");
    let keys = fitting(&[&keys, &fewer, &fewest], columns);
    vec![Line::styled(cut(keys, columns), DIM)]
}

/// Returns the number of sessions in which a text was found, in words.
fn found(hits: usize) -> String {
    match hits {
        0 => "This was said in no session.".to_owned(),
        1 => "This was said in 1 session:".to_owned(),
        hits => format!("This was said in {hits} sessions."),
    }
}

fn session(
    picker: &Picker,
    listed: &Listed,
    marked: bool,
    columns: usize,
    now: Millis,
) -> Line<'static> {
    let turns = if listed.turns == 1 { "turn" } else { "turns" };
    let mut facts = format!("  {} {turns}, {}", listed.turns, explain_age(now, listed.changed));
    if let Some(directory) = picker.other_directory(listed) {
        facts.push_str(&format!(", {}", visible_line(name(directory))));
    }
    let title = match visible_line(&listed.title) {
        title if title.trim().is_empty() => "(no title)".into(),
        title => title,
    };
    let is_open = listed.held_by.is_some().then_some("open");
    let marks = is_open.into_iter().chain(listed.head.tag.as_deref());
    let marks: Vec<_> = marks.map(|mark| format!("[{}] ", visible_line(mark))).collect();
    row(&(marks.concat() + &title), &facts, marked, columns)
}

/// Returns a row of a choice: a title, and facts at the end if there is room for them.
pub(super) fn row(title: &str, facts: &str, marked: bool, columns: usize) -> Line<'static> {
    let (mark, style) = if marked { ("› ", USER) } else { ("  ", CODE) };
    let words = if marked { BOLD } else { Style::new() };
    let facts = if columns < WIDE { String::new() } else { cut(facts, columns / 2) };
    let room = columns.saturating_sub(2 + width(&facts));
    let title = cut(title, room);
    let gap = " ".repeat(room - width(&title));
    Line::from(vec![
        Span::styled(mark, style),
        Span::styled(title, words),
        Span::styled(format!("{gap}{facts}"), DIM),
    ])
}

/// Returns the last part of a path.
fn name(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or("/")
}
