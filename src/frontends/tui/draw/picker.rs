//! Rows of the choice among the stored sessions.

use std::path::Path;

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::super::picker::Picker;
use super::super::theme::{
    BAD_STYLE, BOLD_STYLE, CODE_STYLE, DIM_STYLE, QUESTION_STYLE, USER_STYLE,
};
use super::super::wrap::{Margin, cut, fitting, width, wrap};
use super::{LiveRows, rule};
use tandem_agent::session::{Listed, Millis, explain_age};
use tandem_content::visible::visible_line;

/// Maximum number of rows of a choice that are shown at once.
pub(super) const MAX_SHOWN_ROWS: usize = 12;

/// Number of columns from which on a row shows facts beside the title.
const MIN_FACTS_COLUMNS: usize = 50;

/// Height in rows from which on the keys may take more than one row.
const MIN_MULTIROW_HEIGHT: usize = 12;

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
        rule(QUESTION_STYLE, columns),
        line(&format!("Go on with a session of {scope}"), BOLD_STYLE),
        Line::from(vec![Span::styled(label, QUESTION_STYLE), Span::raw(filter.clone())]),
    ];
    let cursor = (above.len() - 1, label.len() + width(&filter));
    let mut below = Vec::new();
    let text = |text: &str, style| {
        wrap(&[Span::styled(text.to_owned(), style)], &Margin::default(), columns)
    };
    if let Some(found) = picker.marked_line() {
        below.push(line(&format!("  {}", visible_line(found)), CODE_STYLE));
    }
    match picker.count() {
        _ if picker.opening => below.push(line("Opening the session ...", DIM_STYLE)),
        _ if picker.searching => below.push(line("Searching ...", DIM_STYLE)),
        None => below.push(line("Reading ...", DIM_STYLE)),
        Some(_) if let Some(hits) = picker.hits() => below.push(line(&found(hits), DIM_STYLE)),
        Some((0, 0)) if picker.is_first() => below.push(line("There is no session.", DIM_STYLE)),
        Some((0, 0)) => below.push(line("There is no other session.", DIM_STYLE)),
        Some((0, _)) => below.extend(text(
            "No session has these words in its title; Ctrl+R searches the conversations.",
            DIM_STYLE,
        )),
        Some((fitting, all)) if fitting < all => {
            below.push(line(&format!("{fitting} of {all} sessions"), DIM_STYLE));
        }
        Some((_, 1)) => below.push(line("1 session", DIM_STYLE)),
        Some((_, all)) => below.push(line(&format!("{all} sessions"), DIM_STYLE)),
    }
    if let Some(holder) = picker.marked().and_then(Listed::explain_holder) {
        below.extend(text(&visible_line(&format!("This session is {holder}")), DIM_STYLE));
    }
    if let Some(why) = &picker.failure {
        below.extend(text(&visible_line(why), BAD_STYLE));
    }
    below.extend(keys(picker, other, columns, height));
    let room = height.saturating_sub(above.len() + below.len()).min(MAX_SHOWN_ROWS);
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
    if height >= MIN_MULTIROW_HEIGHT {
        return wrap(&[Span::styled(keys, DIM_STYLE)], &Margin::default(), columns);
    }
    let fewer = format!("Enter: open; Tab: {other}; Esc: {leave}");
    let fewest = format!("Enter: open; Esc: {leave}");
    let keys = fitting(&[&keys, &fewer, &fewest], columns);
    vec![Line::styled(cut(keys, columns), DIM_STYLE)]
}

/// Returns the number of sessions in which a text was found, in words.
fn found(hits: usize) -> String {
    match hits {
        0 => "No session has this text.".to_owned(),
        1 => "1 session has this text:".to_owned(),
        hits => format!("{hits} sessions have this text."),
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
    let (mark, style) = if marked { ("› ", USER_STYLE) } else { ("  ", CODE_STYLE) };
    let words = if marked { BOLD_STYLE } else { Style::new() };
    let facts = if columns < MIN_FACTS_COLUMNS { String::new() } else { cut(facts, columns / 2) };
    let room = columns.saturating_sub(2 + width(&facts));
    let title = cut(title, room);
    let gap = " ".repeat(room - width(&title));
    Line::from(vec![
        Span::styled(mark, style),
        Span::styled(title, words),
        Span::styled(format!("{gap}{facts}"), DIM_STYLE),
    ])
}

/// Returns the last part of a path.
fn name(directory: &Path) -> &str {
    directory.file_name().and_then(|name| name.to_str()).unwrap_or("/")
}
