//! `/clear`: makes the model forget the conversation so far.

use super::registry::Command;
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "clear",
    description: "let the model forget the conversation so far",
    run: Some(|request| {
        Box::pin(async move {
            request.turn.forget();
            Ok(CommandReply::Say(
                "The model has forgotten the conversation so far. Files stay as they are, and your \"always\" \
                 answers still count."
                    .to_owned(),
            ))
        })
    }),
    ..Command::BLANK_COMMAND
};
