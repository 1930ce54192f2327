//! `/commands`: the user's own commands, and what is wrong with their files.

use super::custom::CommandFile;
use super::registry::{Command, CommandRequest};
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "commands",
    description: "your own commands: their files, and errors in them",
    run: Some(|request| Box::pin(async move { Ok(list(&request)) })),
    ..Command::BLANK_COMMAND
};

const NO_COMMANDS: &str = "You have no commands of your own. Write one as a TOML file with `prompt = \"...\"` \
    in it: `~/.gemini/commands/NAME.toml`, or `.gemini/commands/NAME.toml` in a project.";

fn list(request: &CommandRequest<'_>) -> CommandReply {
    let own = request.registry.user_commands();
    if own.is_empty() {
        return CommandReply::Say(NO_COMMANDS.to_owned());
    }
    let line = |found: &CommandFile| match &*found.read {
        Ok(_) => format!("- {} ({})\n", found.listed().line(), found.file.display()),
        Err(why) => format!("- `/{}` cannot be used: {why}\n", found.name),
    };
    CommandReply::Say(own.iter().map(line).collect())
}
