//! Events of the Responses API, as far as they are read. Any field may be missing, null or of another type.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Usage;
use crate::stream::lenient;

/// An output item as it was received.
pub(super) type RawItem = Map<String, Value>;

/// Data of one event. Each kind of event has some of these fields.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseEvent {
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) item_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) output_index: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) delta: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) arguments: Option<String>,
    /// Input of a custom tool.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) input: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) item: Option<RawItem>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) response: Option<ResponseBody>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<Value>,
}

/// A response at its end.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseBody {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) error: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    incomplete_details: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) output: Option<Vec<RawItem>>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Value>,
}

impl ResponseBody {
    /// Returns the server's reason for an incomplete answer.
    pub(super) fn incomplete_reason(&self) -> String {
        let reason = self.incomplete_details.as_ref().and_then(|it| it.get("reason")?.as_str());
        reason.unwrap_or("unknown").to_owned()
    }

    /// Returns the tokens used, if the response has them.
    pub(super) fn usage(&self) -> Option<Usage> {
        let usage = self.usage.as_ref()?;
        let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
        let (input, output) = (number("/input_tokens"), number("/output_tokens"));
        if input.is_none() && output.is_none() {
            return None;
        }
        let thoughts = number("/output_tokens_details/reasoning_tokens").unwrap_or_default();
        Some(Usage {
            input: input.unwrap_or_default(),
            cached: number("/input_tokens_details/cached_tokens").unwrap_or_default(),
            written: number("/input_tokens_details/cache_write_tokens").unwrap_or_default(),
            output: output.unwrap_or_default().saturating_sub(thoughts),
            thoughts,
        })
    }
}

/// Returns a field of an item that is text; empty if there is none.
pub(super) fn text<'a>(item: &'a RawItem, field: &str) -> &'a str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the texts of a list of parts, whether text or a refusal.
pub(super) fn part_texts<'a>(item: &'a RawItem, field: &str) -> impl Iterator<Item = &'a str> {
    let parts = item.get(field).and_then(Value::as_array).into_iter().flatten();
    let texts = parts.filter_map(|part| part.get("text").or(part.get("refusal"))?.as_str());
    texts.filter(|text| !text.is_empty())
}
