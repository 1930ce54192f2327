//! A question: what would happen, why it is asked, and what can be answered.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::dialog::Dialog;
use super::super::highlight::Highlighter;
use super::super::theme::{ASKS, BOLD, CODE, DIM, USER};
use super::super::wrap::{Margin, clean, wrap};
use super::{Frame, card, plain, rule};
use crate::session::Access;

/// Rows of the sentence that goes with a "no".
const SAYING: usize = 4;

/// The rows of a question: as many as there are, at most `height`.
pub(super) fn rows(dialog: &Dialog, open: usize, columns: usize, height: usize) -> Frame {
    let mut head = vec![Line::default(), rule(ASKS, columns)];
    head.extend(title(dialog, open, columns));
    let (foot, cursor) = foot(dialog, columns);
    let room = height.saturating_sub(head.len() + foot.len()).max(1);
    let content = dialog.content.get(columns, || content(dialog, columns));
    let content = window(&content, dialog.scroll, room);
    let cursor = cursor.map(|(row, column)| (row + head.len() + content.len(), column));
    let rows = [head, content, foot].concat();
    Frame { rows, cursor }
}

fn title(dialog: &Dialog, open: usize, columns: usize) -> Vec<Line<'static>> {
    let asks = match &dialog.started.access {
        Access::Edit { .. } => "Change this file?",
        Access::Execute { .. } => "Run this command?",
        Access::Fetch { .. } => "Fetch this from the web?",
        Access::Mcp { .. } => "Call this tool?",
        Access::Nothing | Access::Read | Access::Other { .. } => "Do this?",
    };
    let more = if open > 1 { format!(" ({} more wait)", open - 1) } else { String::new() };
    let label = clean(dialog.started.summary.label.lines().next().unwrap_or_default());
    let spans = [Span::styled(asks, ASKS), Span::raw(format!(" {label}")), Span::styled(more, DIM)];
    wrap(&spans, &Margin::default(), columns)
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
        Access::Nothing | Access::Read => Vec::new(),
    }
}

/// The part of the rows that is shown; it says where there is more.
fn window(rows: &[Line<'static>], scroll: usize, room: usize) -> Vec<Line<'static>> {
    if rows.len() <= room {
        return rows.to_vec();
    }
    let room = room.saturating_sub(1).max(1);
    let above = scroll.min(rows.len() - room);
    let below = rows.len() - room - above;
    let mut rows = rows[above..above + room].to_vec();
    let keys = "PgUp, PgDn";
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
        let shown = saying.rows(columns.saturating_sub(5), SAYING);
        let cursor = (rows.len() + shown.cursor.0, shown.cursor.1 + 4);
        for (at, line) in shown.texts.iter().enumerate() {
            let mark = if at == 0 && shown.from_the_start { "No: " } else { "    " };
            rows.push(Line::from(vec![Span::styled(mark, ASKS), Span::raw(line.clone())]));
        }
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
