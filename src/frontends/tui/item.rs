//! What the history is made of: things said, calls, notes. Each is shown while it grows, and goes
//! into the terminal's scrollback when it has its last form.

use std::sync::Arc;

use super::layout::ItemRows;
use super::markdown::Growing;
use super::memo::Memo;
use crate::session::{Answer, CallStarted, CallStatus, Origin, ToolOutcome};

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// What it is.
    pub(super) body: Body,
    /// Whether an empty row sets it apart from what is above.
    pub(super) apart: bool,
    /// Whether it has its last form.
    pub(super) done: bool,
    /// Whether all of it is shown, however long that is.
    pub(super) open: bool,
    /// Its rows, if it waits for something above it: whether it is all shown, in how many columns.
    pub(super) rows: Memo<(bool, usize), ItemRows>,
}

/// What it is.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// What a user said; and who, if not at this terminal.
    Prompt(String, Option<Origin>),
    /// What the model, or a command, says: Markdown.
    Said(Growing),
    /// What the model thinks: Markdown.
    Thought(Growing),
    /// A call.
    Call(Card),
    /// What matters to who does not know this program yet; the names of all commands.
    Help(String),
    /// Something else to know.
    Note(Tone, String),
}

/// How grave a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// To be known.
    Aside,
    /// Something went wrong.
    Error,
}

/// A call as it is shown.
#[derive(Debug, Clone)]
pub(super) struct Card {
    /// What is called.
    pub(super) started: Arc<CallStarted>,
    /// Status of the call.
    pub(super) status: CallStatus,
    /// What it has written so far.
    pub(super) output: String,
    /// What was answered, if it was asked about; and by whom, if not at this terminal.
    pub(super) answer: Option<(Answer, Option<Origin>)>,
    /// What came of it.
    pub(super) outcome: Option<ToolOutcome>,
}

impl Item {
    pub(super) fn new(body: Body) -> Self {
        let done = matches!(body, Body::Prompt(..) | Body::Note(..) | Body::Help(_));
        Self { body, apart: true, done, open: false, rows: Memo::default() }
    }

    /// Of a text that grows, what will stay as it is: it is taken out, and the rest stays.
    pub(super) fn settle(&mut self, unfolded: bool) -> Option<Self> {
        if self.done {
            return None;
        }
        let (body, apart) = match &mut self.body {
            Body::Said(text) => {
                let (head, apart) = text.settle()?;
                (Body::Said(head), apart)
            }
            // In short, it is one row to the end.
            Body::Thought(text) if unfolded || self.open => {
                let (head, apart) = text.settle()?;
                (Body::Thought(head), apart)
            }
            _ => return None,
        };
        let head = Self { apart: self.apart, open: self.open, done: true, ..Self::new(body) };
        self.apart = apart;
        Some(head)
    }
}
