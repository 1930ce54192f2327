//! Drawing of the screen's state: rows for the scrollback, and the live rows below them.

mod card;
mod content;
mod diff;
mod help;
mod login;
mod models;
mod picker;
mod question;
mod rewind;
mod status;

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::item::{HistoryItem, ItemBody, THOUGHT_MARGIN, Tone};
use super::layout::ItemRows;
use super::markdown::{self, Growing};
use super::picker::Picker;
use super::state::ScreenState;
use super::theme::{
    BAD_STYLE, BOLD_STYLE, CODE_STYLE, DIM_STYLE, GOOD_STYLE, QUESTION_STYLE, USER_STYLE,
};
use super::whole::{broken, wrap_words};
use super::wrap::{Margin, cut, fitting, lines, width};
use tandem_agent::session::{
    CallStarted, CallStatus, Millis, Origin, Todo, TodoStatus, origin_label,
};
use tandem_content::visible::visible_line;

/// Maximum number of todos that are shown.
const MAX_SHOWN_TODOS: usize = 7;

/// Maximum number of bytes that are laid out of a text that is shown in one row.
const MAX_ROW_BYTES: usize = 2000;

/// Maximum number of rows of a prompt that is shown in short.
const MAX_PROMPT_ROWS: usize = 40;

/// Images of the spinner, in order.
const SPINNER_IMAGES: [&str; 8] = ["⠋", "⠙", "⠸", "⢰", "⣠", "⣄", "⡆", "⠇"];

/// Wordings of the hint in an empty line, from the longest to the shortest.
const PROMPT_HINTS: &[&str] = &[
    "a prompt; /command, @file, !shell, ? for the keys",
    "/command, @file, !shell, ? for the keys",
    "/command, @file, ? for the keys",
    "? for the keys",
];

/// Wordings of that hint after a turn that can be continued.
const GO_ON_HINTS: &[&str] = &[
    "Enter goes on; or a prompt, /command, @file, !shell, ? for the keys",
    "Enter goes on; /command, @file, ? for the keys",
    "Enter goes on; ? for the keys",
    "Enter goes on",
];

/// Number of columns below which no room is reserved for the hint: a long description of the activity then takes the
/// whole row.
const MIN_HINT_COLUMNS: usize = 30;

/// Time for which one image of the spinner is shown, in milliseconds.
pub(super) const SPINNER_INTERVAL: Millis = 120;

/// Maximum width of a rule. Some terminals wrap rows anew before they report their new width: a rule that still fits
/// stays one row, so that the screen can remove it completely.
const MAX_RULE_COLUMNS: usize = 80;

/// The live rows, and the cursor's place in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LiveRows {
    /// Rows from the top.
    pub(super) rows: Vec<Line<'static>>,
    /// Row and column of the cursor, if it is visible.
    pub(super) cursor: Option<(usize, usize)>,
}

/// Returns the title of a call, on one line.
pub(super) fn title(started: &CallStarted) -> &str {
    match started.summary.label.trim() {
        "" => &started.call.name,
        title => title,
    }
}

/// Returns the rows of an item as they go into the scrollback; all rows if `unfolded`.
pub(super) fn item(item: &HistoryItem, unfolded: bool, columns: usize) -> ItemRows {
    let mut shown = body(item, item.open || unfolded, columns);
    if item.apart {
        shown.rows.insert(0, Line::default());
    }
    shown
}

/// Returns the last rows of an item that is not in the scrollback yet, at most `room`.
fn last_rows(
    item: &HistoryItem,
    unfolded: bool,
    columns: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let last = |rows: &[Line<'static>]| rows[rows.len().saturating_sub(room)..].to_vec();
    // A live row must be one row of the terminal, so wide rows are broken here.
    let shown = || {
        let ItemRows { rows, whole } = self::item(item, unfolded, columns);
        ItemRows { rows: broken(rows, columns), whole }
    };
    if !item.done {
        return last(&shown().rows);
    }
    last(&item.rows.get((item.open || unfolded, columns), shown).rows)
}

/// Returns the live rows, at most `height`.
pub(super) fn live(state: &ScreenState, columns: usize, height: usize, now: Millis) -> LiveRows {
    if let Some(dialog) = state.questions.shown().filter(|dialog| dialog.reading) {
        return question::read(dialog, columns, height);
    }
    // The rows are laid out in the order of their importance, and each part gets the room that the parts before it have
    // left: the status, the question or the line, the queue and the spinner, the todos, and last the unfinished items.
    let status = status::rows(state, columns, now);
    let draft = draft(state, columns, now);
    let room = height.saturating_sub(status.len() + usize::from(draft.is_some()));
    let mut frame = match state.questions.shown() {
        Some(dialog) if dialog.ready(now) || state.input.is_empty() => {
            question::rows(dialog, state.questions.open.len(), columns, room)
        }
        _ => match &state.offer {
            Some(offer) if offer.ready(now) || state.input.is_empty() => {
                login::rows(offer, columns, room, now)
            }
            _ => match (&state.picker, &state.rewind, &state.models) {
                (Some(picker), ..) => self::picker(picker, columns, room, now),
                (None, Some(menu), _) => rewind::rows(menu, columns, room, now),
                (None, None, Some(menu)) => models::rows(menu, columns, room),
                (None, None, None) => composer(state, columns, room),
            },
        },
    };
    frame.rows.extend(draft);
    frame.rows.extend(status);
    let room = height.saturating_sub(frame.rows.len());
    let mut waiting = queue_and_spinner(state, columns, now);
    let cut_off = waiting.len().saturating_sub(room);
    waiting.drain(..cut_off);
    let mut below = todos(state.projection.todos(), columns, room - waiting.len());
    below.append(&mut waiting);
    let room = room - below.len();
    let mut above = Vec::new();
    // The question itself shows what the call would do, so the call's item is left out.
    let asked = |item: &&HistoryItem| matches!(&item.body, ItemBody::Call(card) if card.status == CallStatus::AwaitingAnswer);
    for item in state.transcript.items.iter().rev().filter(|item| !asked(item)) {
        let mut rows = last_rows(item, state.transcript.unfolded, columns, room - above.len());
        rows.append(&mut above);
        above = rows;
        if above.len() >= room {
            break;
        }
    }
    above.append(&mut below);
    let over = (above.len() + frame.rows.len()).saturating_sub(height.max(1));
    let top = above.len();
    above.append(&mut frame.rows);
    above.drain(..over.min(above.len()));
    let cursor = frame.cursor.map(|(row, column)| ((row + top).saturating_sub(over), column));
    LiveRows { rows: above, cursor }
}

/// Returns the rows of a choice among the stored sessions, at most `height`.
pub(super) fn picker(picker: &Picker, columns: usize, height: usize, now: Millis) -> LiveRows {
    picker::rows(picker, columns, height, now)
}

fn body(item: &HistoryItem, open: bool, columns: usize) -> ItemRows {
    ItemRows::all(match &item.body {
        ItemBody::Prompt(text, by) => return prompt(text, by.as_ref(), open, columns),
        ItemBody::Said(text) => markdown::render_rest(text, columns),
        ItemBody::Thought(text) => return thought(text, item.done, open, columns),
        ItemBody::Help(commands) => help::essential(commands, columns),
        ItemBody::Call(call) => return card::rows(call, open, columns),
        ItemBody::Note(tone, text) => {
            let (mark, style) = match tone {
                Tone::Aside => ("· ", DIM_STYLE),
                Tone::Error => ("✗ ", BAD_STYLE),
            };
            plain(text, &Margin::mark(mark, style), style, columns)
        }
    })
}

/// Returns as much of the beginning of a text as one row can show at most.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_ROW_BYTES)]
}

/// Returns the rows of a text in one style, each line wrapped behind the margin.
fn plain(text: &str, margin: &Margin, style: Style, columns: usize) -> Vec<Line<'static>> {
    let mut margin = margin.clone();
    let mut rows = Vec::new();
    for line in lines(text) {
        rows.extend(wrap_words(&[Span::styled(line.to_owned(), style)], &margin, columns));
        margin.first.clone_from(&margin.rest);
    }
    rows
}

fn prompt(text: &str, by: Option<&Origin>, open: bool, columns: usize) -> ItemRows {
    let text = format!("{}{text}", from(by));
    let most = if open { usize::MAX } else { MAX_PROMPT_ROWS };
    // Only text that can be shown is laid out: a character has at most four bytes.
    let end = text.floor_char_boundary(most.saturating_mul(4 * columns));
    let shown = text[..end].replace("\r\n", "\n");
    let mut rows = plain(&shown, &Margin::mark("› ", USER_STYLE), BOLD_STYLE, columns);
    let whole = end == text.len() && rows.len() <= most;
    if !whole {
        rows.truncate(most);
        rows.push(Line::styled("  … more below (Ctrl+O shows all)", DIM_STYLE));
    }
    ItemRows { rows, whole }
}

/// Returns the label in front of a prompt that did not come from this terminal.
fn from(by: Option<&Origin>) -> String {
    by.map(|by| format!("[{}] ", origin_label(by))).unwrap_or_default()
}

/// Returns the rows of a thought, dimmed: one row with its subject, or the whole text if `open`.
fn thought(thought: &Growing, done: bool, open: bool, columns: usize) -> ItemRows {
    if !open {
        let text = thought.text[thought.context..].trim();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let first = beginning(first);
        let subject = first.strip_prefix("**").and_then(|rest| rest.split_once("**"));
        let subject = subject.map_or(first, |(subject, _)| subject);
        let verb = if done { "thought" } else { "thinking" };
        let line = format!("∴ {verb}: {subject}");
        let shown = cut(&line, columns);
        let whole = shown == visible_line(&line) && subject.len() + 4 >= text.len();
        return ItemRows { rows: vec![Line::styled(shown, DIM_STYLE)], whole };
    }
    let margin = Margin::mark("∴ ", DIM_STYLE);
    let mut rows = markdown::render_rest(thought, columns.saturating_sub(THOUGHT_MARGIN));
    for (at, row) in rows.iter_mut().enumerate() {
        let begins = at == 0 && !thought.goes_on;
        let margin = if begins { &margin.first } else { &margin.rest };
        row.spans.splice(0..0, margin.iter().cloned());
        row.spans.iter_mut().for_each(|span| span.style = span.style.patch(DIM_STYLE));
    }
    ItemRows::all(rows)
}

/// Returns the todo list on at most `room` rows, never without its head.
fn todos(todos: &[Todo], columns: usize, room: usize) -> Vec<Line<'static>> {
    if todos.is_empty() || room == 0 {
        return Vec::new();
    }
    let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let mut rows = Vec::new();
    rows.extend((room > 2).then(Line::default));
    rows.push(Line::styled(format!("todo {done}/{}", todos.len()), BOLD_STYLE));
    let room = room - rows.len();
    // The list begins with the first todo that is not completed, if there are too many.
    let first = todos.iter().position(|todo| todo.status != TodoStatus::Completed).unwrap_or(0);
    let most = if todos.len() > room {
        MAX_SHOWN_TODOS.min(room.saturating_sub(1).max(1))
    } else {
        MAX_SHOWN_TODOS
    };
    let first = first.min(todos.len().saturating_sub(most));
    rows.extend(todos.iter().skip(first).take(most.min(room)).map(|it| todo(it, columns)));
    if todos.len() > first + most && room > most {
        rows.push(Line::styled(format!("  … {} more", todos.len() - first - most), DIM_STYLE));
    }
    rows
}

/// Returns one line of the todo list.
fn todo(todo: &Todo, columns: usize) -> Line<'static> {
    let (mark, style) = match todo.status {
        TodoStatus::Completed => ("✓", DIM_STYLE),
        TodoStatus::InProgress => ("▸", BOLD_STYLE),
        TodoStatus::Pending => ("○", Style::new()),
        TodoStatus::Blocked => ("⊘", BAD_STYLE),
        TodoStatus::Cancelled => ("–", DIM_STYLE),
    };
    let text = beginning(&todo.description);
    Line::from(vec![
        Span::styled(format!("  {mark} "), if mark == "✓" { GOOD_STYLE } else { style }),
        Span::styled(cut(text, columns.saturating_sub(4)), style),
    ])
}

fn queue_and_spinner(state: &ScreenState, columns: usize, now: Millis) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    if let Some(activity) = state.activity(now) {
        rows.push(Line::default());
        let hint = " (Esc cancels)";
        let reserved = if columns < MIN_HINT_COLUMNS { 0 } else { width(hint) };
        let room = columns.saturating_sub(2 + reserved);
        let mut line = vec![
            Span::styled(spinner(now), QUESTION_STYLE),
            Span::raw(cut(beginning(&activity), room)),
        ];
        if super::wrap::width_of(&line) + width(hint) <= columns {
            line.push(Span::styled(hint, DIM_STYLE));
        }
        rows.push(Line::from(line));
    }
    for queued in state.projection.queued() {
        let from = from(queued.origin.as_ref().and_then(|origin| state.other(origin)).as_ref());
        let first = beginning(&queued.prompt);
        rows.push(Line::styled(cut(&format!("  queued: {from}{first}"), columns), DIM_STYLE));
    }
    rows
}

/// Returns the spinner's current image and a space.
fn spinner(now: Millis) -> String {
    let image = usize::try_from(now / SPINNER_INTERVAL).unwrap_or(0) % SPINNER_IMAGES.len();
    format!("{} ", SPINNER_IMAGES[image])
}

/// Returns a horizontal line that separates two parts of the screen.
fn rule(style: Style, columns: usize) -> Line<'static> {
    Line::styled("─".repeat(columns.min(MAX_RULE_COLUMNS)), style)
}

/// Returns the row that shows a begun prompt while a question or an offer takes the place of the line. The begun prompt
/// comes back into the line afterwards, and is sent together with the text that is typed then.
fn draft(state: &ScreenState, columns: usize, now: Millis) -> Option<Line<'static>> {
    let is_asked = state.questions.shown().is_some_and(|dialog| dialog.ready(now));
    let is_offered = state.offer.as_ref().is_some_and(|offer| offer.ready(now));
    if state.input.is_empty() || !(is_asked || is_offered) {
        return None;
    }
    let text = format!("begun, not sent: {}", beginning(state.input.text()));
    Some(Line::styled(cut(&text, columns), DIM_STYLE))
}

/// Returns the rows of the line in which the user types, and of the completions.
fn composer(state: &ScreenState, columns: usize, height: usize) -> LiveRows {
    let mut rows = vec![Line::default(), rule(DIM_STYLE, columns)];
    let (shell, most) = (state.input.text().starts_with('!'), (height / 3).clamp(1, 10));
    let shown = state.input.rows(columns.saturating_sub(3), most);
    let (row, column) = shown.cursor;
    for (at, line) in shown.texts.iter().enumerate() {
        let first = at == 0 && shown.from_the_start;
        let (mark, line) = match line.strip_prefix('!') {
            Some(command) if first && shell => (Span::styled("! ", QUESTION_STYLE), command),
            _ if first => (Span::styled("› ", USER_STYLE), line.as_str()),
            _ => (Span::raw("  "), line.as_str()),
        };
        rows.push(Line::from(vec![mark, Span::raw(line.to_owned())]));
    }
    if state.input.is_empty() {
        let hints = if state.can_go_on { GO_ON_HINTS } else { PROMPT_HINTS };
        rows.pop();
        let room = columns.saturating_sub(2);
        let hint = Span::styled(cut(fitting(hints, room), room), DIM_STYLE);
        rows.push(Line::from(vec![Span::styled("› ", USER_STYLE), hint]));
    }
    let marked = shell && row == 0 && shown.from_the_start;
    let column = if marked { column.saturating_sub(1) } else { column };
    let cursor = Some((2 + row, column + 2));
    let room = height.saturating_sub(rows.len());
    rows.extend(completion_or_help_rows(state, columns).into_iter().take(room));
    LiveRows { rows, cursor }
}

/// Returns the rows of the completions or of the help, if either is open.
fn completion_or_help_rows(state: &ScreenState, columns: usize) -> Vec<Line<'static>> {
    if let Some(completion) = &state.completion {
        let row = |(at, candidate): (usize, &super::complete::CompletionCandidate)| {
            let (mark, style) =
                if at == completion.selected { ("› ", USER_STYLE) } else { ("  ", CODE_STYLE) };
            let text = beginning(&candidate.text).replace('\n', " ");
            let text = cut(text.trim_end(), columns.saturating_sub(2));
            let room = columns.saturating_sub(width(&text) + 4);
            let help = cut(beginning(&candidate.help), room);
            Line::from(vec![
                Span::styled(format!("{mark}{text}"), style),
                Span::styled(format!("  {help}"), DIM_STYLE),
            ])
        };
        return completion.candidates.iter().take(8).enumerate().map(row).collect();
    }
    if state.help { help::keys(columns) } else { Vec::new() }
}
