//! Rows of a change of a file: numbered lines, coloured if they are new or removed, with changed words underlined.

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::super::theme::{BAD_STYLE, CODE_STYLE, DIM_STYLE, GOOD_STYLE};
use super::super::wrap::{Margin, fold};
use tandem_agent::session::{DiffLine, FileDiff, LineDiff, Side};

/// Value of `around` with which no unchanged line is left out.
pub(super) const ALL_LINES: usize = usize::MAX;

/// Mark between two groups of lines, where unchanged lines are left out.
const LEFT_OUT: &str = "⋮";

/// Returns the rows of a change, with at most `around` unchanged lines before and after a changed one.
pub(super) fn rows(
    change: &FileDiff,
    diff: &LineDiff,
    around: usize,
    columns: usize,
) -> Vec<Line<'static>> {
    let last = diff.hunks.iter().flatten().map(|line| line.number).max().unwrap_or(0);
    let digits = last.to_string().len();
    let mut rows = Vec::new();
    let hunks = diff.hunks.iter().flat_map(|hunk| near_changes(hunk, around));
    for (at, hunk) in hunks.enumerate() {
        if at > 0 {
            rows.push(Line::styled(format!("  {LEFT_OUT:>digits$}"), DIM_STYLE));
        }
        rows.extend(hunk.into_iter().flat_map(|line| numbered(line, digits, columns)));
    }
    if rows.is_empty() {
        let what = if change.new.is_empty() { "(an empty file)" } else { "(no line is changed)" };
        rows.push(Line::styled(format!("  {what}"), DIM_STYLE));
    }
    rows
}

/// Returns groups of the lines that are changed or near a changed one.
fn near_changes(hunk: &[DiffLine], around: usize) -> Vec<Vec<&DiffLine>> {
    let is_near = |at: usize| {
        let (from, to) = (at.saturating_sub(around), at.saturating_add(around));
        hunk[from..hunk.len().min(to.saturating_add(1))].iter().any(|it| it.side != Side::Both)
    };
    let near: Vec<_> = hunk.iter().enumerate().map(|(at, line)| (is_near(at), line)).collect();
    let groups = near.chunk_by(|a, b| a.0 == b.0).filter(|group| group[0].0);
    groups.map(|group| group.iter().map(|(_, line)| *line).collect()).collect()
}

/// Returns the rows of one line.
fn numbered(line: &DiffLine, digits: usize, columns: usize) -> Vec<Line<'static>> {
    let (sign, style) = match line.side {
        Side::Both => (" ", Style::new()),
        Side::Old => ("-", BAD_STYLE),
        Side::New => ("+", GOOD_STYLE),
    };
    let number = format!("  {:>digits$} ", line.number);
    let rest = vec![Span::raw(" ".repeat(number.len() + sign.len()))];
    let first = vec![Span::styled(number, DIM_STYLE), Span::styled(sign, style)];
    let margin = Margin { first, rest };
    let pieces = line.pieces.iter().map(|(changed, text)| {
        let mark = if *changed { Modifier::UNDERLINED } else { Modifier::empty() };
        Span::styled(text.clone(), style.add_modifier(mark))
    });
    let mut rows = fold(&pieces.collect::<Vec<_>>(), &margin, columns);
    if line.unended {
        let margin = Margin { first: margin.rest.clone(), rest: margin.rest };
        let note =
            Span::styled("\\ No newline at end of file", CODE_STYLE.add_modifier(Modifier::DIM));
        rows.extend(fold(&[note], &margin, columns));
    }
    rows
}

/// Returns the numbers of added and removed lines, and the special properties of the file.
pub(super) fn counts(change: &FileDiff, diff: &LineDiff) -> Vec<Span<'static>> {
    let mut counts = vec![
        Span::styled(format!("  +{}", diff.added), GOOD_STYLE),
        Span::styled(format!(" -{}", diff.removed), BAD_STYLE),
    ];
    let what = match (&change.old, &change.moved_from) {
        _ if change.removes => Some(" removed"),
        (_, Some(_)) => Some(" moved"),
        (None, None) => Some(" new file"),
        (Some(_), None) => None,
    };
    counts.extend(what.map(|what| Span::styled(what, DIM_STYLE)));
    if diff.crlf {
        counts.push(Span::styled(" CRLF", DIM_STYLE));
    }
    counts
}
