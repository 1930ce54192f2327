//! The Gemini API: answers in its own words.

use serde_json::{Value, json};

use super::Reply;

/// Returns the first answer of a conversation: thinks `I must look`, says `Looking.`, and calls `glob` twice.
pub fn step() -> Reply {
    let parts = json!([
        { "text": "I must look", "thought": true },
        { "text": "Looking." },
        { "functionCall": { "name": "glob", "args": { "pattern": "a" } },
          "thoughtSignature": "c2lnbmVk" },
        { "functionCall": { "name": "glob", "args": {} } },
    ]);
    answer(&parts, (20, 10))
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    answer(&json!([{ "text": "All is well." }]), (30, 5))
}

fn answer(parts: &Value, (input, output): (u64, u64)) -> Reply {
    let usage = json!({ "promptTokenCount": input, "candidatesTokenCount": output });
    let candidate =
        json!({ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" });
    let response = json!({ "candidates": [candidate], "usageMetadata": usage });
    Reply::stream(format!("data: {response}\n\n"))
}
