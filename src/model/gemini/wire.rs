//! Events of the API, as far as they are read. They are typed and borrowed, because there are many.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Usage;
use crate::stream::lenient;

/// Data of one event.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerateContentResponse<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    pub(super) prompt_feedback: Option<PromptFeedback>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage_metadata: Option<UsageMetadata>,
    /// An error in place of the other fields.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The candidate answer; requests ask for only one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    pub(super) finish_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) finish_message: Option<String>,
    /// Checkpoint: token with which another request continues the answer from here.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) continuation_token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Content<'a> {
    /// Parts as they were received, not parsed until their kind is known.
    #[serde(borrow)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
}

/// A part that is only text, as most parts are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainText {
    pub(super) text: String,
    #[serde(default)]
    pub(super) thought: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    pub(super) block_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) block_reason_message: Option<String>,
}

/// Token counts of one request. Each is the sum so far, and an event may lack some of them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub(super) struct UsageMetadata {
    #[serde(rename = "promptTokenCount", default, deserialize_with = "lenient")]
    prompt: Option<u64>,
    #[serde(rename = "cachedContentTokenCount", default, deserialize_with = "lenient")]
    cached: Option<u64>,
    #[serde(rename = "candidatesTokenCount", default, deserialize_with = "lenient")]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount", default, deserialize_with = "lenient")]
    thoughts: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount", default, deserialize_with = "lenient")]
    tool_use: Option<u64>,
}

impl<'a> GenerateContentResponse<'a> {
    /// Parses an event's data: a response or, for some errors, a list of them.
    pub(super) fn read(data: &'a [u8]) -> serde_json::Result<Vec<Self>> {
        match data.trim_ascii_start().first() {
            Some(b'[') => serde_json::from_slice(data),
            _ => serde_json::from_slice(data).map(|response| vec![response]),
        }
    }
}

impl UsageMetadata {
    /// Returns the counts of this event. Counts that it lacks are taken from the event before.
    pub(super) fn after(self, before: Self) -> Self {
        Self {
            prompt: self.prompt.or(before.prompt),
            cached: self.cached.or(before.cached),
            candidates: self.candidates.or(before.candidates),
            thoughts: self.thoughts.or(before.thoughts),
            tool_use: self.tool_use.or(before.tool_use),
        }
    }

    /// Adds the counts to the counts of earlier requests.
    pub(super) fn added_to(self, spent: Usage) -> Usage {
        let add = |sum: u64, more: Option<u64>| sum.saturating_add(more.unwrap_or_default());
        Usage {
            input: add(add(spent.input, self.prompt), self.tool_use),
            cached: add(spent.cached, self.cached),
            written: spent.written,
            output: add(spent.output, self.candidates),
            thoughts: add(spent.thoughts, self.thoughts),
        }
    }
}
