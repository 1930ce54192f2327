//! Status line: the model, the approval mode, the cost, the directory and the connected clients.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::super::clock::seconds;
use super::super::state::ScreenState;
use super::super::theme::{BAD_STYLE, BOLD_STYLE, DIM_STYLE, QUESTION_STYLE};
use super::super::wrap::{Margin, cut, width, wrap};
use tandem_agent::session::{Millis, Mode, shown_id};
use tandem_content::visible::visible_line;

/// Maximum number of rows of a hint.
const HINT_ROWS: usize = 4;

/// Separator between two parts of the status line.
const STATUS_SEPARATOR: &str = " · ";

/// Returns the status line, and above it the hint and the notice of a lost connection.
pub(super) fn rows(state: &ScreenState, columns: usize, now: Millis) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    if state.is_lost() {
        let lost = "The connection to the agent is lost; tandem is trying again.";
        rows.extend(wrap(&[Span::styled(lost, BAD_STYLE)], &Margin::default(), columns));
    }
    if let Some(hint) = &state.hint {
        let hint = wrap(&[Span::styled(hint.clone(), BOLD_STYLE)], &Margin::default(), columns);
        rows.extend(hint.into_iter().take(HINT_ROWS));
    }
    rows.push(status(state, columns, now));
    rows
}

/// Returns the parts of the status line that fit; less important parts are left out first.
fn status(state: &ScreenState, columns: usize, now: Millis) -> Line<'static> {
    let about = &state.about;
    let mode = match about.mode {
        Mode::Default => DIM_STYLE,
        Mode::AutoEdit | Mode::Plan => BOLD_STYLE,
        Mode::Yolo => QUESTION_STYLE,
    };
    // Importance, style and text of each part. If the row is too narrow, parts with the lowest number are left out
    // first.
    let mut parts: Vec<(u8, Style, String)> =
        vec![(5, BOLD_STYLE, shown_id(&about.model)), (6, mode, about.mode.to_string())];
    if let Some(level) = &about.thinking {
        parts.insert(1, (3, DIM_STYLE, format!("thinking: {level}")));
    }
    if let Some(tokens) = state.projection.context_tokens().filter(|tokens| *tokens > 0) {
        parts.push((4, DIM_STYLE, context(tokens, about.input_limit)));
        parts.push((1, DIM_STYLE, format!("{} tokens", count(state.projection.spent_tokens()))));
    }
    if let Some((_, since)) = state.projection.running() {
        parts.push((3, DIM_STYLE, seconds(now - since)));
    }
    if let Some((address, connections)) = &about.a2a {
        let plural = if *connections == 1 { "" } else { "s" };
        parts.push((2, DIM_STYLE, format!("A2A {address} ({connections} connection{plural})")));
    }
    if let Some(elsewhere) = &about.elsewhere {
        parts.push((2, DIM_STYLE, format!("attached to {}", elsewhere.place)));
    }
    parts.push((0, DIM_STYLE, about.workspace.clone()));
    parts.retain(|(_, _, text)| !text.is_empty());
    for (_, _, text) in &mut parts {
        *text = visible_line(text).into_owned();
    }
    let total = |parts: &[(u8, Style, String)]| {
        let texts: usize = parts.iter().map(|(_, _, text)| width(text)).sum();
        texts + width(STATUS_SEPARATOR) * parts.len().saturating_sub(1)
    };
    while parts.len() > 1 && total(&parts) > columns {
        let least = parts.iter().map(|(importance, ..)| *importance).min();
        parts.retain(|(importance, ..)| Some(*importance) != least);
    }
    let mut spans = Vec::new();
    for (_, style, text) in parts {
        if !spans.is_empty() {
            spans.push(Span::styled(STATUS_SEPARATOR, DIM_STYLE));
        }
        spans.push(Span::styled(cut(&text, columns), style));
    }
    Line::from(spans)
}

/// Returns the share of the model's context that is used.
fn context(used: u64, limit: Option<u64>) -> String {
    match limit.filter(|limit| *limit > 0) {
        Some(limit) => format!("context {} ({}%)", count(used), used * 100 / limit),
        None => format!("context {}", count(used)),
    }
}

/// Returns a number for people: `950`, `12k`, `1.5M`.
fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
    }
}
