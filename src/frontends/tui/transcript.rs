//! Transcript of the session on this terminal: the items that still change, and the items that were shown shortened.

use std::collections::VecDeque;

use super::draw;
use super::item::{CallCard, HistoryItem, ItemBody, Tone};
use super::markdown::Growing;
use tandem_agent::session::{CallStatus, ToolOutcome};

/// Maximum number of shortened items that are stored for showing them in full.
const MAX_SHORTENED: usize = 20;

/// Maximum number of items that are shown of a long conversation when it is opened again.
const MAX_EARLIER: usize = 100;

/// Items of the history below the terminal's scrollback.
#[derive(Default)]
pub(super) struct TranscriptView {
    /// Items that are not in the terminal's scrollback yet, in order.
    pub(super) items: VecDeque<HistoryItem>,
    /// `true` if all items are shown in full.
    pub(super) unfolded: bool,
    /// `true` while a long conversation is read for the first time: only its end will be shown.
    pub(super) catching_up: bool,
    /// Items that went into the scrollback shortened; the newest is last.
    shortened: VecDeque<HistoryItem>,
    /// `true` if the item that was added last is a call.
    after_call: bool,
    /// Number of items at the beginning of a long conversation that are not shown.
    left_out: usize,
}

impl TranscriptView {
    /// Adds an item at the end.
    pub(super) fn push(&mut self, body: ItemBody) {
        let call = matches!(body, ItemBody::Call(_));
        let apart = !(call && self.after_call);
        self.after_call = call;
        self.items.push_back(HistoryItem { apart, ..HistoryItem::new(body) });
    }

    /// Adds a note at the end.
    pub(super) fn note(&mut self, tone: Tone, text: String) {
        self.close();
        self.push(ItemBody::Note(tone, text));
    }

    /// Adds an item that only this screen has. The item goes before the first unfinished one, so that it does not split
    /// a text that still grows.
    pub(super) fn aside(&mut self, item: HistoryItem) {
        let place = self.items.iter().position(|item| !item.done).unwrap_or(self.items.len());
        self.items.insert(place, item);
        match self.items.get_mut(place + 1) {
            Some(next) => next.apart = true,
            None => self.after_call = false,
        }
    }

    /// Appends to the unfinished answer or thought, or begins one.
    pub(super) fn grow(&mut self, more: &str, thinks: bool) {
        if let Some(HistoryItem { body, done: false, .. }) = self.items.back_mut() {
            match body {
                ItemBody::Said(said) if !thinks => return said.text.push_str(more),
                ItemBody::Thought(said) if thinks => return said.text.push_str(more),
                _ => {}
            }
        }
        self.close();
        if thinks {
            self.push(ItemBody::Thought(Growing::new(more.to_owned())));
        } else if !more.trim().is_empty() {
            self.push(ItemBody::Said(Growing::new(more.trim_start_matches('\n').to_owned())));
        }
    }

    /// Marks the growing answer and the growing thought as finished.
    pub(super) fn close(&mut self) {
        for item in &mut self.items {
            if matches!(item.body, ItemBody::Said(_) | ItemBody::Thought(_)) {
                item.done = true;
            }
        }
    }

    /// Removes the unfinished text of an answer, because the model begins this answer anew.
    pub(super) fn take_back(&mut self) {
        self.items.retain(|item| item.done || !matches!(item.body, ItemBody::Said(_)));
    }

    /// Returns the item of a call that has not ended.
    pub(super) fn card(&mut self, call: &str) -> Option<&mut CallCard> {
        self.items.iter_mut().find_map(|item| match &mut item.body {
            ItemBody::Call(card) if card.started.call.id == call && !item.done => Some(card),
            _ => None,
        })
    }

    /// Shows the outcome of a call, whose item cannot change any more.
    pub(super) fn finish_call(&mut self, call: &str, outcome: &ToolOutcome) {
        let ended = self.items.iter_mut().find(|item| is_call(item, call));
        if let Some(HistoryItem { body: ItemBody::Call(card), done, .. }) = ended {
            card.status = CallStatus::of_outcome(outcome);
            card.outcome = Some(outcome.clone());
            card.output.clear();
            *done = true;
        }
    }

    /// Removes and returns the items at the top that can no longer change on a screen of so many columns.
    pub(super) fn take_finished(&mut self, columns: usize) -> Vec<HistoryItem> {
        let mut finished = Vec::new();
        if self.catching_up {
            return finished;
        }
        while let Some(item) = self.items.pop_front_if(|item| item.done) {
            finished.push(item);
        }
        if let Some(first) = self.items.front_mut() {
            while let Some(settled) = first.settle(self.unfolded, columns) {
                finished.push(settled);
            }
        }
        finished
    }

    /// Stores an item that was shown shortened, so that the user can see it in full later.
    pub(super) fn keep_short(&mut self, item: HistoryItem) {
        if self.shortened.len() == MAX_SHORTENED {
            self.shortened.pop_front();
        }
        self.shortened.push_back(item);
    }

    /// Shows the newest stored item in full and removes it from the store, so that the next call shows the item before
    /// it. Returns `false` if no item is stored.
    pub(super) fn open_short(&mut self) -> bool {
        let Some(item) = self.shortened.pop_back() else { return false };
        self.aside(HistoryItem { apart: true, open: true, ..item });
        true
    }

    /// Shows the newest item in full that is shortened on a screen of so many columns: an item that still grows, or else
    /// the newest item in the scrollback. Returns `false` if no item is shortened.
    pub(super) fn unfold(&mut self, columns: usize) -> bool {
        let short = |item: &HistoryItem| item.open || !draw::item(item, false, columns).whole;
        let mut live = self.items.iter_mut().rev();
        if let Some(item) = live.find(|item| !item.done && short(item)) {
            item.open = !item.open;
            return true;
        }
        self.open_short()
    }

    /// Drops the oldest finished items beyond `MAX_EARLIER` while a long conversation is read.
    pub(super) fn leave_out(&mut self) {
        while self.items.len() > MAX_EARLIER && self.leave_first_out() {}
    }

    fn leave_first_out(&mut self) -> bool {
        let is_out = self.items.pop_front_if(|item| item.done).is_some();
        self.left_out += usize::from(is_out);
        is_out
    }

    /// Ends the reading of a long conversation: drops the items before the first prompt that is left, and adds a note
    /// with the number of items that are not shown.
    pub(super) fn caught_up(&mut self) {
        self.catching_up = false;
        if self.left_out == 0 {
            return;
        }
        let is_prompt = |item: &HistoryItem| matches!(item.body, ItemBody::Prompt(..));
        if self.items.iter().any(is_prompt) {
            while !self.items.front().is_some_and(is_prompt) && self.leave_first_out() {}
        }
        let note = format!(
            "The beginning of this conversation is not shown: {} messages, calls and notes.",
            self.left_out
        );
        self.items.push_front(HistoryItem::new(ItemBody::Note(Tone::Aside, note)));
    }
}

fn is_call(item: &HistoryItem, id: &str) -> bool {
    matches!(&item.body, ItemBody::Call(card) if card.started.call.id == id)
}
