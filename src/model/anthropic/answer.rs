//! Assembles an answer from the stream of one response, or of several.

use std::collections::HashMap;
use std::mem;

use serde_json::{Value, json};

use super::block::{Block, BlockKind};
use super::messages::BACKEND_NAME;
use super::wire::{Counts, Delta, Message, Raw, Stop, StreamEvent};
use crate::answer_size::{AnswerSize, json_values};
use crate::stream::{Assemble, StreamError};
use crate::{Call, Chunk, Native, ToolDeclaration, Usage};

/// An answer as far as it has been received.
#[derive(Debug, Default)]
pub(super) struct AnthropicAnswer {
    blocks: Vec<Block>,
    /// Indexes of the open blocks in `blocks`, by the server's numbers.
    open: HashMap<u64, usize>,
    /// Number of blocks that came in earlier responses.
    kept: usize,
    size: AnswerSize,
    /// `true` once a chunk has been emitted.
    shown: bool,
    stop: Stop,
    /// Tokens used by earlier requests.
    spent: Usage,
    counts: Counts,
}

impl Assemble for AnthropicAnswer {
    fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
        let event = match serde_json::from_slice(data) {
            Ok(event) => event,
            // Some gateways end their streams as chat completions do.
            Err(_) if data == b"[DONE]" => return Ok(()),
            Err(error) => return Err(unreadable(data, &error)),
        };
        let before = out.len();
        match event {
            StreamEvent::MessageStart { message } | StreamEvent::Message(message) => {
                self.size.add(data.len(), json_values(data))?;
                self.begin_message(message, out);
            }
            StreamEvent::ContentBlockStart { index, content_block } => {
                self.size.add(data.len(), json_values(data))?;
                self.begin(index, content_block, out);
            }
            StreamEvent::ContentBlockDelta { index, delta } => self.add(index, delta, out)?,
            StreamEvent::ContentBlockStop { index } => self.end_block(index),
            StreamEvent::MessageDelta { delta, usage } => {
                self.end(delta.unwrap_or_default(), usage);
            }
            StreamEvent::Error { error } => return Err(StreamError::Reported(error.to_string())),
            StreamEvent::Other => {}
        }
        self.shown |= out.len() > before;
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.stop.stop_reason.is_some()
    }

    fn is_shown(&self) -> bool {
        self.shown
    }

    fn rewind(&mut self) -> Option<Vec<Chunk>> {
        let shown = self.shown;
        *self = Self::new(self.size.max());
        shown.then(Vec::new)
    }
}

impl AnthropicAnswer {
    /// Returns an empty answer that may take up `max_size` bytes of memory.
    pub(super) fn new(max_size: usize) -> Self {
        Self { size: AnswerSize::new(max_size), ..Self::default() }
    }

    /// Adds the first content of a message, if it has any.
    fn begin_message(&mut self, message: Message, out: &mut Vec<Chunk>) {
        for raw in message.content.unwrap_or_default() {
            self.begin(None, raw, out);
            self.end_block(None);
        }
        self.end(message.stop, message.usage);
    }

    fn end(&mut self, stop: Stop, usage: Option<Counts>) {
        self.counts = usage.unwrap_or_default().after(self.counts);
        // Gateways may write "" as long as there is no reason for the end.
        if stop.stop_reason.as_deref().is_none_or(str::is_empty) {
            return;
        }
        // Only an answer at the output limit may end within a block.
        if stop.stop_reason.as_deref() != Some("max_tokens") {
            self.end_block(None);
        }
        self.stop = stop;
    }

    fn begin(&mut self, index: Option<u64>, raw: Raw, out: &mut Vec<Chunk>) {
        let block = Block::new(raw);
        out.extend(block.shown_chunk());
        self.open.insert(index.unwrap_or(u64::MAX), self.blocks.len());
        self.blocks.push(block);
    }

    fn add(
        &mut self,
        index: Option<u64>,
        delta: Delta,
        out: &mut Vec<Chunk>,
    ) -> Result<(), StreamError> {
        let (bytes, values) = match &delta {
            Delta::Text { text } => (text.len(), 0),
            Delta::Thinking { thinking } => (thinking.len(), 0),
            Delta::Signature { signature } => (signature.len(), 0),
            Delta::InputJson { partial_json } => {
                (partial_json.len(), json_values(partial_json.as_bytes()))
            }
            Delta::Citation { citation } => (0, json_values(citation.to_string().as_bytes())),
            Delta::Other => (0, 0),
        };
        self.size.add(bytes, values)?;
        let mut found = self.find(index);
        // Text without an open block begins a block of its own.
        if found.is_none() && matches!(delta, Delta::Text { .. }) {
            self.begin(index, text_begins(), out);
            found = self.find(index);
        }
        out.extend(found.and_then(|block| self.blocks[block].add(delta)));
        Ok(())
    }

    /// Ends the block with this number, or all blocks if there is none.
    fn end_block(&mut self, index: Option<u64>) {
        match index {
            Some(index) => {
                if let Some(block) = self.open.remove(&index) {
                    self.blocks[block].whole = true;
                }
            }
            None => {
                for (_, block) in self.open.drain() {
                    self.blocks[block].whole = true;
                }
            }
        }
    }

    fn find(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(index) => self.open.get(&index).copied(),
            None => self.blocks.len().checked_sub(1).filter(|last| *last >= self.kept),
        }
    }

    /// Returns the server's reason for the end of the answer.
    pub(super) fn stop(&self) -> Option<(&str, &Stop)> {
        self.stop.stop_reason.as_deref().map(|reason| (reason, &self.stop))
    }

    /// Returns the complete calls.
    pub(super) fn calls(&self, tools: &[ToolDeclaration]) -> impl Iterator<Item = Call> {
        self.blocks.iter().filter_map(|block| block.call(tools))
    }

    pub(super) fn has_calls(&self) -> bool {
        self.blocks.iter().any(|block| block.kind == BlockKind::Call && block.is_sound())
    }

    /// Returns `true` if there is an incomplete call, which cannot be made.
    pub(super) fn has_unsound_calls(&self) -> bool {
        self.blocks.iter().any(|block| block.kind == BlockKind::Call && !block.is_sound())
    }

    pub(super) fn has_thoughts(&self) -> bool {
        self.blocks.iter().any(|block| block.kind == BlockKind::Thinking)
    }

    /// Returns `true` if there is visible text.
    pub(super) fn has_text(&self) -> bool {
        let mut texts = self.blocks.iter().filter(|block| block.kind == BlockKind::Text);
        texts.any(|block| !block.text.trim().is_empty())
    }

    /// Prepares for a further response that continues this answer.
    pub(super) fn go_on(&mut self) {
        self.kept = self.blocks.len();
        self.stop = Stop::default();
        self.spent = mem::take(&mut self.counts).added_to(self.spent);
    }

    /// Returns the tokens used by all requests together.
    pub(super) fn usage(&self) -> Usage {
        self.counts.added_to(self.spent)
    }

    /// Returns the blocks in the form in which the API accepts them back.
    pub(super) fn parts(&self) -> Vec<Value> {
        self.blocks.iter().filter_map(Block::native).collect()
    }

    /// Returns the blocks, if they have more than text.
    pub(super) fn native(&self, model: &str) -> Option<Native> {
        let plain = |block: &Block| block.kind == BlockKind::Text && block.citations.is_empty();
        if self.blocks.iter().all(plain) {
            return None;
        }
        let (backend, model) = (BACKEND_NAME.to_owned(), model.to_owned());
        Some(Native { backend, model, parts: self.parts() })
    }
}

fn text_begins() -> Raw {
    [("type".to_owned(), json!("text"))].into_iter().collect()
}

/// Returns the failure for data that is not an event. Some gateways send errors without the type of an event.
fn unreadable(data: &[u8], error: &serde_json::Error) -> StreamError {
    let json: Option<Value> = serde_json::from_slice(data).ok();
    match json.and_then(|mut json| json.get_mut("error").map(Value::take)) {
        Some(reported) => StreamError::Reported(reported.to_string()),
        None => StreamError::Garbled(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_event_text(answer: &mut AnthropicAnswer, data: &str) -> Vec<Chunk> {
        let mut out = Vec::new();
        answer.add_event(data.as_bytes(), &mut out).unwrap();
        out
    }

    #[test]
    fn a_gateway_may_write_nothing_as_null_or_as_empty_text() {
        let mut answer = AnthropicAnswer::new(10_000);
        let start = r#"{"type":"message_start","message":{"content":null,"stop_reason":""}}"#;
        assert_eq!(add_event_text(&mut answer, start), []);
        assert!(!answer.has_ended(), "an empty reason is none");
        let delta = r#"{"type":"content_block_delta","index":0,
            "delta":{"type":"text_delta","text":"hi"}}"#;
        assert_eq!(add_event_text(&mut answer, delta), [Chunk::Text("hi".to_owned())]);
        add_event_text(&mut answer, r#"{"type":"message_delta","delta":null,"usage":null}"#);
        assert!(!answer.has_ended());
        add_event_text(
            &mut answer,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        );
        assert!(answer.has_ended());
    }
}
