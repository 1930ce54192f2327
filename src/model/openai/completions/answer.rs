//! Assembles an answer from its stream.

use std::mem;

use serde_json::{Map, Value};

use super::wire::{ChatCompletionChunk, Choice, ContentPart, Delta};
use crate::Chunk;
use crate::chat::answer::ChatAnswer;
use crate::stream::{Assemble, StreamError};

/// An answer of chat completions.
#[derive(Debug)]
pub(crate) struct OpenAiAnswer(pub(super) ChatAnswer);

impl Assemble for OpenAiAnswer {
    fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.0.is_over_now(out);
            return Ok(());
        }
        let event: ChatCompletionChunk<'_> = serde_json::from_slice(data)
            .map_err(|error| StreamError::Garbled(error.to_string()))?;
        let choice = event.choice();
        let error = event.error.or(choice.as_ref().and_then(|choice| choice.error));
        if let Some(error) = error {
            return Err(StreamError::Reported(error.get().to_owned()));
        }
        if let Some(usage) = event.usage(choice.as_ref()) {
            self.0.usage = usage;
        }
        if let Some(choice) = choice {
            self.take_choice(&choice, out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<Chunk>) {
        self.0.end(out);
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn is_shown(&self) -> bool {
        self.0.is_shown()
    }

    fn rewind(&mut self) -> Option<Vec<Chunk>> {
        self.0.rewind()
    }
}

impl OpenAiAnswer {
    fn take_choice(
        &mut self,
        choice: &Choice<'_>,
        out: &mut Vec<Chunk>,
    ) -> Result<(), StreamError> {
        let delta = choice.delta();
        self.0.size.add(delta.size(), delta.values())?;
        self.take_reasoning(&delta, out);
        for content in delta.content() {
            match content {
                ContentPart::Text(text) => self.0.add_text(text, out),
                ContentPart::Thinking(part) => {
                    let texts =
                        part.get("thinking").and_then(Value::as_array).into_iter().flatten();
                    let text = texts.filter_map(|it| it.get("text")?.as_str()).collect();
                    self.0.think(text, out);
                    self.0.echo.add_content(part);
                }
            }
        }
        self.0.add_calls(delta.tool_calls());
        // The last text and the reason for the end may come in the same event.
        if let Some(reason) = choice.finish_reason() {
            self.0.finish_with(reason, out);
        }
        Ok(())
    }

    /// Adds reasoning. Each field with reasoning is preserved, but only the first field is shown, so that people do
    /// not see the same reasoning twice.
    fn take_reasoning(&mut self, delta: &Delta<'_>, out: &mut Vec<Chunk>) {
        let mut shown = false;
        for (field, text) in delta.reasoning() {
            let Some(text) = text else { continue };
            self.0.echo.add_text(field, &text);
            if !mem::replace(&mut shown, true) {
                self.0.think(text, out);
            }
        }
        let details = delta.reasoning_details();
        if details.is_empty() {
            return;
        }
        if !shown {
            self.0.think(details.iter().filter_map(detail).collect(), out);
        }
        self.0.echo.add_details(details);
    }
}

fn detail(detail: &Map<String, Value>) -> Option<&str> {
    detail.get("text").or(detail.get("summary"))?.as_str()
}
