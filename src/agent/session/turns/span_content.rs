//! Prompts, messages and answers as JSON, in the form that OpenTelemetry's conventions for generative AI define.

use serde_json::{Value, json};
use tandem_model::{Assistant, Call, FinishReason, Message, Part};

use crate::session::events::event::PromptPart;

/// Returns the prompt of a turn as a message of the user.
pub(super) fn prompt(parts: &[PromptPart]) -> Value {
    let parts: Vec<_> = parts.iter().map(|part| text(&part.to_string())).collect();
    json!({ "role": "user", "parts": parts })
}

/// Returns a message of the conversation that the model is sent.
pub(super) fn message(message: &Message) -> Value {
    match message {
        Message::User(parts) => {
            let parts = parts.iter().map(|part| match part {
                Part::Text(said) => text(said),
                Part::Media(media) => text(&format!("[{}]", media.kind())),
            });
            json!({ "role": "user", "parts": parts.collect::<Vec<_>>() })
        }
        Message::Assistant(Assistant { text, calls, .. }) => {
            json!({ "role": "assistant", "parts": answer_parts(text, calls) })
        }
        Message::Results(results) => {
            let parts = results.iter().map(|result| {
                json!({ "type": "tool_call_response", "id": result.call, "response": result.text })
            });
            json!({ "role": "tool", "parts": parts.collect::<Vec<_>>() })
        }
    }
}

/// Returns an answer of the model as a message.
pub(super) fn answer(text: &str, calls: &[Call], reason: &FinishReason) -> Value {
    let reason = match reason {
        FinishReason::Stop if calls.is_empty() => "stop",
        FinishReason::Stop => "tool_call",
        FinishReason::MaxTokens => "length",
        FinishReason::Refused(_) => "content_filter",
    };
    json!({ "role": "assistant", "parts": answer_parts(text, calls), "finish_reason": reason })
}

fn answer_parts(said: &str, calls: &[Call]) -> Vec<Value> {
    let said = Some(said).filter(|said| !said.is_empty()).map(text);
    let calls = calls.iter().map(|call| {
        json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args })
    });
    said.into_iter().chain(calls).collect()
}

/// Returns a part of a message that is text.
pub(super) fn text(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}
