//! The masking of old, large results of calls: the model is given only their beginning and end, and the file that has
//! the whole result. Masking needs no request to a model, and is often enough to shorten a long conversation. What the
//! model was told together with a result, such as the memory files of a directory, is not masked: the model is told
//! these only once.

use crate::session::context::conversation::MessageHistory;
use crate::session::engine::Engine;
use crate::session::events::event::{Event, Masked};
use tandem_model::{Message, ToolResult, tokens};

/// Bytes from which on a result is large enough to be masked.
const MIN_MASKED_BYTES: usize = 4000;

/// Maximum number of characters of a masked result.
const MAX_MASKED_CHARS: usize = 500;

/// Limits on the results that are masked.
pub(super) struct MaskLimits {
    /// Number of tokens of the newest results that stay unmasked.
    pub(super) newest: u64,
    /// `true` if the results of the last answer's calls stay unmasked, whatever their size.
    pub(super) but_last: bool,
    /// Number of tokens that the masking must save. If it would save less, no result is masked.
    pub(super) least: u64,
}

/// Masks old results, if that saves enough tokens. Returns `true` if it did.
pub(super) async fn mask(engine: &Engine, reach: MaskLimits) -> bool {
    let conversation = engine.conversation(Clone::clone);
    let found = bulky(&conversation, &reach);
    let most: u64 = found.iter().map(|result| tokens::of_result(result)).sum();
    if found.is_empty() || most < reach.least {
        return false;
    }
    let mut masked = Vec::new();
    for result in found {
        let own_text = conversation.own_text(result).to_owned();
        let mut text = engine.host.outputs.fit(&result.name, own_text, MAX_MASKED_CHARS).await;
        if !result.media.is_empty() {
            text.push_str(&format!("\n[{} attached, not told any more]", result.media.len()));
        }
        masked.push(Masked { call: result.call.clone(), text });
    }
    let mut after = conversation.clone();
    after.mask(&masked);
    if after.tokens() + reach.least.max(1) > conversation.tokens() {
        return false;
    }
    engine.log.append(Event::Masked(masked));
    true
}

/// Returns the results that are large and not among the newest, newest first.
fn bulky<'a>(conversation: &'a MessageHistory, reach: &MaskLimits) -> Vec<&'a ToolResult> {
    let messages = conversation.messages().iter().rev();
    let results = messages.filter_map(|message| match &**message {
        Message::Results(results) => Some(results),
        _ => None,
    });
    let mut newest = 0;
    let mut found = Vec::new();
    for result in results.skip(usize::from(reach.but_last)).flatten() {
        newest += tokens::of_result(result);
        let is_long = conversation.own_text(result).len() > MIN_MASKED_BYTES;
        let is_bulky = is_long || !result.media.is_empty();
        if is_bulky && newest > reach.newest {
            found.push(result);
        }
    }
    found
}
