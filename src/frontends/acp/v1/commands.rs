//! Slash commands of a session, as ACP lists them.

use tandem_agent::commands::{Command, Registry};
use tandem_agent::session::{Session, SessionCommand};
use tandem_wire::acp::v1::{AvailableCommand, CommandInput};

/// Returns the built-in commands and the session's own. May read files.
pub(super) fn available(session: &Session) -> Vec<AvailableCommand> {
    let registry = Registry::default();
    let built_in = registry.list().iter().map(built_in);
    built_in.chain(session.own_commands().into_iter().map(available_command)).collect()
}

fn built_in(command: &Command) -> AvailableCommand {
    let Command { name, description, .. } = command;
    AvailableCommand {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        input: input(command.hint()),
    }
}

fn available_command(command: SessionCommand) -> AvailableCommand {
    let SessionCommand { name, description, usage, .. } = command;
    AvailableCommand { name, description, input: input(usage) }
}

fn input(hint: String) -> Option<CommandInput> {
    (!hint.is_empty()).then_some(CommandInput { hint })
}
