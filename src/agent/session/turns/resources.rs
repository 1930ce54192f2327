//! Resources of MCP servers that a prompt mentions: they are read in calls that every front end sees, and told to the
//! model with the prompt.

use serde_json::json;

use crate::session::calls::call;
use crate::session::context::at_path;
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
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: String| {
        if words.len() < MAX_MENTIONS && !words.contains(&word) {
            words.push(word);
        }
    };
    for part in prompt {
        match part {
            PromptPart::Path(path) => add(path.clone()),
            PromptPart::Text(text) => at_path::all(text).into_iter().for_each(|at| add(at.path)),
            PromptPart::Input(_)
            | PromptPart::Shell(_)
            | PromptPart::Media(_)
            | PromptPart::File(_)
            | PromptPart::AnswerSchema(_) => {}
        }
    }
    words
}
