//! The offer to log in, and how it goes.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::input::Input;
use super::super::offer::{Cause, Offer, Row, Stage, Then};
use super::super::theme::{ASKS, BAD, BOLD, CODE, DIM, USER};
use super::super::wrap::{Margin, wrap};
use super::{Frame, plain, rule, spinner};
use crate::session::Millis;

/// The rows of it.
pub(super) fn rows(offer: &Offer, columns: usize, now: Millis) -> Frame {
    let mut rows = vec![Line::default(), rule(ASKS, columns)];
    let text = |text: &str, style| plain(text, &Margin::default(), style, columns);
    rows.extend(text(&title(offer), BOLD));
    if matches!(offer.then, Then::Say(_))
        && matches!(offer.stage, Stage::Choosing | Stage::Providers)
    {
        rows.extend(text("What you have said waits until then.", DIM));
    }
    if let Some(failure) = &offer.failure {
        rows.extend(text(failure, BAD));
    }
    let mut cursor = None;
    match &offer.stage {
        Stage::Providers => {
            rows.extend(choices(offer, columns));
            rows.extend(text("Esc leaves it for later; /auth brings it back", DIM));
        }
        Stage::Choosing => {
            rows.extend(text(&format!("Keys are made at {}", offer.made_at), DIM));
            rows.extend(choices(offer, columns));
            if !offer.providers.is_empty() {
                rows.extend(text("Esc goes back", DIM));
                return Frame { rows, cursor };
            }
            rows.extend(text("Esc leaves it for later; /auth brings it back", DIM));
        }
        Stage::Typing(input) => {
            rows.extend(text(&format!("Keys are made at {}", offer.made_at), DIM));
            let (row, column) = typed(input, columns);
            cursor = Some((rows.len(), column));
            rows.push(row);
            rows.extend(text("Enter checks it and stores it; Esc goes back", DIM));
        }
        Stage::Checking => rows.push(doing("checking the key", columns, now)),
        Stage::Browser(url) => {
            rows.push(doing("waiting for the key from the page in your browser", columns, now));
            if let Some(url) = url {
                // On a row of its own it is easily copied.
                rows.extend(text("If no page has opened, it is at", DIM));
                rows.extend(text(url, CODE));
            }
            rows.extend(text("Esc goes back", DIM));
        }
    }
    Frame { rows, cursor }
}

fn title(offer: &Offer) -> String {
    let whose = offer.whose;
    match offer.cause {
        Cause::Missing if matches!(offer.stage, Stage::Providers) => {
            let runs = if offer.ollama.is_empty() { "" } else { " Ollama runs here." };
            format!("Welcome to tandem. To answer you, it needs one of these.{runs}")
        }
        Cause::Wanted if matches!(offer.stage, Stage::Providers) => {
            "Log in; what you choose takes the place of what there is.".to_owned()
        }
        Cause::Missing => {
            format!("Welcome to tandem. To answer you, it needs an API key for {whose}.")
        }
        Cause::Refused => {
            format!("{whose} does not accept the key. Another one, or a changed one, may do.")
        }
        Cause::Wanted => {
            format!("Log in with a key for {whose}; it takes the place of the one there is.")
        }
    }
}

fn choices(offer: &Offer, columns: usize) -> Vec<Line<'static>> {
    let choice = |(at, (key, _, what)): (usize, Row)| {
        let marked = at == offer.selected;
        let (mark, style) = if marked { ("› ", USER) } else { ("  ", CODE) };
        let margin = Margin::mark(&format!("{mark}{key}  "), style);
        let style = if marked { BOLD } else { Style::new() };
        wrap(&[Span::styled(what, style)], &margin, columns)
    };
    offer.choices().into_iter().enumerate().flat_map(choice).collect()
}

/// How much is typed, not what.
fn typed(input: &Input, columns: usize) -> (Line<'static>, usize) {
    let label = "Key: ";
    let room = columns.saturating_sub(label.len() + 1);
    let length = input.text().chars().count().min(room);
    let line = Line::from(vec![Span::styled(label, ASKS), Span::raw("•".repeat(length))]);
    (line, label.len() + length)
}

fn doing(what: &str, columns: usize, now: Millis) -> Line<'static> {
    let what = super::super::wrap::cut(what, columns.saturating_sub(2));
    Line::from(vec![Span::styled(spinner(now), ASKS), Span::raw(what)])
}
