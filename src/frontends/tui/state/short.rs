//! What has gone into the scrollback in short: it is kept for a while, to be shown in full.

use std::collections::VecDeque;

use super::super::item::Item;
use super::State;

/// How many things are kept.
const KEPT: usize = 20;

/// The last of them.
#[derive(Default)]
pub(super) struct Short(VecDeque<Item>);

impl State {
    /// Keeps what is shown in short, for whoever wants all of it.
    pub(in super::super) fn keep_short(&mut self, item: Item) {
        if self.short.0.len() == KEPT {
            self.short.0.pop_front();
        }
        self.short.0.push_back(item);
    }

    /// Shows in full what was shown in short last: each time it is asked, the one before. False if
    /// there is none.
    pub(in super::super) fn open_short(&mut self) -> bool {
        let Some(item) = self.short.0.pop_back() else { return false };
        self.aside(Item { apart: true, open: true, ..item });
        true
    }
}
