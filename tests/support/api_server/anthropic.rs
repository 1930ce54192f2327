//! The Messages API of Anthropic: answers in its own words.

mod strict;

use serde_json::{Value, json};

use super::Reply;

pub use self::strict::check;

/// Returns an answer of these blocks as some servers send it, all in its first event. `input` and `output`: numbers of
/// tokens.
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
    streamed(vec![said(text)], "end_turn", 1, 1)
}

/// Returns the first answer of a conversation: thinks `I must look`, says `Looking.`, and calls `glob` twice.
pub fn step() -> Reply {
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "glob", "input": {} });
    let piece = |text: &str| json!({ "type": "input_json_delta", "partial_json": text });
    let blocks = vec![
        (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![
                json!({ "type": "thinking_delta", "thinking": "I must look" }),
                json!({ "type": "signature_delta", "signature": "c2lnbmVk" }),
            ],
        ),
        said("Looking."),
        (call("toolu_1"), vec![piece(""), piece("{\"pattern\":"), piece(" \"a\"}")]),
        (call("toolu_2"), vec![piece("")]),
    ];
    streamed(blocks, "tool_use", 20, 10)
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    streamed(vec![said("All is well.")], "end_turn", 30, 5)
}

/// The beginning of a block, and its deltas.
type StreamedBlock = (Value, Vec<Value>);

fn said(text: &str) -> StreamedBlock {
    let delta = json!({ "type": "text_delta", "text": text });
    (json!({ "type": "text", "text": "" }), vec![delta])
}

fn streamed(blocks: Vec<StreamedBlock>, reason: &str, input: u64, output: u64) -> Reply {
    let event = |json: Value| {
        let name = json["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {json}\n\n")
    };
    let usage = |output: u64| {
        json!({ "input_tokens": input, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "output_tokens": output })
    };
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant",
        "model": "claude-opus-5-5", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage(1) });
    let mut stream = event(json!({ "type": "message_start", "message": message }));
    for (n, (block, deltas)) in blocks.into_iter().enumerate() {
        stream +=
            &event(json!({ "type": "content_block_start", "index": n, "content_block": block }));
        if n == 0 {
            stream += &event(json!({ "type": "ping" }));
        }
        for delta in deltas {
            stream += &event(json!({ "type": "content_block_delta", "index": n, "delta": delta }));
        }
        stream += &event(json!({ "type": "content_block_stop", "index": n }));
    }
    let end = json!({ "stop_reason": reason, "stop_sequence": null });
    stream += &event(json!({ "type": "message_delta", "delta": end, "usage": usage(output) }));
    Reply::stream(stream + &event(json!({ "type": "message_stop" })))
}
