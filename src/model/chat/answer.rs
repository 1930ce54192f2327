//! An answer as far as it has come, whatever its pieces look like on the wire.

use serde_json::{Map, Value};

use super::calls::Calls;
use super::native::Kept;
use super::think::{self, Splitter};
use crate::model::retry::Failure;
use crate::model::words::{is_visible, too_big};
use crate::model::{Chunk, Native, Usage};

/// The bytes that one value of JSON takes up.
const VALUE: usize = 80;

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(in crate::model) struct Answer {
    text: String,
    splitter: Splitter,
    /// What must go back as it came.
    pub(in crate::model) kept: Kept,
    calls: Calls,
    thoughts: bool,
    /// Why the server ended it.
    finish: Option<String>,
    /// Whether nothing more will come.
    over: bool,
    /// How much room it takes up, about.
    size: usize,
    max_size: usize,
    /// Whether something has been handed out.
    shown: bool,
    /// What it cost, as far as that is known.
    pub(in crate::model) usage: Usage,
}

impl Answer {
    /// An answer that takes up `max_size` bytes at most.
    pub(in crate::model) fn new(max_size: usize) -> Self {
        Self { max_size, ..Self::default() }
    }

    /// Counts what comes: bytes, and values of JSON, which take up more than they look. The error
    /// is that it is too much.
    pub(in crate::model) fn grow(&mut self, bytes: usize, values: usize) -> Result<(), Failure> {
        self.size = self.size.saturating_add(bytes + values * VALUE);
        if self.size > self.max_size {
            return Err(Failure::terminal(too_big("The model's answer", self.max_size)));
        }
        Ok(())
    }

    /// More text, in which there may be reasoning.
    pub(in crate::model) fn add_text(&mut self, text: String, out: &mut Vec<Chunk>) {
        let pieces = self.splitter.take(text);
        self.take_pieces(pieces, out);
    }

    /// More reasoning, to be shown. What of it must go back is kept in [`Self::kept`].
    pub(in crate::model) fn think(&mut self, text: String, out: &mut Vec<Chunk>) {
        self.thoughts = true;
        if !text.is_empty() {
            self.shown = true;
            out.push(Chunk::Thought(text));
        }
    }

    /// Pieces of calls.
    pub(in crate::model) fn add_calls(&mut self, pieces: Vec<Map<String, Value>>) {
        self.calls.take(pieces);
    }

    /// The server says why the answer ends.
    pub(in crate::model) fn finish_with(&mut self, reason: String, out: &mut Vec<Chunk>) {
        self.finish = Some(reason);
        self.end(out);
    }

    /// The server says that nothing more will come.
    pub(in crate::model) fn is_over_now(&mut self, out: &mut Vec<Chunk>) {
        self.over = true;
        self.end(out);
    }

    fn take_pieces(
        &mut self,
        pieces: impl IntoIterator<Item = think::Piece>,
        out: &mut Vec<Chunk>,
    ) {
        for piece in pieces {
            match piece {
                think::Piece::Thought(text) => {
                    self.kept.think.push_str(&text);
                    self.think(text, out);
                }
                think::Piece::Text(text) => {
                    self.text.push_str(&text);
                    self.shown = true;
                    out.push(Chunk::Text(text));
                }
            }
        }
    }

    /// Hands out what may have been the beginning of a mark.
    pub(in crate::model) fn end(&mut self, out: &mut Vec<Chunk>) {
        let rest = self.splitter.end();
        self.take_pieces(rest, out);
    }

    /// Why the server ended the answer.
    pub(in crate::model) fn finish(&self) -> Option<&str> {
        self.finish.as_deref()
    }

    /// Whether the server has said that nothing more will come.
    pub(in crate::model) fn is_over(&self) -> bool {
        self.over
    }

    pub(in crate::model) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(in crate::model) fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is text that a person would see.
    pub(in crate::model) fn has_text(&self) -> bool {
        is_visible(&self.text)
    }

    pub(in crate::model) fn has_thoughts(&self) -> bool {
        self.thoughts
    }

    /// Whether something has been shown that would have to be taken back.
    pub(in crate::model) fn is_shown(&self) -> bool {
        self.shown
    }

    /// Forgets everything; returns the chunks that replace what was handed out, which is none.
    pub(in crate::model) fn rewind(&mut self) -> Option<Vec<Chunk>> {
        let shown = self.shown;
        *self = Self::new(self.max_size);
        shown.then(Vec::new)
    }

    /// Whether the server has said that it is whole.
    pub(in crate::model) fn has_ended(&self) -> bool {
        self.finish.is_some() || self.over
    }

    /// What must go back as it came; `extras` is what else there was in the calls.
    pub(in crate::model) fn into_native(
        self,
        said_by: (&str, &str),
        extras: Vec<Map<String, Value>>,
    ) -> Option<Native> {
        // Without calls nobody wants the reasoning back.
        if extras.is_empty() {
            return None;
        }
        Kept { calls: extras, ..self.kept }.into_native(said_by)
    }
}
