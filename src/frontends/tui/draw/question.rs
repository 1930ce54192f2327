//! A question: what would happen, why it is asked, and what can be answered.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::dialog::Dialog;
use super::super::highlight::Highlighter;
use super::super::input::Input;
use super::super::theme::{ASKS, BOLD, CODE, DIM, USER};
use super::super::wrap::{Margin, clean, cut, wrap};
use super::{Frame, card, plain, rule};
use crate::session::Access;

/// Rows that are left for what is above a question.
const ABOVE: usize = 2;

/// Rows of the sentence that goes with a "no".
const SAYING: usize = 4;

/// Rows of what is asked about that are shown before anything else is left out.
const LEAST: usize = 2;

/// The rows of a question: as many as there are, at most `height`.
pub(super) fn rows(dialog: &Dialog, open: usize, columns: usize, height: usize) -> Frame {
    let content = dialog.content.get(columns, || content(dialog, columns));
    let least = content.len().min(LEAST);
    let mut head = vec![Line::default(), rule(ASKS, columns)];
    head.extend(title(dialog, open, columns));
    let (foot, cursor) = foot(dialog, columns);
    // Some of what is above is to be seen, too.
    let mut room = height.saturating_sub(ABOVE);
    if head.len() + least + foot.len() > room {
        (head, room) = (head.split_off(2), height);
    }
    if head.len() + least + foot.len() > room {
        return small(dialog, &content, columns, height);
    }
    let content = window(&content, dialog.scroll, room - head.len() - foot.len());
    let cursor = cursor.map(|(row, column)| (row + head.len() + content.len(), column));
    let rows = [head, content, foot].concat();
    Frame { rows, cursor }
}

/// What is left of a question where there is little room: what is asked, some of what it is about,
/// and the choice that is marked.
fn small(dialog: &Dialog, content: &[Line<'static>], columns: usize, height: usize) -> Frame {
    let asks = format!("{} {}", asks(dialog), label(dialog));
    let mut rows = vec![Line::styled(cut(&asks, columns), ASKS)];
    if let Some(saying) = &dialog.saying {
        let (said, (row, column)) = said(saying, columns, height.saturating_sub(1).max(1));
        let cursor = Some((row + rows.len(), column));
        rows.extend(said);
        return Frame { rows, cursor };
    }
    let choices = dialog.choices();
    // The marked one is said in full, and there is always one row for the content.
    let least = content.len().min(LEAST).min(height.saturating_sub(2));
    let margin = |at: usize, key: char| {
        let (mark, style) = if at == dialog.selected { ("› ", USER) } else { ("  ", CODE) };
        Margin::mark(&format!("{mark}{key}  "), style)
    };
    let (key, _, what) = &choices[dialog.selected];
    let marked = wrap(&[Span::raw(clean(what))], &margin(dialog.selected, *key), columns);
    let room = height.saturating_sub(1 + least).max(1);
    let others = room.saturating_sub(marked.len()).min(choices.len() - 1);
    let first = dialog.selected.saturating_sub(others);
    let mut shown = Vec::new();
    for (at, (key, _, what)) in choices.iter().enumerate().skip(first).take(others + 1) {
        if at == dialog.selected {
            shown.extend(marked.iter().take(room).cloned());
            continue;
        }
        let mut spans = margin(at, *key).first;
        spans.push(Span::raw(cut(&clean(what), columns.saturating_sub(5))));
        shown.push(Line::from(spans));
    }
    if least > 0 {
        rows.extend(window(content, dialog.scroll, height - 1 - shown.len()));
    }
    rows.extend(shown);
    Frame { rows, cursor: None }
}

fn title(dialog: &Dialog, open: usize, columns: usize) -> Vec<Line<'static>> {
    let more = if open > 1 { format!(" ({} more wait)", open - 1) } else { String::new() };
    let label = format!(" {}", label(dialog));
    let spans = [Span::styled(asks(dialog), ASKS), Span::raw(label), Span::styled(more, DIM)];
    wrap(&spans, &Margin::default(), columns)
}

fn label(dialog: &Dialog) -> String {
    clean(dialog.started.summary.label.lines().next().unwrap_or_default())
}

fn asks(dialog: &Dialog) -> &'static str {
    match &dialog.started.access {
        Access::Edit { .. } => "Change this file?",
        Access::Execute { .. } => "Run this command?",
        Access::Fetch { .. } => "Fetch this from the web?",
        Access::Mcp { .. } => "Call this tool?",
        Access::ReadFiles { .. } => "Read this?",
        Access::Nothing | Access::Read | Access::Other { .. } => "Do this?",
    }
}

/// All of what is asked about.
fn content(dialog: &Dialog, columns: usize) -> Vec<Line<'static>> {
    let started = &dialog.started;
    if let Some(change) = &started.summary.diff {
        return card::diff(change, usize::MAX, columns).rows;
    }
    let margin = Margin::bar("  ", Style::new());
    match &started.access {
        Access::Execute { command, directory } => {
            let mut shell = Highlighter::new("sh");
            let command = clean(command);
            let lines = command.lines().map(|line| shell.line(line));
            let mut rows: Vec<_> = lines.flat_map(|line| wrap(&line, &margin, columns)).collect();
            let place = format!("in {}", directory.display());
            rows.extend(plain(&place, &margin, DIM, columns));
            rows
        }
        Access::Fetch { urls } => plain(&urls.join("\n"), &margin, CODE, columns),
        Access::Mcp { server, display_name, .. } => {
            let args = &started.call.args;
            let text = format!("{display_name} of the MCP server {server}\n{args:#}");
            plain(&text, &margin, Style::new(), columns)
        }
        Access::Other { description } => plain(description, &margin, Style::new(), columns),
        Access::Edit { path } => plain(&path.display().to_string(), &margin, Style::new(), columns),
        Access::ReadFiles { paths } => {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            plain(&paths.join("\n"), &margin, CODE, columns)
        }
        Access::Nothing | Access::Read => Vec::new(),
    }
}

/// The part of the rows that is shown; it says where there is more.
fn window(rows: &[Line<'static>], scroll: usize, room: usize) -> Vec<Line<'static>> {
    if rows.len() <= room || room == 0 {
        return rows[..rows.len().min(room)].to_vec();
    }
    let hint = usize::from(room > 1);
    let room = room - hint;
    let above = scroll.min(rows.len() - room);
    let below = rows.len() - room - above;
    let mut rows = rows[above..above + room].to_vec();
    let keys = "PgUp, PgDn";
    if hint == 0 {
        return rows;
    }
    rows.push(Line::styled(format!("  … {above} rows above, {below} below ({keys})"), DIM));
    rows
}

/// Why it is asked, and the choices.
fn foot(dialog: &Dialog, columns: usize) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
    let mut rows = Vec::new();
    if let Some(question) = &dialog.started.question {
        let mut why = format!("Asked because {}", question.reason());
        if !question.commands.is_empty() {
            why.push_str(&format!(" (new: {})", question.commands.join(", ")));
        }
        rows.extend(plain(&why, &Margin::default(), DIM, columns));
    }
    if let Some(saying) = &dialog.saying {
        let (said, (row, column)) = said(saying, columns, SAYING);
        let cursor = (rows.len() + row, column);
        rows.extend(said);
        rows.push(Line::styled("Enter rejects and tells the model this; Esc goes back", DIM));
        return (rows, Some(cursor));
    }
    for (at, (key, _, what)) in dialog.choices().into_iter().enumerate() {
        let marked = at == dialog.selected;
        let (mark, style) = if marked { ("› ", USER) } else { ("  ", CODE) };
        let margin = Margin::mark(&format!("{mark}{key}  "), style);
        let style = if marked { BOLD } else { Style::new() };
        rows.extend(wrap(&[Span::styled(clean(&what), style)], &margin, columns));
    }
    (rows, None)
}

/// The sentence that goes with a "no", as far as it is typed, and where the cursor is in it.
fn said(saying: &Input, columns: usize, most: usize) -> (Vec<Line<'static>>, (usize, usize)) {
    let shown = saying.rows(columns.saturating_sub(5), most);
    let lines = shown.texts.iter().enumerate().map(|(at, line)| {
        let mark = if at == 0 && shown.from_the_start { "No: " } else { "    " };
        Line::from(vec![Span::styled(mark, ASKS), Span::raw(line.clone())])
    });
    (lines.collect(), (shown.cursor.0, shown.cursor.1 + 4))
}
