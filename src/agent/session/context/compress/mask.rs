//! Old results of calls that take much room: the model is told their beginning and end, and a file
//! that has the rest. It costs nothing, and often is all that a long conversation needs.

use std::sync::Arc;

use crate::session::engine::Engine;
use crate::session::events::event::{Event, Masked};
use tandem_model::{Message, ToolResult, tokens};

/// Characters from which on a result takes much room.
const BULKY: usize = 4000;

/// Characters of it that the model is still told.
const LEFT: usize = 500;

/// Bounds of the results that are shortened.
pub(super) struct MaskLimits {
    /// Tokens of the newest results that stay as they are.
    pub(super) newest: u64,
    /// `true` if the results of the last calls stay as they are, whatever their size.
    pub(super) but_last: bool,
    /// Tokens that must be won for it to be done.
    pub(super) least: u64,
}

/// Tells old results in short, if that wins enough; whether it did.
pub(super) async fn mask(engine: &Engine, reach: MaskLimits) -> bool {
    let conversation = engine.conversation(Clone::clone);
    let found = bulky(conversation.messages(), &reach);
    let most: u64 = found.iter().map(|result| tokens::of_result(result)).sum();
    if found.is_empty() || most < reach.least {
        return false;
    }
    let mut masked = Vec::new();
    for result in found {
        let mut text = engine.host.outputs.fit(&result.name, result.text.clone(), LEFT).await;
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

/// The results that take much room, but for the newest.
fn bulky<'a>(messages: &'a [Arc<Message>], reach: &MaskLimits) -> Vec<&'a ToolResult> {
    let results = messages.iter().rev().filter_map(|message| match &**message {
        Message::Results(results) => Some(results),
        _ => None,
    });
    let mut newest = 0;
    let mut found = Vec::new();
    for result in results.skip(usize::from(reach.but_last)).flatten() {
        newest += tokens::of_result(result);
        let is_bulky = result.text.len() > BULKY || !result.media.is_empty();
        if is_bulky && newest > reach.newest {
            found.push(result);
        }
    }
    found
}
