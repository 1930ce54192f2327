//! Rows of a call: one row with its title and status, and below it the output or the result.

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::super::item::CallCard;
use super::super::layout::ItemRows;
use super::super::markdown;
use super::super::played::played_lines;
use super::super::theme::{BAD_STYLE, CODE_STYLE, DIM_STYLE, GOOD_STYLE, QUESTION_STYLE};
use super::super::whole::wrap_words;
use super::super::wrap::{Margin, cut, fold, width, width_of};
use super::diff;
use tandem_agent::session::{
    Access, CallStarted, CallStatus, Decision, FileDiff, ResultContent, ToolOutcome, WebSource,
    explain_unknown_outcome,
};
use tandem_content::visible::visible_line;

/// Maximum number of rows of output, while it grows and afterwards.
const MAX_OUTPUT_ROWS: usize = 8;

/// Maximum number of rows of a change.
const MAX_CHANGE_ROWS: usize = 30;

/// Names of the tools that read the output of a command in the background.
const BACKGROUND_TOOLS: [&str; 2] = ["read_background_output", "write_stdin"];

/// Maximum number of rows of any other result.
const MAX_RESULT_ROWS: usize = 3;

/// Returns the rows of a call; all of its result if `open`.
pub(super) fn rows(card: &CallCard, open: bool, columns: usize) -> ItemRows {
    let all = |most| if open { usize::MAX } else { most };
    let output = |text| output(text, runs(&card.started), all(MAX_OUTPUT_ROWS), columns);
    let mut counts = Vec::new();
    let mut shown = match &card.outcome {
        None if card.status == CallStatus::AwaitingAnswer => ItemRows::default(),
        None => output(&card.output),
        Some(ToolOutcome::Done(done)) => match &done.shown {
            Some(ResultContent::Output(text)) => output(text),
            Some(ResultContent::Diff(change)) if change.others.is_empty() => {
                let lines = change.lines();
                counts = diff::counts(change, &lines);
                limited(diff::rows(change, &lines, diff::ALL_LINES, columns), all(MAX_CHANGE_ROWS))
            }
            Some(ResultContent::Diff(change)) => {
                let rows = change.each().flat_map(|change| named_change(change, columns));
                limited(rows.collect(), all(MAX_CHANGE_ROWS))
            }
            Some(ResultContent::Markdown(text)) => text_rows(text, all(MAX_RESULT_ROWS), columns),
            Some(ResultContent::Sources(sources)) => {
                text_rows(&WebSource::list(sources), all(MAX_RESULT_ROWS), columns)
            }
            Some(ResultContent::Todos(todos)) => {
                let margin = columns.saturating_sub(2);
                ItemRows::all(todos.iter().map(|todo| super::todo(todo, margin)).collect())
            }
            Some(ResultContent::Server(answer)) if answer.is_json() => output(&answer.text),
            Some(ResultContent::Server(answer)) => {
                text_rows(&answer.text, all(MAX_RESULT_ROWS), columns)
            }
            None => ItemRows::default(),
        },
        Some(ToolOutcome::Failed(error)) => match &error.shown {
            Some(ResultContent::Server(answer)) => limited(
                super::plain(&answer.text, &bar(), BAD_STYLE, columns),
                all(MAX_RESULT_ROWS * 2),
            ),
            Some(ResultContent::Output(text)) => output(text),
            _ => limited(
                super::plain(&error.message, &bar(), BAD_STYLE, columns),
                all(MAX_RESULT_ROWS * 2),
            ),
        },
        Some(ToolOutcome::Unknown(outcome)) => {
            let text = explain_unknown_outcome(outcome);
            limited(super::plain(&text, &bar(), DIM_STYLE, columns), all(MAX_RESULT_ROWS * 2))
        }
        Some(ToolOutcome::Rejected | ToolOutcome::Cancelled | ToolOutcome::Interrupted) => {
            ItemRows::default()
        }
    };
    shown.rows.insert(0, head(card, counts, columns));
    shown
}

fn bar() -> Margin {
    Margin::bar("  │ ", DIM_STYLE)
}

/// Returns the rows of the change of one of several files: the file's name and counts, and the lines.
fn named_change(change: &FileDiff, columns: usize) -> Vec<Line<'static>> {
    let lines = change.lines();
    let name = Span::raw(format!("  {}", visible_line(&change.path)));
    let head = [vec![name], diff::counts(change, &lines)].concat();
    let margin = Margin::bar("", Style::new());
    let head = fold(&head, &margin, columns);
    head.into_iter().chain(diff::rows(change, &lines, diff::ALL_LINES, columns)).collect()
}

fn head(card: &CallCard, counts: Vec<Span<'static>>, columns: usize) -> Line<'static> {
    let (mark, style) = match card.status {
        CallStatus::AwaitingAnswer => ("?", QUESTION_STYLE),
        CallStatus::Running => ("•", CODE_STYLE),
        CallStatus::Succeeded => ("✓", GOOD_STYLE),
        CallStatus::Failed | CallStatus::Rejected => ("✗", BAD_STYLE),
        CallStatus::Cancelled | CallStatus::Interrupted | CallStatus::Unknown => ("–", DIM_STYLE),
    };
    let remark = remark(card);
    let room = columns.saturating_sub(2 + width_of(&counts));
    let label = cut(super::beginning(super::title(&card.started)), room);
    let rest = room.saturating_sub(width(&label));
    let mut spans = vec![Span::styled(format!("{mark} "), style), Span::raw(label)];
    spans.extend(counts);
    spans.push(Span::styled(cut(&remark, rest), DIM_STYLE));
    Line::from(spans)
}

/// Returns the decision of a question and its author. Without a question, returns the outcome of a call that has no
/// result.
fn remark(card: &CallCard) -> String {
    let by = match &card.answer {
        Some((_, Some(by))) => format!(" by {by}"),
        Some((_, None)) | None => String::new(),
    };
    match card.answer.as_ref().map(|(answer, _)| answer.decision()) {
        Some(Decision::Always(scope)) => format!(" · allowed{by}: always {scope}"),
        Some(Decision::AlwaysAndSave(scope)) => {
            format!(" · allowed{by}, and remembered: always {scope}")
        }
        Some(Decision::Reject(Some(why))) => format!(" · rejected{by}: {why}"),
        Some(decision) if decision != Decision::Run || !by.is_empty() => {
            format!(" · {}{by}", decision.label())
        }
        _ if matches!(card.outcome, Some(ToolOutcome::Cancelled)) => " · cancelled".to_owned(),
        _ if matches!(card.outcome, Some(ToolOutcome::Interrupted)) => " · interrupted".to_owned(),
        _ => String::new(),
    }
}

/// Returns whether a call's output was written by a program for a terminal.
fn runs(started: &CallStarted) -> bool {
    matches!(started.access, Access::Execute { .. })
        || BACKGROUND_TOOLS.contains(&started.call.name.as_str())
}

/// Returns the last rows of an output. `plays`: the output is shown as a terminal would show it, else with every hidden
/// character written out.
fn output(text: &str, plays: bool, most: usize, columns: usize) -> ItemRows {
    // Only lines that can be shown are laid out.
    let text = text.trim_end();
    let from = memchr::memrchr_iter(b'\n', text.as_bytes()).nth(most - 1).map_or(0, |at| at + 1);
    let skipped = memchr::memchr_iter(b'\n', &text.as_bytes()[..from]).count();
    let mut rows = if plays {
        coloured(&text[from..], columns)
    } else {
        super::plain(&text[from..], &bar(), DIM_STYLE, columns)
    };
    let over = rows.len().saturating_sub(most);
    rows.drain(..over);
    let hidden = skipped + over;
    if hidden > 0 {
        rows.insert(0, more(hidden, "above"));
    }
    ItemRows { rows, whole: hidden == 0 }
}

/// Returns the rows of an output as a terminal shows it. Text without a colour of its own is dimmed.
fn coloured(text: &str, columns: usize) -> Vec<Line<'static>> {
    let mut lines = played_lines(text);
    let is_blank = |line: &mut Vec<Span<'_>>| line.iter().all(|it| it.content.trim().is_empty());
    while lines.pop_if(is_blank).is_some() {}
    let mut rows = Vec::new();
    for mut line in lines {
        for span in &mut line {
            span.style = if span.style == Style::new() { DIM_STYLE } else { span.style };
        }
        rows.extend(wrap_words(&line, &bar(), columns));
    }
    rows
}

fn more(rows: usize, place: &str) -> Line<'static> {
    Line::styled(format!("  │ … {rows} more {place} (Ctrl+O shows all)"), DIM_STYLE)
}

fn limited(mut rows: Vec<Line<'static>>, most: usize) -> ItemRows {
    let over = rows.len().saturating_sub(most);
    if over > 0 {
        rows.truncate(most);
        rows.push(more(over, "below"));
    }
    ItemRows { rows, whole: over == 0 }
}

fn text_rows(text: &str, most: usize, columns: usize) -> ItemRows {
    let rows = markdown::render(text, columns.saturating_sub(4));
    let barred = rows.into_iter().map(|mut row| {
        row.spans.iter_mut().for_each(|span| span.style = span.style.add_modifier(Modifier::DIM));
        row.spans.insert(0, Span::styled("  │ ", DIM_STYLE));
        row
    });
    limited(barred.collect(), most)
}
