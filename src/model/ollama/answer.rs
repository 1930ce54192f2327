//! Assembles an answer from Ollama's lines of JSON.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::answer_size::json_values;
use crate::chat::answer::ChatAnswer;
use crate::stream::{Assemble, StreamError, lenient};
use crate::{Chunk, Usage};

/// An answer of Ollama's API.
#[derive(Debug)]
pub(super) struct OllamaAnswer(pub(super) ChatAnswer);

#[derive(Debug, Deserialize)]
struct ChatResponse {
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    done: bool,
    #[serde(default, deserialize_with = "lenient")]
    done_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Message {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<Map<String, Value>>>,
}

impl Assemble for OllamaAnswer {
    const IS_LINES: bool = true;

    fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
        let line: ChatResponse = serde_json::from_slice(data)
            .map_err(|error| StreamError::Garbled(error.to_string()))?;
        if line.error.is_some() {
            return Err(StreamError::Reported(String::from_utf8_lossy(data).into_owned()));
        }
        if let Some(message) = line.message {
            let values = message.tool_calls.as_ref().map_or(0, |_| json_values(data));
            self.0.size.add(data.len(), values)?;
            if let Some(thought) = message.thinking.filter(|thought| !thought.is_empty()) {
                self.0.echo.add_text("thinking", &thought);
                self.0.think(thought, out);
            }
            self.0.add_text(message.content.unwrap_or_default(), out);
            self.0.add_calls(message.tool_calls.unwrap_or_default());
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            let (input, output) = (line.prompt_eval_count, line.eval_count);
            let (input, output) = (input.unwrap_or_default(), output.unwrap_or_default());
            self.0.usage = Usage { input, output, ..Usage::default() };
        }
        if line.done {
            self.0.finish_with(line.done_reason.unwrap_or_else(|| "stop".to_owned()), out);
            self.0.is_over_now(out);
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
