//! Events of the API, as far as they are read. Unknown fields are ignored.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Usage;
use crate::stream::lenient;

/// A content block as it was received.
pub(super) type Raw = Map<String, Value>;

/// Data of one event.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamEvent {
    MessageStart {
        message: Message,
    },
    ContentBlockStart {
        index: Option<u64>,
        content_block: Raw,
    },
    ContentBlockDelta {
        index: Option<u64>,
        delta: Delta,
    },
    ContentBlockStop {
        index: Option<u64>,
    },
    MessageDelta {
        delta: Option<Stop>,
        #[serde(default, deserialize_with = "lenient")]
        usage: Option<Counts>,
    },
    /// An error in place of the rest of the stream.
    Error {
        error: Value,
    },
    /// A complete answer, from a server that does not stream.
    Message(Message),
    /// `ping`, `message_stop`, and future events.
    #[serde(other)]
    Other,
}

/// A message. At its beginning it is usually empty.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    /// Content blocks. Some gateways, written in Go, send `null` for an empty list.
    pub(super) content: Option<Vec<Raw>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Counts>,
    #[serde(flatten)]
    pub(super) stop: Stop,
}

/// Data that is added to a block.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(rename = "citations_delta")]
    Citation { citation: Value },
    #[serde(other)]
    Other,
}

/// Reason for the end of a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Stop {
    pub(super) stop_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) stop_details: Option<StopDetails>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StopDetails {
    pub(super) category: Option<String>,
    pub(super) explanation: Option<String>,
}

/// Token counts of one request. Each is the sum so far, and an event may lack some of them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct Counts {
    #[serde(rename = "input_tokens", default, deserialize_with = "lenient")]
    input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", default, deserialize_with = "lenient")]
    written: Option<u64>,
    #[serde(rename = "cache_read_input_tokens", default, deserialize_with = "lenient")]
    read: Option<u64>,
    #[serde(rename = "output_tokens", default, deserialize_with = "lenient")]
    output: Option<u64>,
    #[serde(rename = "output_tokens_details", default, deserialize_with = "lenient")]
    details: Option<OutputDetails>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct OutputDetails {
    #[serde(default, deserialize_with = "lenient")]
    thinking_tokens: Option<u64>,
}

impl Counts {
    /// Returns the larger value of each count. A count never shrinks, so a smaller value is a fault of the server.
    pub(super) fn after(self, before: Self) -> Self {
        let thoughts = self.thoughts().max(before.thoughts());
        Self {
            input: self.input.max(before.input),
            written: self.written.max(before.written),
            read: self.read.max(before.read),
            output: self.output.max(before.output),
            details: Some(OutputDetails { thinking_tokens: thoughts }),
        }
    }

    /// Adds the counts to the counts of earlier requests. The API's input count lacks the tokens that were written to
    /// the cache or read from it; its output count includes reasoning.
    pub(super) fn added_to(self, spent: Usage) -> Usage {
        let add = |sum: u64, more: Option<u64>| sum.saturating_add(more.unwrap_or_default());
        let thoughts = self.thoughts().unwrap_or_default();
        let said = self.output.map(|output| output.saturating_sub(thoughts));
        Usage {
            input: add(add(add(spent.input, self.input), self.written), self.read),
            cached: add(spent.cached, self.read),
            written: add(spent.written, self.written),
            output: add(spent.output, said),
            thoughts: add(spent.thoughts, Some(thoughts)),
        }
    }

    fn thoughts(self) -> Option<u64> {
        self.details?.thinking_tokens
    }
}
