//! Puts an answer together from what is streamed.

use std::mem;

use serde_json::{Map, Value};

use super::calls::Calls;
use super::native::Kept;
use super::think::{self, Splitter};
use super::wire::{Choice, Content, Delta, Event};
use crate::model::retry::Failure;
use crate::model::stream::{Assemble, Wrong};
use crate::model::words::{is_visible, too_big};
use crate::model::{Chunk, Native, Usage};

/// The bytes that one value of JSON takes up.
const VALUE: usize = 80;

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    splitter: Splitter,
    kept: Kept,
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
    usage: Usage,
}

impl Assemble for Answer {
    fn take(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), Wrong> {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.over = true;
            self.end(out);
            return Ok(());
        }
        let event: Event<'_> =
            serde_json::from_slice(data).map_err(|error| Wrong::Garbled(error.to_string()))?;
        let choice = event.choice();
        let error = event.error.or(choice.as_ref().and_then(|choice| choice.error));
        if let Some(error) = error {
            return Err(Wrong::Reported(error.get().to_owned()));
        }
        if let Some(usage) = event.usage(choice.as_ref()) {
            self.usage = usage;
        }
        if let Some(choice) = choice {
            self.take_choice(&choice, out)?;
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.finish.is_some() || self.over
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Answer {
    /// An answer that takes up `max_size` bytes at most.
    pub(super) fn new(max_size: usize) -> Self {
        Self { max_size, ..Self::default() }
    }

    fn take_choice(&mut self, choice: &Choice<'_>, out: &mut Vec<Chunk>) -> Result<(), Wrong> {
        let delta = choice.delta();
        self.size = self.size.saturating_add(delta.size() + delta.values() * VALUE);
        if self.size > self.max_size {
            let error = too_big("The model's answer", self.max_size);
            return Err(Failure::terminal(error).into());
        }
        self.take_reasoning(&delta, out);
        for content in delta.content() {
            match content {
                Content::Text(text) => {
                    let pieces = self.splitter.take(text);
                    self.take_pieces(pieces, out);
                }
                Content::Thinking(part) => {
                    let texts =
                        part.get("thinking").and_then(Value::as_array).into_iter().flatten();
                    let text = texts.filter_map(|it| it.get("text")?.as_str()).collect();
                    self.think(text, out);
                    self.kept.add_content(part);
                }
            }
        }
        self.calls.take(delta.tool_calls());
        // What is said and why it ends may come at once.
        if let Some(reason) = choice.finish_reason() {
            self.finish = Some(reason);
            self.end(out);
        }
        Ok(())
    }

    /// Reasoning is kept in each field that it comes in, and shown once.
    fn take_reasoning(&mut self, delta: &Delta<'_>, out: &mut Vec<Chunk>) {
        let mut shown = false;
        for (field, text) in delta.reasoning() {
            let Some(text) = text else { continue };
            self.kept.add_text(field, &text);
            if !mem::replace(&mut shown, true) {
                self.think(text, out);
            }
        }
        let details = delta.reasoning_details();
        if details.is_empty() {
            return;
        }
        if !shown {
            self.think(details.iter().filter_map(detail).collect(), out);
        }
        self.kept.add_details(details);
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

    fn think(&mut self, text: String, out: &mut Vec<Chunk>) {
        self.thoughts = true;
        if !text.is_empty() {
            self.shown = true;
            out.push(Chunk::Thought(text));
        }
    }

    /// Hands out what may have been the beginning of a mark.
    pub(super) fn end(&mut self, out: &mut Vec<Chunk>) {
        let rest = self.splitter.end();
        self.take_pieces(rest, out);
    }

    /// Why the server ended the answer.
    pub(super) fn finish(&self) -> Option<&str> {
        self.finish.as_deref()
    }

    /// Whether the server has said that nothing more will come.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is text that a person would see.
    pub(super) fn has_text(&self) -> bool {
        is_visible(&self.text)
    }

    pub(super) fn has_thoughts(&self) -> bool {
        self.thoughts
    }

    /// Whether something has been shown that would have to be taken back.
    pub(super) fn is_shown(&self) -> bool {
        self.shown
    }

    /// What it cost.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// What must go back as it came; `extras` is what else there was in the calls.
    pub(super) fn into_native(
        self,
        model: &str,
        extras: Vec<Map<String, Value>>,
    ) -> Option<Native> {
        // Without calls nobody wants the reasoning back.
        if extras.is_empty() {
            return None;
        }
        Kept { calls: extras, ..self.kept }.into_native(model)
    }
}

fn detail(detail: &Map<String, Value>) -> Option<&str> {
    detail.get("text").or(detail.get("summary"))?.as_str()
}
