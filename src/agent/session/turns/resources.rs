//! Resources of MCP servers that a prompt mentions: they are read in calls that every front end sees, and told to the
//! model with the prompt.

use serde_json::json;

use super::mention::{Mention, all_mentions};
use crate::session::calls::call;
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::PromptPart;
use tandem_mcp::READ_RESOURCE;
use tandem_model::Call;

/// Maximum number of mentions in one prompt that are looked up. The constant below is the maximum number of resources
/// that are read.
const MAX_MENTIONS: usize = 100;
const MAX_RESOURCES: usize = 20;

/// Reads the resources that the prompt mentions. Returns `true` if a mention may name a resource.
pub(super) async fn read(engine: &Engine, turn: CurrentTurn<'_>, prompt: &[PromptPart]) -> bool {
    let hub = &engine.servers.hub;
    let mut words = words(prompt);
    words.retain(|word| hub.may_name_resource(word));
    if words.is_empty() {
        return false;
    }
    engine.servers.settled(turn.cancel).await;
    for word in words.into_iter().take(MAX_RESOURCES) {
        let Some((server, uri)) = hub.resource(&word) else { continue };
        let call = Call {
            id: String::new(),
            name: READ_RESOURCE.to_owned(),
            args: json!({ "serverName": server, "uri": uri }),
        };
        call::run_for_prompt(engine, turn, engine.calls.with_unique_id(call)).await;
    }
    true
}

/// Returns the words that a prompt mentions, each once.
fn words(prompt: &[PromptPart]) -> Vec<String> {
    let mut words = Vec::new();
    for Mention { path, .. } in all_mentions(prompt) {
        if words.len() < MAX_MENTIONS && !words.contains(&path) {
            words.push(path);
        }
    }
    words
}
