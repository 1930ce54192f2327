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

/// Returns the first answer of a conversation: thinks `I must look`, says `Looking.`, and calls `glob` twice.
pub fn step() -> Reply {
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "glob", "input": {} });
    let blocks = vec![
        (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![
                json!({ "type": "thinking_delta", "thinking": "I must look" }),
                json!({ "type": "signature_delta", "signature": "c2lnbmVk" }),
            ],
        ),
        (
            json!({ "type": "text", "text": "" }),
            vec![json!({ "type": "text_delta", "text": "Looking." })],
        ),
        (
            call("toolu_1"),
            vec![json!({ "type": "input_json_delta", "partial_json": "{\"pattern\":\"a\"}" })],
        ),
        (call("toolu_2"), Vec::new()),
    ];
    streamed(blocks, "tool_use", (20, 10))
}

/// Returns the last answer of a conversation, `All is well.`
pub fn last() -> Reply {
    let said = json!({ "type": "text_delta", "text": "All is well." });
    let block = (json!({ "type": "text", "text": "" }), vec![said]);
    streamed(vec![block], "end_turn", (30, 5))
}

/// Returns a streamed answer. `blocks`: the beginning of each block, and its deltas.
fn streamed(blocks: Vec<(Value, Vec<Value>)>, reason: &str, (input, output): (u64, u64)) -> Reply {
    let event = |json: Value| {
        let name = json["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {json}\n\n")
    };
    let usage = json!({ "input_tokens": input, "output_tokens": 1 });
    let begin = json!({ "type": "message_start", "message": { "content": [], "usage": usage } });
    let mut stream = event(begin);
    for (n, (block, deltas)) in blocks.into_iter().enumerate() {
        stream +=
            &event(json!({ "type": "content_block_start", "index": n, "content_block": block }));
        for delta in deltas {
            stream += &event(json!({ "type": "content_block_delta", "index": n, "delta": delta }));
        }
        stream += &event(json!({ "type": "content_block_stop", "index": n }));
    }
    stream += &event(json!({ "type": "message_delta", "delta": { "stop_reason": reason },
        "usage": { "output_tokens": output } }));
    Reply::stream(stream + &event(json!({ "type": "message_stop" })))
}
