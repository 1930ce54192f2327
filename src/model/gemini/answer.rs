//! Assembles an answer from the stream of one response, or of several.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::contents::{BACKEND_NAME, SIGNATURE_KEY};
use super::wire::{Candidate, GenerateContentResponse, PlainText, PromptFeedback, UsageMetadata};
use crate::answer_size::{AnswerSize, json_values};
use crate::retry::RequestFailure;
use crate::stream::{Assemble, StreamError};
use crate::words::{is_visible, sentence};
use crate::{Call, Chunk, Error, Native, Usage};

/// Name for a call without a name: the model is told that there is no such tool.
const UNNAMED_TOOL: &str = "unnamed_tool";

/// An answer as far as it has been received.
#[derive(Debug, Default)]
pub(super) struct GeminiAnswer {
    /// Joined text of all parts that are only text.
    text: String,
    pieces: Vec<AnswerPiece>,
    calls: usize,
    thoughts: bool,
    size: AnswerSize,
    /// `true` once a chunk has been emitted that is not void.
    shown: bool,
    /// `true` once the running response has brought anything.
    begun: bool,
    finish: Option<(String, String)>,
    checkpoint: Option<Checkpoint>,
    /// Number of checkpoints so far.
    checkpoints: u32,
    /// Tokens used by earlier requests.
    spent: Usage,
    usage: UsageMetadata,
}

/// A piece of an answer.
#[derive(Debug, PartialEq)]
enum AnswerPiece {
    /// Range in [`GeminiAnswer::text`]. Adjacent parts of text are one piece.
    Text(Range<usize>),
    /// Any other part, as it was received.
    Part(Value),
}

/// Point from which the answer can go on in another request.
#[derive(Debug)]
struct Checkpoint {
    token: String,
    pieces: usize,
    text: usize,
    calls: usize,
    thoughts: bool,
    size: AnswerSize,
    /// `true` once a chunk has been emitted after the checkpoint.
    shown_since: bool,
}

impl Assemble for GeminiAnswer {
    fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
        self.begun = true;
        // Some gateways end their streams as chat completions do.
        if data == b"[DONE]" {
            return Ok(());
        }
        let garbled = |error: serde_json::Error| StreamError::Garbled(error.to_string());
        for response in GenerateContentResponse::read(data).map_err(garbled)? {
            self.take_response(response, out)?;
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.finish.is_some()
    }

    fn is_shown(&self) -> bool {
        self.shown
    }

    fn has_begun(&self) -> bool {
        self.begun
    }

    fn checkpoint(&self) -> Option<u32> {
        self.checkpoint.as_ref().map(|_| self.checkpoints)
    }

    fn rewind(&mut self) -> Option<Vec<Chunk>> {
        let Some(checkpoint) = &mut self.checkpoint else {
            let shown = self.shown;
            *self = Self::new(self.size.max());
            return shown.then(Vec::new);
        };
        let shown_since = mem::take(&mut checkpoint.shown_since);
        self.pieces.truncate(checkpoint.pieces);
        self.text.truncate(checkpoint.text);
        // The last piece may have grown since the checkpoint.
        if let Some(AnswerPiece::Text(range)) = self.pieces.last_mut() {
            range.end = range.end.min(checkpoint.text);
        }
        self.calls = checkpoint.calls;
        self.thoughts = checkpoint.thoughts;
        self.size = checkpoint.size;
        self.go_on();
        shown_since.then(|| self.shown_so_far())
    }
}

impl GeminiAnswer {
    /// Returns an empty answer that may take up `max_size` bytes of memory.
    pub(super) fn new(max_size: usize) -> Self {
        Self { size: AnswerSize::new(max_size), ..Self::default() }
    }

    fn take_response(
        &mut self,
        response: GenerateContentResponse<'_>,
        out: &mut Vec<Chunk>,
    ) -> Result<(), StreamError> {
        if let Some(error) = response.error {
            return Err(StreamError::Reported(error.get().to_owned()));
        }
        if let Some(usage) = response.usage_metadata {
            self.usage = usage.after(self.usage);
        }
        if let Some(PromptFeedback { block_reason: Some(reason), block_reason_message }) =
            response.prompt_feedback
        {
            let why = sentence("The prompt was blocked", &reason, block_reason_message.as_deref());
            let error = Error::Refused(format!("{why} Rephrase the prompt."));
            return Err(RequestFailure::terminal(error).into());
        }
        let Some(candidate) = response.candidates.into_iter().flatten().next() else {
            return Ok(());
        };
        let before = out.len();
        let content = candidate.content.as_ref().and_then(|content| content.parts.as_ref());
        for part in content.into_iter().flatten() {
            self.take_part(part, out)?;
        }
        if out.len() > before {
            self.shown = true;
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.shown_since = true;
            }
        }
        self.take_end(candidate);
        Ok(())
    }

    fn take_end(&mut self, candidate: Candidate<'_>) {
        // The API omits the field until the end; gateways write a placeholder into every event.
        let reason = candidate.finish_reason;
        let reason = reason.filter(|it| !matches!(&**it, "" | "FINISH_REASON_UNSPECIFIED"));
        if let Some(reason) = reason {
            self.finish = Some((reason, candidate.finish_message.unwrap_or_default()));
        }
        if let Some(token) = candidate.continuation_token.filter(|token| !token.is_empty()) {
            if self.token() != Some(&token) {
                self.checkpoints += 1;
            }
            self.checkpoint = Some(Checkpoint {
                token,
                pieces: self.pieces.len(),
                text: self.text.len(),
                calls: self.calls,
                thoughts: self.thoughts,
                size: self.size,
                shown_since: false,
            });
        }
    }

    fn take_part(&mut self, raw: &RawValue, out: &mut Vec<Chunk>) -> Result<(), StreamError> {
        self.size.add(raw.get().len(), 0)?;
        if let Ok(plain) = serde_json::from_str::<PlainText>(raw.get()) {
            self.take_text(plain, out);
            return Ok(());
        }
        self.size.add(0, json_values(raw.get().as_bytes()))?;
        let part = serde_json::from_str(raw.get()).map_err(|error| {
            StreamError::Garbled(format!("a part of the answer cannot be read: {error}"))
        })?;
        if let Value::Object(part) = part {
            self.take_other(part, out);
        }
        Ok(())
    }

    fn take_text(&mut self, PlainText { text, thought }: PlainText, out: &mut Vec<Chunk>) {
        self.thoughts |= thought;
        if text.is_empty() {
            return;
        }
        if thought {
            out.push(Chunk::Thought(text));
            return;
        }
        let begin = self.text.len();
        self.text.push_str(&text);
        match self.pieces.last_mut() {
            Some(AnswerPiece::Text(range)) => range.end = self.text.len(),
            _ => self.pieces.push(AnswerPiece::Text(begin..self.text.len())),
        }
        out.push(Chunk::Text(text));
    }

    fn take_other(&mut self, mut part: Map<String, Value>, out: &mut Vec<Chunk>) {
        if part.is_empty() {
            return;
        }
        match part.get_mut("functionCall") {
            Some(Value::Object(call)) => {
                name(call);
                out.push(Chunk::Call(read_call(call, self.calls)));
                self.calls += 1;
            }
            // A call that is no object can neither be made nor sent back.
            Some(_) => return,
            None => {
                let thought = is_thought(&part);
                let signed = part.get(SIGNATURE_KEY).is_some_and(Value::is_string);
                self.thoughts |= thought;
                out.extend(shown_chunk(&part));
                // A thought with a signature is kept, because the signature must be sent back.
                if thought && part.contains_key("text") && !signed {
                    return;
                }
            }
        }
        self.pieces.push(AnswerPiece::Part(Value::Object(part)));
    }

    /// Returns the server's reason for the end of the answer, and its comment.
    pub(super) fn finish(&self) -> Option<(&str, &str)> {
        self.finish.as_ref().map(|(reason, message)| (reason.as_str(), message.as_str()))
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    pub(super) fn has_thoughts(&self) -> bool {
        self.thoughts
    }

    /// Returns `true` if there is visible text.
    pub(super) fn has_text(&self) -> bool {
        let texts = self.pieces.iter().map(|piece| match piece {
            AnswerPiece::Text(range) => &self.text[range.clone()],
            AnswerPiece::Part(part) if part.as_object().is_some_and(is_thought) => "",
            AnswerPiece::Part(part) => part.get("text").and_then(Value::as_str).unwrap_or_default(),
        });
        let text = match self.pieces.as_slice() {
            [AnswerPiece::Text(_)] => Cow::Borrowed(self.text.as_str()),
            _ => Cow::Owned(texts.collect()),
        };
        is_visible(&text)
    }

    /// Returns the token with which the answer can go on.
    pub(super) fn token(&self) -> Option<&str> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.token.as_str())
    }

    /// Prepares for the response to a further request for the same answer.
    pub(super) fn go_on(&mut self) {
        self.begun = false;
        self.finish = None;
        self.spent = mem::take(&mut self.usage).added_to(self.spent);
    }

    /// Returns the chunks that show the answer as far as it has been received.
    fn shown_so_far(&self) -> Vec<Chunk> {
        let mut calls = 0;
        let pieces = self.pieces.iter().filter_map(|piece| match piece {
            AnswerPiece::Text(range) => Some(Chunk::Text(self.text[range.clone()].to_owned())),
            AnswerPiece::Part(part) => match part.get("functionCall").and_then(Value::as_object) {
                Some(call) => {
                    calls += 1;
                    Some(Chunk::Call(read_call(call, calls - 1)))
                }
                None => part.as_object().and_then(shown_chunk),
            },
        });
        pieces.collect()
    }

    /// Adds a text in the model's name, which only the model reads.
    pub(super) fn note(&mut self, text: &str) {
        self.pieces.push(AnswerPiece::Part(json!({ "text": text })));
    }

    /// Returns the tokens used by all requests together.
    pub(super) fn usage(&self) -> Usage {
        self.usage.added_to(self.spent)
    }

    /// Returns the parts as they were received, if they have more than text.
    pub(super) fn into_native(self, model: &str) -> Option<Native> {
        if !self.pieces.iter().any(|piece| matches!(piece, AnswerPiece::Part(_))) {
            return None;
        }
        let parts = self.pieces.into_iter().map(|piece| match piece {
            AnswerPiece::Text(range) => json!({ "text": self.text[range] }),
            AnswerPiece::Part(part) => part,
        });
        let (backend, model) = (BACKEND_NAME.to_owned(), model.to_owned());
        Some(Native { backend, model, parts: parts.collect() })
    }
}

fn is_thought(part: &Map<String, Value>) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

/// Returns the chunk that shows a part other than a call.
fn shown_chunk(part: &Map<String, Value>) -> Option<Chunk> {
    let text = part.get("text")?.as_str().filter(|text| !text.is_empty())?.to_owned();
    Some(if is_thought(part) { Chunk::Thought(text) } else { Chunk::Text(text) })
}

/// Gives a call a name if it has none.
fn name(call: &mut Map<String, Value>) {
    if call.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        call.insert("name".to_owned(), json!(UNNAMED_TOOL));
    }
}

fn read_call(call: &Map<String, Value>, n: usize) -> Call {
    let string = |field| call.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = string("name").unwrap_or(UNNAMED_TOOL).to_owned();
    let args = call.get("args").filter(|args| !args.is_null()).cloned();
    let id = string("id").map_or_else(|| make_id(&name, n), str::to_owned);
    Call { id, name, args: args.unwrap_or_else(|| json!({})) }
}

fn make_id(name: &str, n: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{name}_{}_{n}", now.as_millis())
}

#[cfg(test)]
mod tests;
