//! `/plan`: begins and ends plan mode, in which only reading is allowed.

use super::registry::{Command, CommandRequest};
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "plan",
    description: "plan mode: only reading is allowed, everything else is refused without a question",
    sub_commands: &[Command {
        name: "off",
        description: "return to the mode before plan mode",
        run: Some(|request| Box::pin(async move { end(&request) })),
        ..Command::BLANK_COMMAND
    }],
    run: Some(|request| Box::pin(async move { begin(&request) })),
    ..Command::BLANK_COMMAND
};

const NOT_BEGUN: &str = "The mode is not changed: `/plan off` ends plan mode only where `/plan` began it. Set \
    another mode in your editor or terminal.";

fn begin(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    if !request.turn.engine.modes.begin_plan()? {
        return Ok(CommandReply::Say("The mode is `plan` already.".to_owned()));
    }
    Ok(CommandReply::Say(
        "The mode is `plan` now: calls that read files or the web are allowed, and all others are refused. \
         `/plan off` ends this mode."
            .to_owned(),
    ))
}

fn end(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    let mode = request.turn.engine.modes.end_plan()?;
    let mode = mode.ok_or(NOT_BEGUN)?;
    Ok(CommandReply::Say(format!("The mode is `{mode}` again.")))
}
