//! One content block of an answer, assembled from its deltas.

use std::mem;

use serde_json::{Value, json};

use super::wire::{Delta, Raw};
use crate::{Call, Chunk, ToolDeclaration, names};

/// A content block: its beginning and its deltas.
#[derive(Debug)]
pub(super) struct Block {
    start: Raw,
    pub(super) kind: BlockKind,
    /// Text, thinking, or the JSON of a call's arguments.
    pub(super) text: String,
    signature: String,
    pub(super) citations: Vec<Value>,
    /// `true` once the server has ended the block.
    pub(super) whole: bool,
    /// `true` if a delta of an unknown kind has arrived.
    odd: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Thinking,
    Call,
    /// Hidden thinking, calls of the server's own tools and their results, and unknown kinds.
    Other,
}

impl Block {
    pub(super) fn new(mut start: Raw) -> Self {
        let kind = match start.get("type").and_then(Value::as_str) {
            Some("text") => BlockKind::Text,
            Some("thinking") => BlockKind::Thinking,
            Some("tool_use") => BlockKind::Call,
            _ => BlockKind::Other,
        };
        let mut take = |field: &str| match start.get_mut(field) {
            Some(Value::String(text)) => mem::take(text),
            _ => String::new(),
        };
        let text = match kind {
            BlockKind::Text => take("text"),
            BlockKind::Thinking => take("thinking"),
            BlockKind::Call | BlockKind::Other => String::new(),
        };
        let signature = if kind == BlockKind::Thinking { take("signature") } else { String::new() };
        let citations = match start.get_mut("citations") {
            Some(Value::Array(citations)) if kind == BlockKind::Text => mem::take(citations),
            _ => Vec::new(),
        };
        Self { start, kind, text, signature, citations, whole: false, odd: false }
    }

    /// Adds a delta; returns the chunk that shows it.
    pub(super) fn add(&mut self, delta: Delta) -> Option<Chunk> {
        match delta {
            Delta::Text { text } if self.kind == BlockKind::Text => {
                self.text.push_str(&text);
                return (!text.is_empty()).then_some(Chunk::Text(text));
            }
            Delta::Thinking { thinking } if self.kind == BlockKind::Thinking => {
                self.text.push_str(&thinking);
                return (!thinking.is_empty()).then_some(Chunk::Thought(thinking));
            }
            Delta::Signature { signature } => self.signature.push_str(&signature),
            Delta::InputJson { partial_json } => self.text.push_str(&partial_json),
            Delta::Citation { citation } => self.citations.push(citation),
            Delta::Text { .. } | Delta::Thinking { .. } | Delta::Other => self.odd = true,
        }
        None
    }

    /// Returns the chunk that shows the block so far.
    pub(super) fn shown_chunk(&self) -> Option<Chunk> {
        if self.text.is_empty() {
            return None;
        }
        match self.kind {
            BlockKind::Text => Some(Chunk::Text(self.text.clone())),
            BlockKind::Thinking => Some(Chunk::Thought(self.text.clone())),
            BlockKind::Call | BlockKind::Other => None,
        }
    }

    /// Returns `true` if the block can be used. An incomplete call cannot be made, and incomplete thinking cannot be
    /// sent back.
    pub(super) fn is_sound(&self) -> bool {
        match self.kind {
            BlockKind::Text => true,
            BlockKind::Thinking => self.whole,
            BlockKind::Call => self.input().is_some() && self.field("name").is_some(),
            BlockKind::Other => self.whole && !self.odd,
        }
    }

    /// Returns the call's arguments.
    fn input(&self) -> Option<Value> {
        if !self.text.trim().is_empty() {
            return serde_json::from_str(&self.text).ok();
        }
        let input = self.start.get("input").filter(|input| !input.is_null());
        // Every call begins with an empty object, which are its arguments only if none have come by the end of the
        // block.
        let begun = input.and_then(Value::as_object).is_some_and(|input| !input.is_empty());
        (self.whole || begun).then(|| input.cloned().unwrap_or_else(|| json!({})))
    }

    /// Returns the call, with the tool's own name.
    pub(super) fn call(&self, tools: &[ToolDeclaration]) -> Option<Call> {
        let args = self.input().filter(|_| self.kind == BlockKind::Call)?;
        let name = names::original(self.field("name")?, tools).to_owned();
        let id = self.field("id").unwrap_or_default().to_owned();
        Some(Call { id, name, args })
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.start.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns the block in the form in which the API accepts it back; `None` if it does not.
    pub(super) fn native(&self) -> Option<Value> {
        if !self.is_sound() {
            return None;
        }
        let mut native = self.start.clone();
        let mut set = |field: &str, value: Value| native.insert(field.to_owned(), value);
        match self.kind {
            BlockKind::Text => {
                set("text", json!(self.text));
                if !self.citations.is_empty() {
                    set("citations", json!(self.citations));
                }
            }
            BlockKind::Thinking => {
                set("thinking", json!(self.text));
                set("signature", json!(self.signature));
            }
            BlockKind::Call => _ = set("input", self.input()?),
            // The arguments of a server's own tool also arrive as deltas.
            BlockKind::Other if !self.text.is_empty() => _ = set("input", self.input()?),
            BlockKind::Other => {}
        }
        Some(Value::Object(native))
    }
}
