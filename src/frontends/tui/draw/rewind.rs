//! Rows of the menu of earlier prompts.

use ratatui_core::text::{Line, Span};

use super::super::rewind::{RewindChoice, RewindMenu};
use super::super::theme::{BOLD_STYLE, CODE_STYLE, DIM_STYLE, QUESTION_STYLE, USER_STYLE};
use super::super::wrap::cut;
use super::picker::{MAX_SHOWN_ROWS, row};
use super::{LiveRows, beginning, rule};
use tandem_agent::session::{EarlierPrompt, Millis, explain_age};
use tandem_content::visible::visible_line;

/// Returns the rows of the menu, at most `height`.
pub(super) fn rows(menu: &RewindMenu, columns: usize, height: usize, now: Millis) -> LiveRows {
    let line = |text: &str, style| Line::styled(cut(text, columns), style);
    let (heading, keys, body) = match (menu.choice, menu.marked()) {
        (Some(marked), Some(prompt)) => (
            format!("Go back to before: {}", title(prompt)),
            "Enter chooses; Esc shows the prompts again",
            choices(prompt, marked, columns),
        ),
        _ => (
            "Go back to before a prompt".to_owned(),
            "Enter goes back; Esc stays here",
            prompts(menu, columns, height.saturating_sub(4).clamp(1, MAX_SHOWN_ROWS), now),
        ),
    };
    let mut rows = vec![Line::default(), rule(QUESTION_STYLE, columns), line(&heading, BOLD_STYLE)];
    rows.extend(body);
    rows.push(line(keys, DIM_STYLE));
    let over = rows.len().saturating_sub(height);
    rows.drain(..over);
    LiveRows { rows, cursor: None }
}

/// Returns the rows around the marked prompt.
fn prompts(menu: &RewindMenu, columns: usize, room: usize, now: Millis) -> Vec<Line<'static>> {
    let first = (menu.selected + 1).saturating_sub(room);
    let shown = menu.prompts().iter().enumerate().skip(first).take(room);
    let prompt = |(at, prompt): (usize, &EarlierPrompt)| {
        let changed = match prompt.changed_files {
            0 => String::new(),
            1 => "1 file changed since, ".to_owned(),
            files => format!("{files} files changed since, "),
        };
        let facts = format!("  {changed}{}", explain_age(now, prompt.at));
        row(&title(prompt), &facts, at == menu.selected, columns)
    };
    shown.map(prompt).collect()
}

fn choices(prompt: &EarlierPrompt, marked: usize, columns: usize) -> Vec<Line<'static>> {
    let choice = |(at, choice): (usize, &RewindChoice)| {
        let text = match choice {
            RewindChoice::WithFiles if prompt.changed_files == 1 => {
                "the conversation, and 1 file as it was then".to_owned()
            }
            RewindChoice::WithFiles => {
                format!("the conversation, and {} files as they were then", prompt.changed_files)
            }
            RewindChoice::Conversation => {
                "the conversation only; files stay as they are".to_owned()
            }
            RewindChoice::Nothing => "nothing".to_owned(),
        };
        let (mark, style) = if at == marked { ("› ", USER_STYLE) } else { ("  ", CODE_STYLE) };
        let text = cut(&text, columns.saturating_sub(2));
        Line::from(vec![Span::styled(mark, style), Span::raw(text)])
    };
    RewindChoice::ALL.iter().enumerate().map(choice).collect()
}

/// Returns a prompt as one line.
fn title(prompt: &EarlierPrompt) -> String {
    let words: Vec<_> = beginning(&prompt.text).split_whitespace().collect();
    visible_line(&words.join(" ")).into_owned()
}
