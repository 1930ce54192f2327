//! Items of the history: messages, calls, notes. Each item is shown while it grows, and goes into the terminal's
//! scrollback in its final form.

use std::sync::Arc;

use super::layout::ItemRows;
use super::markdown::Growing;
use super::memo::Memo;
use tandem_agent::session::{Answer, CallStarted, CallStatus, Origin, ToolOutcome};

/// Number of columns before the text of a thought.
pub(super) const THOUGHT_MARGIN: usize = 2;

/// An item of the history.
#[derive(Debug, Clone)]
pub(super) struct HistoryItem {
    /// Content of the item.
    pub(super) body: ItemBody,
    /// `true` if an empty row separates the item from the item above.
    pub(super) apart: bool,
    /// `true` if the item has its final form.
    pub(super) done: bool,
    /// `true` if the item is shown in full, however long it is.
    pub(super) open: bool,
    /// Cached rows of a finished item that waits for an unfinished item above it. The key: `true` if the item is
    /// shown in full, and the number of columns.
    pub(super) rows: Memo<(bool, usize), ItemRows>,
}

/// Content of an item.
#[derive(Debug, Clone)]
pub(super) enum ItemBody {
    /// Prompt of a user, and its origin if that is not this terminal.
    Prompt(String, Option<Origin>),
    /// Text of the model, or of a command: Markdown.
    Said(Growing),
    /// Reasoning of the model: Markdown.
    Thought(Growing),
    /// A call.
    Call(CallCard),
    /// Help for new users, with the names of all commands.
    Help(String),
    /// Any other message of this program to the user, such as an error or the notice of a retry.
    Note(Tone, String),
}

/// Severity of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Information for the user.
    Aside,
    /// Report of an error.
    Error,
}

/// A call as it is shown.
#[derive(Debug, Clone)]
pub(super) struct CallCard {
    /// Announcement of the call.
    pub(super) started: Arc<CallStarted>,
    /// Status of the call.
    pub(super) status: CallStatus,
    /// Output of the running call so far.
    pub(super) output: String,
    /// Answer to the question about the call, if there was one, and its origin if that is not this terminal.
    pub(super) answer: Option<(Answer, Option<Origin>)>,
    /// Outcome, once the call has ended.
    pub(super) outcome: Option<ToolOutcome>,
}

impl HistoryItem {
    pub(super) fn new(body: ItemBody) -> Self {
        let done = matches!(body, ItemBody::Prompt(..) | ItemBody::Note(..) | ItemBody::Help(_));
        Self { body, apart: true, done, open: false, rows: Memo::default() }
    }

    /// Removes and returns the part of a growing text that will not change any more at this number of columns.
    pub(super) fn settle(&mut self, unfolded: bool, columns: usize) -> Option<Self> {
        if self.done {
            return None;
        }
        let is_open = unfolded || self.open;
        let (text, columns, new): (_, _, fn(Growing) -> ItemBody) = match &mut self.body {
            ItemBody::Said(text) => (text, columns, ItemBody::Said),
            // A thought that is shown in short stays one row until its end, so nothing can be split off.
            ItemBody::Thought(text) if is_open => {
                (text, columns.saturating_sub(THOUGHT_MARGIN), ItemBody::Thought)
            }
            _ => return None,
        };
        let settled = text.settle().or_else(|| Some((text.settle_rows(columns)?, false)));
        let (head, apart) = settled?;
        let head = Self { apart: self.apart, open: self.open, done: true, ..Self::new(new(head)) };
        self.apart = apart;
        Some(head)
    }
}
