//! Rows of a question: the content of the call, the reason for the question, and the choices.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::super::dialog::{Dialog, NO_KEY, VisibleRows};
use super::super::input::TextInput;
use super::super::layout::QuestionRows;
use super::super::theme::{
    BAD_STYLE, BOLD_STYLE, CODE_STYLE, DIM_STYLE, QUESTION_STYLE, USER_STYLE,
};
use super::super::wrap::{Margin, cut, fitting, width, width_of, wrap};
use super::content::{content, reason};
use super::diff::ALL_LINES;
use super::{LiveRows, rule};
use tandem_agent::commands::is_share;
use tandem_agent::session::Access;
use tandem_content::visible;

/// Number of rows that are left for the conversation above a question.
const CONVERSATION_ROWS: usize = 2;

/// Maximum number of rows of the sentence that explains a rejection.
const MAX_REASON_ROWS: usize = 4;

/// Wordings of the effect of Enter in that sentence, from the longest to the shortest.
const SAYING_HELPS: &[&str] = &[
    "Enter rejects the call, and sends this to the model; Esc goes back",
    "Enter rejects, and sends this text; Esc goes back",
    "Enter rejects; Esc goes back",
];

/// Wordings of the effect of Enter in the answer to a question of the model.
const REPLY_HELPS: &[&str] =
    &["Enter answers with this; Esc goes back", "Enter answers; Esc goes back"];

/// Wordings of that effect for a sentence that shares the session.
const SHARE_HELPS: &[&str] = &[
    "Enter runs this, and the question stays open; Esc goes back",
    "Enter runs this; Esc goes back",
];

/// Minimum number of content rows, including the row that tells the place in them: details are left out until there is
/// room for them, or for a third of the screen if that is more.
const MIN_CONTENT_ROWS: usize = 5;

/// The minimum where only the marked choice is shown.
const LEAST_WITH_KEYS: usize = 2;

/// Amount of detail around the content of a question. Details that are cut can be read on the whole screen.
#[derive(Debug, Clone, Copy)]
struct DetailLevel {
    /// `true` if an empty row and a rule separate the question from the rows above.
    apart: bool,
    /// Maximum number of rows of the title.
    title: usize,
    /// Maximum number of rows of the reason.
    reason: usize,
    /// Maximum number of rows of each choice; 0 if only the marked choice is shown.
    choice: usize,
    /// `true` if the keys of the other choices are listed when `choice` is 0.
    keys: bool,
}

/// Levels of detail, from the most to the least.
const DETAIL_LEVELS: [DetailLevel; 6] = [
    DetailLevel { apart: true, title: 2, reason: 3, choice: 2, keys: true },
    DetailLevel { apart: false, title: 2, reason: 3, choice: 2, keys: true },
    DetailLevel { apart: false, title: 1, reason: 1, choice: 1, keys: true },
    DetailLevel { apart: false, title: 1, reason: 0, choice: 1, keys: true },
    DetailLevel { apart: false, title: 1, reason: 0, choice: 0, keys: true },
    DetailLevel { apart: false, title: 1, reason: 0, choice: 0, keys: false },
];

/// Number of the first levels that show all choices and the reason.
const WITH_ANSWERS: usize = 3;

/// Maximum number of rows of a change from which unchanged lines may be left out, so that all changed lines fit.
const MAX_COMPACTED: usize = 60;

/// Number of unchanged lines that stay before and after a changed one in that case.
const CONTEXT_LINES: usize = 1;

/// Rows of a part of a question.
#[derive(Debug, Default)]
struct QuestionPart {
    columns: usize,
    rows: Vec<Line<'static>>,
    /// `true` if any of the part is left out.
    cut: bool,
    cursor: Option<(usize, usize)>,
}

impl QuestionPart {
    /// Adds a text, on at most `most` rows.
    fn text(&mut self, text: &str, margin: &Margin, style: Style, most: usize) {
        let mut rows = wrap(&[Span::styled(text.to_owned(), style)], margin, self.columns);
        if rows.len() > most {
            rows.truncate(most);
            self.cut = true;
            let room = self.columns.saturating_sub(width_of(&margin.first));
            if let Some(last) = rows.last_mut().and_then(|row| row.spans.last_mut()) {
                // A single row shows as much of the text as it can; of several rows, only the last one gets the
                // ellipsis.
                let text =
                    if most == 1 { text } else { &format!("{} …", last.content.trim_end()) };
                last.content = cut(text, room).into();
            }
        }
        self.rows.extend(rows);
    }
}

/// Returns the rows of a question, at most `height`; `open` is the number of open questions. A change of a file is
/// shown completely if possible, first with all its unchanged lines and then without most of them; else a part of the
/// content.
pub(super) fn rows(dialog: &Dialog, open: usize, columns: usize, height: usize) -> LiveRows {
    let mut content =
        dialog.content.get((columns, false), || content(dialog, false, ALL_LINES, columns));
    let size = ScreenSize { columns, height };
    let mut laid_out = None;
    if matches!(dialog.started.access, Access::Edit { .. }) {
        laid_out = whole(dialog, &content, open, size);
        if laid_out.is_none() && content.rows.len() <= MAX_COMPACTED {
            let compact = || self::content(dialog, false, CONTEXT_LINES, columns);
            let compact = dialog.compact.get(columns, compact);
            laid_out = whole(dialog, &compact, open, size);
            content = if laid_out.is_some() { compact } else { content };
        }
    }
    let laid_out = laid_out.or_else(|| part(dialog, &content, open, size));
    let Some(Layout { head, mut foot, mut room, detail }) = laid_out else {
        return LiveRows::default();
    };
    // Rows that nothing else needs show choices that are not marked.
    let left = room.saturating_sub(content.rows.len() + 1).min(dialog.choices().len() - 1);
    if detail.choice == 0 && left > 0 && dialog.saying.is_none() {
        foot = self::foot(dialog, detail, left, columns);
        room -= left;
    }
    let keys = ["v: full screen", "PgUp, PgDn", "Shift+Up, Shift+Down", "Home, End"];
    let content = window(
        dialog,
        &content.rows,
        room,
        PlaceRow { keys: &keys, columns, is_always: head.cut || foot.cut },
    );
    let above = head.rows.len() + content.len();
    let cursor = foot.cursor.map(|(row, column)| (row + above, column));
    LiveRows { rows: [head.rows, content, foot.rows].concat(), cursor }
}

/// Numbers of columns and rows that a question may take.
#[derive(Clone, Copy)]
struct ScreenSize {
    columns: usize,
    height: usize,
}

/// Parts of a question without its content, and the number of rows that are left for the content.
struct Layout {
    head: QuestionPart,
    foot: QuestionPart,
    room: usize,
    detail: DetailLevel,
}

/// Returns the layout with this detail, and whether the parts fit.
fn layout(
    dialog: &Dialog,
    content: &QuestionRows,
    open: usize,
    detail: DetailLevel,
    ScreenSize { columns, height }: ScreenSize,
) -> (Layout, bool) {
    let head = head(dialog, content, open, detail, columns);
    let foot = foot(dialog, detail, 0, columns);
    // A question that is separated by a rule leaves rows for the conversation above.
    let height = if detail.apart { height.saturating_sub(CONVERSATION_ROWS) } else { height };
    let room = height.checked_sub(head.rows.len() + foot.rows.len());
    let fits = room.is_some();
    (Layout { head, foot, room: room.unwrap_or(0), detail }, fits)
}

/// Returns the layout with the most detail that shows the whole content, the reason and all choices; `None` if there is
/// no room for them.
fn whole(dialog: &Dialog, content: &QuestionRows, open: usize, size: ScreenSize) -> Option<Layout> {
    let layouts = DETAIL_LEVELS[..WITH_ANSWERS].iter();
    let layouts = layouts.map(|detail| layout(dialog, content, open, *detail, size));
    let mut fitting = layouts.filter(|(layout, fits)| *fits && layout.room >= content.rows.len());
    fitting.next().map(|(layout, _)| layout)
}

/// Returns the layout with the most detail that leaves room for some of the content.
fn part(dialog: &Dialog, content: &QuestionRows, open: usize, size: ScreenSize) -> Option<Layout> {
    let least = content.rows.len().min(MIN_CONTENT_ROWS.max(size.height / 3));
    let mut tried = None;
    for detail in DETAIL_LEVELS {
        let (layout, fits) = layout(dialog, content, open, detail, size);
        // Where only the marked choice is shown, fewer content rows are enough: the keys of the other choices matter
        // more.
        let least = if detail.choice == 0 { least.min(LEAST_WITH_KEYS) } else { least };
        let enough = fits && layout.room >= least;
        tried = Some(layout);
        if enough {
            break;
        }
    }
    tried
}

/// Returns the rows of a question that is shown on the whole screen.
pub(super) fn read(dialog: &Dialog, columns: usize, height: usize) -> LiveRows {
    let content = dialog.content.get((columns, true), || content(dialog, true, ALL_LINES, columns));
    let detail = DETAIL_LEVELS[DETAIL_LEVELS.len() - 1];
    let head = head(dialog, &content, 1, detail, columns);
    let foot = format!("Esc: back · answers: {}", answers(dialog));
    let foot = Line::styled(cut(&foot, columns), DIM_STYLE);
    let room = height.saturating_sub(head.rows.len() + 1);
    let keys = ["PgUp, PgDn", "Up, Down", "Home, End"];
    let content =
        window(dialog, &content.rows, room, PlaceRow { keys: &keys, columns, is_always: false });
    LiveRows { rows: [head.rows, content, vec![foot]].concat(), cursor: None }
}

/// Returns the part of a question above its content: the title, and a notice of hidden characters.
fn head(
    dialog: &Dialog,
    content: &QuestionRows,
    open: usize,
    detail: DetailLevel,
    columns: usize,
) -> QuestionPart {
    let mut head = QuestionPart { columns, ..QuestionPart::default() };
    if detail.apart {
        head.rows.extend([Line::default(), rule(QUESTION_STYLE, columns)]);
    }
    let mut more = content.counts.clone();
    if open > 1 {
        more.push(Span::styled(format!(" ({} more wait)", open - 1), DIM_STYLE));
    }
    let title = match dialog.input_question() {
        Some(question) => question.header.clone(),
        None => super::title(&dialog.started).to_owned(),
    };
    let title = format!(" {title}");
    let spans = [vec![asking(dialog), Span::raw(title.clone())], more.clone()].concat();
    let rows = wrap(&spans, &Margin::default(), columns);
    if rows.len() <= detail.title {
        head.rows.extend(rows);
    } else {
        head.cut = true;
        head.rows.extend(short_title(asking(dialog), &title, more, detail.title, columns));
    }
    if content.hidden {
        head.text(visible::HIDDEN_NOTICE, &Margin::default(), BAD_STYLE, detail.title);
    }
    head
}

/// Returns a cut title, on one row or two.
fn short_title(
    mut asks: Span<'static>,
    title: &str,
    mut more: Vec<Span<'static>>,
    rows: usize,
    columns: usize,
) -> Vec<Line<'static>> {
    let room = columns.saturating_sub(width(&asks.content));
    asks.content = cut(&asks.content, columns).into();
    if rows == 1 {
        // Special properties of the file are left out first.
        more.truncate(2);
    }
    if width_of(&more) > room {
        more.clear();
    }
    if rows > 1 {
        return vec![
            Line::from([vec![asks], more].concat()),
            Line::raw(cut(title.trim(), columns)),
        ];
    }
    let title = Span::raw(cut(title, room - width_of(&more)));
    vec![Line::from([vec![asks, title], more].concat())]
}

fn asking(dialog: &Dialog) -> Span<'static> {
    let count = dialog.started.input_questions().len();
    let asks = match count {
        0 => "Allow this?".to_owned(),
        1 => "A question.".to_owned(),
        _ => format!("Question {} of {count}.", dialog.answers.len() + 1),
    };
    Span::styled(asks, QUESTION_STYLE)
}

/// Last row of a window, which tells the place of the rows that are shown, and keys.
struct PlaceRow<'a> {
    keys: &'a [&'a str],
    columns: usize,
    /// `true` if the window has the row even if it shows all rows, because another part of the question is cut.
    is_always: bool,
}

/// Returns the content rows that are shown. If they are not all, a last row tells their place and as many of the keys
/// as fit; if the last row is always there, it has at least the first of the keys.
fn window(
    dialog: &Dialog,
    rows: &[Line<'static>],
    room: usize,
    PlaceRow { keys, columns, is_always }: PlaceRow<'_>,
) -> Vec<Line<'static>> {
    let total = rows.len();
    let says = room > 1 && (is_always || total > room);
    let shown = total.min(if says { room - 1 } else { room });
    let first = dialog.scroll.min(total - shown);
    dialog.window.set(VisibleRows { shown, total });
    let mut rows = rows[first..first + shown].to_vec();
    if says {
        let mut place = format!("  rows {}-{} of {total}", first + 1, first + shown);
        let is_narrow = width(&place) + width(keys[0]) + 3 > columns;
        if shown == total || is_narrow {
            place = format!("  {}", keys[0]);
        }
        for keys in keys.iter().filter(|_| shown < total && !is_narrow) {
            if width(&place) + width(keys) + 3 <= columns {
                place.push_str(&format!(" · {keys}"));
            }
        }
        rows.push(Line::styled(cut(&place, columns), DIM_STYLE));
    }
    rows
}

/// Returns the part of a question below its content: the reason, and the choices or the sentence of a rejection.
/// `others` is the number of further choices that there is room for where only the marked one is shown.
fn foot(dialog: &Dialog, detail: DetailLevel, others: usize, columns: usize) -> QuestionPart {
    let mut foot = QuestionPart { columns, ..QuestionPart::default() };
    let reason = reason(&dialog.started).unwrap_or_default();
    if detail.reason > 0 && !reason.is_empty() {
        foot.text(&reason, &Margin::default(), DIM_STYLE, detail.reason);
    } else {
        foot.cut |= !reason.is_empty();
    }
    if let Some(saying) = &dialog.saying {
        let (said, (row, column)) =
            said(dialog, saying, columns, MAX_REASON_ROWS.min(detail.choice.max(1) * 2));
        foot.cursor = Some((foot.rows.len() + row, column));
        foot.rows.extend(said);
        let helps = match dialog.input_question() {
            _ if is_share(saying.text()) => SHARE_HELPS,
            Some(_) => REPLY_HELPS,
            None => SAYING_HELPS,
        };
        if detail.keys {
            foot.rows.push(Line::styled(cut(fitting(helps, columns), columns), DIM_STYLE));
        }
        return foot;
    }
    let choices = dialog.choices();
    let (first, count) = match detail.choice {
        0 => (dialog.selected.saturating_sub(others), others + 1),
        _ => (0, choices.len()),
    };
    for (at, (key, _, what)) in choices.iter().enumerate().skip(first).take(count) {
        let marked = at == dialog.selected;
        let (mark, style) = if marked { ("› ", USER_STYLE) } else { ("  ", CODE_STYLE) };
        let margin = Margin::mark(&format!("{mark}{key}  "), style);
        let style = if marked { BOLD_STYLE } else { Style::new() };
        foot.text(what, &margin, style, detail.choice.max(1));
    }
    if detail.choice == 0 {
        foot.cut = true;
        if detail.keys {
            foot.rows.push(Line::styled(cut(&other_choices(dialog, columns), columns), DIM_STYLE));
        }
    }
    foot
}

/// Returns the row that lists the keys of the choices that are not shown.
fn other_choices(dialog: &Dialog, columns: usize) -> String {
    let keys = answers(dialog);
    let all = format!("  Up, Down, or one of {keys}");
    if width(&all) <= columns || dialog.chosen(NO_KEY).is_none() {
        return all;
    }
    // The list may be cut on the right, so the key for "no" is put first.
    format!("  {NO_KEY}: no · {}", keys.replace(&format!("{NO_KEY} "), ""))
}

/// Returns the keys of all choices.
fn answers(dialog: &Dialog) -> String {
    let keys: Vec<_> = dialog.choices().iter().map(|(key, ..)| key.to_string()).collect();
    keys.join(" ")
}

/// Returns the rows of the sentence as it is typed, and the cursor's row and column.
fn said(
    dialog: &Dialog,
    saying: &TextInput,
    columns: usize,
    most: usize,
) -> (Vec<Line<'static>>, (usize, usize)) {
    let shown = saying.rows(columns.saturating_sub(5), most);
    let rejects = !is_share(saying.text()) && dialog.input_question().is_none();
    let first = if rejects { "No: " } else { "  › " };
    let lines = shown.texts.iter().enumerate().map(|(at, line)| {
        let mark = if at == 0 && shown.from_the_start { first } else { "    " };
        Line::from(vec![Span::styled(mark, QUESTION_STYLE), Span::raw(line.clone())])
    });
    (lines.collect(), (shown.cursor.0, shown.cursor.1 + 4))
}
