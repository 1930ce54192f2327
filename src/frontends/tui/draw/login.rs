//! Rows of the offer to log in, and of the login's progress.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::super::input::TextInput;
use super::super::offer::{LoginOffer, LoginRow, LoginStage, NextStep, OfferReason};
use super::super::theme::{
    BAD_STYLE, BOLD_STYLE, CODE_STYLE, DIM_STYLE, QUESTION_STYLE, USER_STYLE,
};
use super::super::whole::broken;
use super::super::wrap::{Margin, cut, width_of, wrap};
use super::{LiveRows, plain, rule, spinner};
use tandem_agent::session::Millis;

/// Returns the rows of an offer, at most `height`. If there is less room, only the title and the choices are shown,
/// each on one row, with the marked one among them.
pub(super) fn rows(offer: &LoginOffer, columns: usize, height: usize, now: Millis) -> LiveRows {
    let frame = all_rows(offer, columns, now);
    let over = frame.rows.len().saturating_sub(height);
    if over == 0 {
        return frame;
    }
    if !matches!(offer.stage, LoginStage::Choosing | LoginStage::Providers) {
        let cursor = frame.cursor.map(|(row, column)| (row.saturating_sub(over), column));
        return LiveRows { rows: frame.rows[over..].to_vec(), cursor };
    }
    let room = height.saturating_sub(1);
    let choices = offer.choices().into_iter().enumerate().map(|(at, (key, _, what))| {
        let (margin, style) = mark(offer, at, key);
        let what = cut(&what, columns.saturating_sub(width_of(&margin.first)));
        Line::from([margin.first, vec![Span::styled(what, style)]].concat())
    });
    let first = (offer.selected + 1).saturating_sub(room);
    let mut rows = vec![Line::styled(cut(&title(offer), columns), BOLD_STYLE)];
    rows.extend(choices.skip(first).take(room));
    rows.truncate(height);
    LiveRows { rows, cursor: None }
}

fn all_rows(offer: &LoginOffer, columns: usize, now: Millis) -> LiveRows {
    let mut rows = vec![Line::default(), rule(QUESTION_STYLE, columns)];
    let text = |text: &str, style| broken(plain(text, &Margin::default(), style, columns), columns);
    rows.extend(text(&title(offer), BOLD_STYLE));
    if matches!(offer.then, NextStep::Say(_))
        && matches!(offer.stage, LoginStage::Choosing | LoginStage::Providers)
    {
        rows.extend(text("Your prompt waits for the login.", DIM_STYLE));
    }
    if let Some(failure) = &offer.failure {
        rows.extend(text(failure, BAD_STYLE));
    }
    let mut cursor = None;
    match &offer.stage {
        LoginStage::Providers => {
            rows.extend(choices(offer, columns));
            rows.extend(text("Esc leaves the login for later; /auth shows it again", DIM_STYLE));
        }
        LoginStage::Choosing => {
            rows.extend(text(&format!("Keys are made at {}", offer.made_at), DIM_STYLE));
            rows.extend(choices(offer, columns));
            if !offer.providers.is_empty() {
                rows.extend(text("Esc goes back", DIM_STYLE));
                return LiveRows { rows, cursor };
            }
            rows.extend(text("Esc leaves the login for later; /auth shows it again", DIM_STYLE));
        }
        LoginStage::Typing(input) => {
            rows.extend(text(&format!("Keys are made at {}", offer.made_at), DIM_STYLE));
            let (row, column) = typed(input, columns);
            cursor = Some((rows.len(), column));
            rows.push(row);
            rows.extend(text("Enter checks and stores the key; Esc goes back", DIM_STYLE));
        }
        LoginStage::Checking => rows.push(doing("checking the key", columns, now)),
        LoginStage::Browser(url) => {
            rows.push(doing("waiting for the key from the page in your browser", columns, now));
            if let Some(url) = url {
                // The address has a row of its own, so that the user can copy it easily.
                rows.extend(text("If no page has opened, open this address", DIM_STYLE));
                rows.extend(text(url, CODE_STYLE));
            }
            rows.extend(text("Esc goes back", DIM_STYLE));
        }
    }
    LiveRows { rows, cursor }
}

fn title(offer: &LoginOffer) -> String {
    let whose = &offer.whose;
    match offer.cause {
        OfferReason::Missing if matches!(offer.stage, LoginStage::Providers) => {
            let answer = match offer.programs().as_slice() {
                [] => String::new(),
                [program] => format!(" {program} answers."),
                programs => format!(" {} answer.", programs.join(" and ")),
            };
            format!("Welcome to tandem. To answer you, tandem needs one of these.{answer}")
        }
        OfferReason::Wanted if matches!(offer.stage, LoginStage::Providers) => {
            "Log in; your choice takes the place of the present model and key.".to_owned()
        }
        OfferReason::Missing => {
            format!("Welcome to tandem. To answer you, tandem needs an API key for {whose}.")
        }
        OfferReason::Refused => {
            format!("{whose} does not accept the key. Correct the key, or enter another one.")
        }
        OfferReason::Wanted => {
            format!(
                "Log in with a key for {whose}; the new key takes the place of the present one."
            )
        }
    }
}

fn choices(offer: &LoginOffer, columns: usize) -> Vec<Line<'static>> {
    let choice = |(at, (key, _, what)): (usize, LoginRow)| {
        let (margin, style) = mark(offer, at, key);
        wrap(&[Span::styled(what, style)], &margin, columns)
    };
    offer.choices().into_iter().enumerate().flat_map(choice).collect()
}

/// Returns the margin of a choice, and the style of its text.
fn mark(offer: &LoginOffer, at: usize, key: char) -> (Margin, Style) {
    let marked = at == offer.selected;
    let (mark, style) = if marked { ("› ", USER_STYLE) } else { ("  ", CODE_STYLE) };
    let words = if marked { BOLD_STYLE } else { Style::new() };
    (Margin::mark(&format!("{mark}{key}  "), style), words)
}

/// Returns a row that shows the length of the typed key, but not the key.
fn typed(input: &TextInput, columns: usize) -> (Line<'static>, usize) {
    let label = "Key: ";
    let room = columns.saturating_sub(label.len() + 1);
    let length = input.text().chars().count().min(room);
    let line = Line::from(vec![Span::styled(label, QUESTION_STYLE), Span::raw("•".repeat(length))]);
    (line, label.len() + length)
}

fn doing(what: &str, columns: usize, now: Millis) -> Line<'static> {
    let what = super::super::wrap::cut(what, columns.saturating_sub(2));
    Line::from(vec![Span::styled(spinner(now), QUESTION_STYLE), Span::raw(what)])
}
