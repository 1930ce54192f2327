//! The Gemini API: answers in its own words.

mod strict;

use serde_json::{Value, json};

use super::Reply;

pub use self::strict::check;

/// Returns the first answer of a conversation: thinks `I must look`, says `Looking.`, and calls `glob` twice.
pub fn step() -> Reply {
    let parts = [
        json!({ "text": "I must look", "thought": true }),
        json!({ "text": "Looking." }),
        json!({ "functionCall": { "id": "c1", "name": "glob", "args": { "pattern": "a" } },
          "thoughtSignature": "c2lnbmVk" }),
        json!({ "functionCall": { "id": "c2", "name": "glob", "args": {} } }),
    ];
    answer(&parts, 20, 10)
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    answer(&[json!({ "text": "All is " }), json!({ "text": "well." })], 30, 5)
}

/// Returns an answer with an event for each part, and one for the end.
fn answer(parts: &[Value], input: u64, output: u64) -> Reply {
    let event = |part: &Value, end: Option<&str>| {
        let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
        if let Some(reason) = end {
            candidate["finishReason"] = json!(reason);
        }
        let tokens = json!([{ "modality": "TEXT", "tokenCount": input }]);
        let usage = json!({ "promptTokenCount": input, "candidatesTokenCount": output,
            "totalTokenCount": input + output, "promptTokensDetails": tokens });
        let response = json!({ "candidates": [candidate], "usageMetadata": usage,
            "modelVersion": "gemini-3.8-flash", "responseId": "r1" });
        format!("data: {response}\n\n")
    };
    let body: String = parts.iter().map(|part| event(part, None)).collect();
    Reply::stream(body + &event(&json!({ "text": "" }), Some("STOP")))
}
