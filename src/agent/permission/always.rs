//! Scopes that the user always allows, and the part of a command that they remember.

use std::path::Path;

use super::risk::AssessedCommand;
use super::scope::Scope;

/// End of the prefix that is remembered of a command whose output goes to a file.
const WRITING: &str = " >";

/// Returns the part of a command that "always" remembers. It says that the command writes a file,
/// unless edits are allowed, and names the file if it can be run.
pub(super) fn remembered(command: &AssessedCommand, edits: bool) -> String {
    let prefix = &command.prefix;
    match &command.overwrites {
        _ if command.writes.is_none() || edits => prefix.clone(),
        Some(file) => format!("{prefix}{WRITING} {file}"),
        None => format!("{prefix}{WRITING}"),
    }
}

/// Returns the program that an "always" remembers: none where a file is written besides.
pub(super) fn program(command: &AssessedCommand, edits: bool) -> Option<&String> {
    command.program.as_ref().filter(|_| command.writes.is_none() || edits)
}

/// Scopes that the user always allows, as far as they count now.
pub(super) struct Always(pub(super) Vec<Scope>);

impl Always {
    pub(super) fn has(&self, scope: &Scope) -> bool {
        self.0.contains(scope)
    }

    /// Returns whether they cover the prefix of a command, or its whole program.
    pub(super) fn covers(&self, command: &AssessedCommand, edits: bool) -> bool {
        let prefix = remembered(command, edits);
        // An "always" with a redirection covers the command without.
        let more = format!("{prefix}{WRITING}");
        let program = program(command, edits);
        self.0.iter().any(|scope| match scope {
            Scope::Commands(known) => known.contains(&prefix) || known.contains(&more),
            Scope::Programs(known) => program.is_some_and(|program| known.contains(program)),
            _ => false,
        })
    }

    /// Returns whether they cover a command without the sandbox.
    pub(super) fn covers_outside(&self, command: &AssessedCommand) -> bool {
        self.0.iter().any(|scope| {
            matches!(scope, Scope::Outside(known) if known.contains(&remembered(command, false)))
        })
    }

    pub(super) fn covers_line(&self, wanted: &str, in_directory: &Path) -> bool {
        self.0.iter().any(|scope| {
            matches!(scope, Scope::Line { line, directory } if line == wanted && directory == in_directory)
        })
    }

    pub(super) fn covers_connection(&self, to: &String) -> bool {
        self.0.iter().any(|scope| matches!(scope, Scope::Connections(hosts) if hosts.contains(to)))
    }

    pub(super) fn covers_host(&self, host: &String) -> bool {
        self.0.iter().any(|scope| matches!(scope, Scope::Hosts(hosts) if hosts.contains(host)))
    }
}
