//! The Messages API of Anthropic: answers in its own words.

use serde_json::{Value, json};

use super::Reply;

/// Returns an answer of these blocks. `input` and `output`: numbers of tokens.
pub fn blocks(blocks: &Value, input: u64, output: u64) -> Reply {
    let reason = if blocks.to_string().contains("tool_use") { "tool_use" } else { "end_turn" };
    let usage = json!({ "input_tokens": input, "output_tokens": output });
    let message = json!({ "content": blocks, "usage": usage });
    let start = json!({ "type": "message_start", "message": message });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
    Reply::stream(format!("data: {start}\n\ndata: {end}\n\n"))
}

/// Returns an answer with one text.
pub fn says(text: &str) -> Reply {
    blocks(&json!([{ "type": "text", "text": text }]), 1, 1)
}
