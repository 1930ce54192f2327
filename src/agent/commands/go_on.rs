//! `/continue`: goes on with a turn that was cut off.

use super::registry::Command;
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "continue",
    description: "go on with a turn that was interrupted, cancelled or failed, without a new prompt",
    asks_model: true,
    run: Some(|request| {
        Box::pin(async move {
            if request.turn.engine.transcript.lock().is_unanswered() {
                Ok(CommandReply::Ask(Vec::new()))
            } else {
                Err("There is nothing to go on with: no prompt waits for an answer. Say what to do next."
                    .to_owned())
            }
        })
    }),
    ..Command::BLANK_COMMAND
};
