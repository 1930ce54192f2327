//! A call: one row that says what it is and how it went, and what came of it below.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::item::Card;
use super::super::markdown;
use super::super::theme::{ASKS, BAD, CODE, DIM, GOOD};
use super::super::wrap::{Margin, clean, cut, width, wrap};
use super::Shown;
use crate::session::{Answer, Content, FileDiff, Source, ToolOutcome};

/// Rows of output that are shown while it grows, and when it has ended.
const OUTPUT: usize = 8;

/// Rows of a change.
const CHANGE: usize = 30;

/// Rows of anything else.
const TEXT: usize = 3;

/// The rows of a card.
pub(super) fn rows(card: &Card, open: bool, columns: usize) -> Shown {
    let all = |most| if open { usize::MAX } else { most };
    let mut shown = match &card.outcome {
        None if card.asked => Shown::default(),
        None => output(&card.output, all(OUTPUT), columns),
        Some(ToolOutcome::Done(done)) => match &done.shown {
            Some(Content::Output(text)) => output(text, all(OUTPUT), columns),
            Some(Content::Diff(change)) => diff(change, all(CHANGE), columns),
            Some(Content::Markdown(text)) => text_rows(text, all(TEXT), columns),
            Some(Content::Sources(sources)) => {
                text_rows(&Source::list(sources), all(TEXT), columns)
            }
            Some(Content::Todos(todos)) => {
                let margin = columns.saturating_sub(2);
                Shown::all(todos.iter().map(|todo| super::todo(todo, margin)).collect())
            }
            Some(Content::Server(answer)) if answer.is_json() => {
                output(&answer.text, all(OUTPUT), columns)
            }
            Some(Content::Server(answer)) => text_rows(&answer.text, all(TEXT), columns),
            None => Shown::default(),
        },
        Some(ToolOutcome::Failed(error)) => match &error.shown {
            Some(Content::Server(answer)) => {
                limited(super::plain(&answer.text, &bar(), BAD, columns), all(TEXT * 2))
            }
            Some(Content::Output(text)) => output(text, all(OUTPUT), columns),
            _ => limited(super::plain(&error.message, &bar(), BAD, columns), all(TEXT * 2)),
        },
        Some(ToolOutcome::Rejected | ToolOutcome::Cancelled) => Shown::default(),
    };
    shown.rows.insert(0, head(card, columns));
    shown
}

fn bar() -> Margin {
    Margin::bar("  │ ", DIM)
}

fn head(card: &Card, columns: usize) -> Line<'static> {
    let (mark, style) = match &card.outcome {
        None if card.asked => ("?", ASKS),
        None => ("•", CODE),
        Some(ToolOutcome::Done(_)) => ("✓", GOOD),
        Some(ToolOutcome::Failed(_) | ToolOutcome::Rejected) => ("✗", BAD),
        Some(ToolOutcome::Cancelled) => ("–", DIM),
    };
    let remark = remark(card);
    let label = clean(card.started.summary.label.lines().next().unwrap_or_default());
    let room = columns.saturating_sub(2);
    let label = cut(&label, room);
    let rest = room.saturating_sub(width(&label));
    Line::from(vec![
        Span::styled(format!("{mark} "), style),
        Span::raw(label),
        Span::styled(cut(&remark, rest), DIM),
    ])
}

/// Who decided, if that was asked; and what came of it, if nothing did.
fn remark(card: &Card) -> String {
    let by = match &card.answer {
        Some((_, Some(by))) => format!(" by {by}"),
        Some((_, None)) | None => String::new(),
    };
    let answered = match card.answer.as_ref().map(|(answer, _)| answer) {
        None => None,
        Some(Answer::Once { edited: None }) if by.is_empty() => None,
        Some(Answer::Once { edited: None }) => Some("allowed".to_owned()),
        Some(Answer::Once { edited: Some(_) }) => Some("edited and allowed".to_owned()),
        Some(Answer::Always(scope)) => return format!(" · allowed{by}: always {scope}"),
        Some(Answer::AlwaysAndSave(scope)) => {
            return format!(" · allowed{by}, and remembered: always {scope}");
        }
        Some(Answer::Reject) => Some("rejected".to_owned()),
        Some(Answer::RejectSaying(why)) => return format!(" · rejected{by}: {}", clean(why)),
        Some(Answer::Cancel) => Some("cancelled".to_owned()),
        Some(Answer::Unclear(_)) => Some("answer not understood".to_owned()),
        Some(Answer::Nobody(_)) => Some("nobody could be asked".to_owned()),
    };
    match (answered, &card.outcome) {
        (Some(answered), _) => format!(" · {answered}{by}"),
        (None, Some(ToolOutcome::Cancelled)) => " · cancelled".to_owned(),
        (None, _) => String::new(),
    }
}

/// The last rows of a program's output.
fn output(text: &str, most: usize, columns: usize) -> Shown {
    // No more lines are looked at than can be seen.
    let text = text.trim_end();
    let from = memchr::memrchr_iter(b'\n', text.as_bytes()).nth(most - 1).map_or(0, |at| at + 1);
    let skipped = memchr::memchr_iter(b'\n', &text.as_bytes()[..from]).count();
    let mut rows = super::plain(clean(&text[from..]).trim_end(), &bar(), DIM, columns);
    let over = rows.len().saturating_sub(most);
    rows.drain(..over);
    let hidden = skipped + over;
    if hidden > 0 {
        rows.insert(0, more(hidden, "above"));
    }
    Shown { rows, whole: hidden == 0 }
}

fn more(rows: usize, place: &str) -> Line<'static> {
    Line::styled(format!("  │ … {rows} more {place} (Ctrl+O shows all)"), DIM)
}

fn limited(mut rows: Vec<Line<'static>>, most: usize) -> Shown {
    let over = rows.len().saturating_sub(most);
    if over > 0 {
        rows.truncate(most);
        rows.push(more(over, "below"));
    }
    Shown { rows, whole: over == 0 }
}

fn text_rows(text: &str, most: usize, columns: usize) -> Shown {
    let rows = markdown::render(text, columns.saturating_sub(4));
    let barred = rows.into_iter().map(|mut row| {
        row.spans.iter_mut().for_each(|span| span.style = span.style.add_modifier(Modifier::DIM));
        row.spans.insert(0, Span::styled("  │ ", DIM));
        row
    });
    limited(barred.collect(), most)
}

/// A change, its lines in colours.
pub(super) fn diff(change: &FileDiff, most: usize, columns: usize) -> Shown {
    let unified = clean(&change.unified());
    let mut rows = Vec::new();
    // The names of the file are said above.
    for line in unified.lines().skip_while(|line| !line.starts_with("@@")) {
        let style = match line.as_bytes().first() {
            Some(b'+') => GOOD,
            Some(b'-') => BAD,
            Some(b'@' | b'\\') => CODE.add_modifier(Modifier::DIM),
            _ => Style::new(),
        };
        let margin = Margin { first: vec![Span::raw("  ")], rest: vec![Span::raw("   ")] };
        rows.extend(wrap(&[Span::styled(line.to_owned(), style)], &margin, columns));
    }
    limited(rows, most)
}
