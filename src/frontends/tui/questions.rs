//! Open questions about calls, and what the user types to answer them.

use std::collections::VecDeque;

use super::dialog::{Dialog, Scroll};
use super::input::TextInput;
use tandem_agent::session::Millis;

/// Open questions about calls.
#[derive(Default)]
pub(super) struct QuestionDialogs {
    /// Questions, in the order in which they are shown; the first of them is on the screen.
    pub(super) open: VecDeque<Dialog>,
}

impl QuestionDialogs {
    /// Returns the question on the screen.
    pub(super) fn shown(&self) -> Option<&Dialog> {
        self.open.front()
    }

    /// Returns the question on the screen, to change it.
    pub(super) fn shown_mut(&mut self) -> Option<&mut Dialog> {
        self.open.front_mut()
    }

    /// Removes the question about a call and returns it. If another question comes up in its place, the grace period of
    /// that question starts at `at`, because the user has not read it yet.
    pub(super) fn close(&mut self, call: &str, at: Millis) -> Option<Dialog> {
        let shown = self.shown().map(|dialog| dialog.call().to_owned());
        let place = self.open.iter().position(|dialog| dialog.call() == call);
        let closed = place.and_then(|place| self.open.remove(place));
        if let Some(next) = self.shown_mut().filter(|next| shown.as_deref() != Some(next.call())) {
            next.shown_at(at);
        }
        closed
    }

    /// Shows the question on the whole screen, or no longer.
    pub(super) fn read(&mut self, reading: bool) {
        if let Some(dialog) = self.shown_mut() {
            dialog.reading = reading;
            dialog.scroll(Scroll::ToStart);
        }
    }

    /// Returns the sentence of a rejection that the user types.
    pub(super) fn saying_mut(&mut self) -> Option<&mut TextInput> {
        self.shown_mut()?.saying.as_mut()
    }

    /// Lets the user type the sentence of a rejection, which begins with `text`.
    pub(super) fn begin_saying(&mut self, text: &str) {
        let Some(dialog) = self.shown_mut() else { return };
        let mut saying = TextInput::default();
        saying.set(text);
        dialog.reading = false;
        dialog.saying = Some(saying);
    }

    /// Removes the sentence of a rejection, and returns the text that the user has typed.
    pub(super) fn take_saying(&mut self) -> Option<String> {
        self.shown_mut()?.saying.take().map(TextInput::into_text)
    }

    /// Drops the sentence of a rejection; the question stays open.
    pub(super) fn leave_saying(&mut self) {
        self.open.iter_mut().for_each(|dialog| dialog.saying = None);
    }
}
