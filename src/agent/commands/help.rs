//! `/help`: lists the commands, or shows the usage of a command.

use super::registry::{Argument, Command, CommandRequest, command_lines};
use crate::session::{CommandReply, Commands as _};

pub(super) const COMMAND: Command = Command {
    name: "help",
    description: "list the commands, or show the usage of one",
    arguments: &[Argument {
        name: "command",
        description: "the command's name",
        is_required: false,
    }],
    run: Some(|request| Box::pin(async move { help(&request) })),
    ..Command::BLANK_COMMAND
};

fn help(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    let commands = request.registry.list();
    let own = request.registry.of_session(&request.turn.engine.servers.hub);
    if request.args.is_empty() {
        let own = own.iter().map(|command| format!("- {}\n", command.line()));
        let lines = command_lines("", commands) + &own.collect::<String>();
        return Ok(CommandReply::Say(format!(
            "A prompt that begins with one of these commands runs the command; the model does not see the \
             prompt.\n\n{lines}"
        )));
    }
    let asked = format!("/{}", request.args.trim_start_matches('/'));
    if let Some(command) = own.iter().find(|command| format!("/{}", command.name) == asked) {
        return Ok(CommandReply::Say(command.line()));
    }
    let found = request.registry.find(&asked).filter(|found| found.args.is_empty());
    let found = found.ok_or_else(|| {
        format!("Unknown command `{asked}`. Known commands:\n\n{}", command_lines("", commands))
    })?;
    if found.command.run.is_none() {
        return Ok(CommandReply::Say(command_lines(&found.path, found.command.sub_commands)));
    }
    let mut lines = format!("{}\n", found.command.usage(&found.path));
    for argument in found.command.arguments {
        let needed = if argument.is_required { "" } else { " (optional)" };
        let name = argument.name.to_uppercase();
        lines += &format!("\n{name}{needed}: {}.\n", argument.description);
    }
    if !found.command.sub_commands.is_empty() {
        lines += &format!("\n{}", command_lines(&found.path, found.command.sub_commands));
    }
    Ok(CommandReply::Say(lines))
}
