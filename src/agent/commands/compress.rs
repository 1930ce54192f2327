//! `/compress`: replaces the earlier conversation by a summary, for the model.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "compress",
    description: "summarize the conversation so far, and continue from the summary",
    arguments: &[Argument {
        name: "about",
        description: "the topic that the summary should focus on",
        is_required: false,
    }],
    run: Some(|request| Box::pin(compress(request))),
    ..Command::BLANK_COMMAND
};

async fn compress(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let short = request.turn.compress(request.args).await;
    let short = short.map_err(|why| format!("The conversation is not compressed: {why}."))?;
    let files = match short.changed.len() {
        0 => String::new(),
        files => format!(" Files that the agent has changed: {files}."),
    };
    Ok(CommandReply::Say(format!(
        "A summary takes the place of the older messages. The newest messages and your own words stay as they \
         were.{files}"
    )))
}
