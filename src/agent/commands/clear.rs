//! `/clear`: makes the model forget the conversation so far.

use super::registry::Command;
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "clear",
    description: "clear the conversation so far for the model",
    arguments: &[],
    sub_commands: &[],
    asks_model: false,
    run: Some(|request| {
        Box::pin(async move {
            request.turn.forget();
            Ok(CommandReply::Say(
                "The model has forgotten the conversation so far. Files are as they are, and so \
                 is what you have allowed."
                    .to_owned(),
            ))
        })
    }),
};
