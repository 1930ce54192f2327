//! A change of a file: numbered lines, in colours where they are new or gone, changed words underlined.

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::super::theme::{BAD, CODE, DIM, GOOD};
use super::super::wrap::{Margin, fold};
use tandem_agent::session::{DiffLine, FileDiff, LineDiff, Side};

/// Between two groups of lines, where lines that stay are left out.
const LEFT_OUT: &str = "⋮";

/// The rows of all of a change.
pub(super) fn rows(change: &FileDiff, diff: &LineDiff, columns: usize) -> Vec<Line<'static>> {
    let last = diff.hunks.iter().flatten().map(|line| line.number).max().unwrap_or(0);
    let digits = last.to_string().len();
    let mut rows = Vec::new();
    for (at, hunk) in diff.hunks.iter().enumerate() {
        if at > 0 {
            rows.push(Line::styled(format!("  {LEFT_OUT:>digits$}"), DIM));
        }
        rows.extend(hunk.iter().flat_map(|line| numbered(line, digits, columns)));
    }
    if rows.is_empty() {
        let what = if change.new.is_empty() { "(an empty file)" } else { "(no line is changed)" };
        rows.push(Line::styled(format!("  {what}"), DIM));
    }
    rows
}

/// The rows of one line.
fn numbered(line: &DiffLine, digits: usize, columns: usize) -> Vec<Line<'static>> {
    let (sign, style) = match line.side {
        Side::Both => (" ", Style::new()),
        Side::Old => ("-", BAD),
        Side::New => ("+", GOOD),
    };
    let number = format!("  {:>digits$} ", line.number);
    let rest = vec![Span::raw(" ".repeat(number.len() + sign.len()))];
    let first = vec![Span::styled(number, DIM), Span::styled(sign, style)];
    let margin = Margin { first, rest };
    let pieces = line.pieces.iter().map(|(changed, text)| {
        let mark = if *changed { Modifier::UNDERLINED } else { Modifier::empty() };
        Span::styled(text.clone(), style.add_modifier(mark))
    });
    let mut rows = fold(&pieces.collect::<Vec<_>>(), &margin, columns);
    if line.unended {
        let margin = Margin { first: margin.rest.clone(), rest: margin.rest };
        let note = Span::styled("\\ No newline at end of file", CODE.add_modifier(Modifier::DIM));
        rows.extend(fold(&[note], &margin, columns));
    }
    rows
}

/// Returns the numbers of lines that are new and that are gone, and what is special about the file.
pub(super) fn counts(change: &FileDiff, diff: &LineDiff) -> Vec<Span<'static>> {
    let mut counts = vec![
        Span::styled(format!(" +{}", diff.added), GOOD),
        Span::styled(format!(" -{}", diff.removed), BAD),
    ];
    if change.old.is_none() {
        counts.push(Span::styled(" new file", DIM));
    }
    if diff.crlf {
        counts.push(Span::styled(" CRLF", DIM));
    }
    counts
}
