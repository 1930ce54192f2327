//! The answer as far as it has been received, independent of the form of its pieces on the wire.

use serde_json::{Map, Value};

use super::calls::Calls;
use super::echo::{AnswerSource, Echo};
use super::think::{self, Splitter};
use crate::answer_size::AnswerSize;
use crate::words::is_visible;
use crate::{Chunk, Native, Usage};

/// An answer as far as it has been received.
#[derive(Debug, Default)]
pub(crate) struct ChatAnswer {
    text: String,
    splitter: Splitter,
    /// Parts that are sent back to the model.
    pub(crate) echo: Echo,
    calls: Calls,
    thoughts: bool,
    /// Reason for the end that the server has given.
    finish: Option<String>,
    /// `true` once the server has announced that it will send nothing more.
    over: bool,
    pub(crate) size: AnswerSize,
    /// `true` once a chunk of the answer has been passed on to the caller, which may have shown it to a person.
    shown: bool,
    /// Tokens used, as far as known.
    pub(crate) usage: Usage,
}

impl ChatAnswer {
    /// Returns an empty answer that may take up `max_size` bytes of memory.
    pub(crate) fn new(max_size: usize) -> Self {
        Self { size: AnswerSize::new(max_size), ..Self::default() }
    }

    /// Adds text, which may contain reasoning.
    pub(crate) fn add_text(&mut self, text: String, out: &mut Vec<Chunk>) {
        let pieces = self.splitter.split(text);
        self.take_pieces(pieces, out);
    }

    /// Adds reasoning that is shown. Reasoning that is sent back to the model goes into [`Self::echo`].
    pub(crate) fn think(&mut self, text: String, out: &mut Vec<Chunk>) {
        self.thoughts = true;
        if !text.is_empty() {
            self.shown = true;
            out.push(Chunk::Thought(text));
        }
    }

    /// Adds pieces of calls.
    pub(crate) fn add_calls(&mut self, pieces: Vec<Map<String, Value>>) {
        self.calls.add_pieces(pieces);
    }

    /// Ends the answer for the reason that the server has given.
    pub(crate) fn finish_with(&mut self, reason: String, out: &mut Vec<Chunk>) {
        self.finish = Some(reason);
        self.end(out);
    }

    /// Notes that the server will send nothing more, and ends the answer.
    pub(crate) fn is_over_now(&mut self, out: &mut Vec<Chunk>) {
        self.over = true;
        self.end(out);
    }

    fn take_pieces(
        &mut self,
        pieces: impl IntoIterator<Item = think::SplitPiece>,
        out: &mut Vec<Chunk>,
    ) {
        for piece in pieces {
            match piece {
                think::SplitPiece::Thought(text) => {
                    self.echo.think.push_str(&text);
                    self.think(text, out);
                }
                think::SplitPiece::Text(text) => {
                    self.text.push_str(&text);
                    self.shown = true;
                    out.push(Chunk::Text(text));
                }
            }
        }
    }

    /// Emits the text that was held as the possible beginning of a mark.
    pub(crate) fn end(&mut self, out: &mut Vec<Chunk>) {
        let rest = self.splitter.end();
        self.take_pieces(rest, out);
    }

    /// Returns the server's reason for the end of the answer.
    pub(crate) fn finish(&self) -> Option<&str> {
        self.finish.as_deref()
    }

    /// Returns `true` if the server has announced that it will send nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if there is visible text.
    pub(crate) fn has_text(&self) -> bool {
        is_visible(&self.text)
    }

    pub(crate) fn has_thoughts(&self) -> bool {
        self.thoughts
    }

    /// Returns `true` if a chunk has been emitted.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// Empties the answer. If chunks have been emitted, returns the chunks that replace them: an empty list.
    pub(crate) fn rewind(&mut self) -> Option<Vec<Chunk>> {
        let shown = self.shown;
        *self = Self::new(self.size.max());
        shown.then(Vec::new)
    }

    /// Returns `true` if the server has announced that the answer is complete.
    pub(crate) fn has_ended(&self) -> bool {
        self.finish.is_some() || self.over
    }

    /// Returns the parts that are sent back to the model; `extras` are the other fields of the calls.
    pub(crate) fn into_native(
        self,
        source: AnswerSource<'_>,
        extras: Vec<Map<String, Value>>,
    ) -> Option<Native> {
        // APIs want reasoning back only with calls.
        if extras.is_empty() {
            return None;
        }
        Echo { calls: extras, ..self.echo }.into_native(source)
    }
}
