//! Scopes that the user always allows, and the part of a command that they remember.

use std::path::{Path, PathBuf};

use super::risk::{AssessedCommand, ProjectContent};
use super::scope::{CONTENT, Scope};

/// End of the prefix that is remembered of a command whose output goes to a file.
const WRITING: &str = " >";

/// Returns the part of a command that "always" remembers, with the content of what the command runs.
pub(super) fn remembered(command: &AssessedCommand, edits: bool) -> String {
    as_it_is(&written(command, edits), [command])
}

/// Returns the prefix of a command, which says that the command writes a file, unless edits are allowed, and names
/// the file if it can be run.
fn written(command: &AssessedCommand, edits: bool) -> String {
    let prefix = &command.prefix;
    match &command.overwrites {
        _ if command.writes.is_none() || edits => prefix.clone(),
        Some(file) => format!("{prefix}{WRITING} {file}"),
        None => format!("{prefix}{WRITING}"),
    }
}

/// Returns the program that an "always" remembers: none where a file is written besides.
pub(super) fn program(command: &AssessedCommand, edits: bool) -> Option<String> {
    let program = command.program.as_ref().filter(|_| command.writes.is_none() || edits);
    program.map(|program| as_it_is(program, [command]))
}

/// Returns the line that an "always" remembers.
pub(super) fn line(line: &str, commands: &[AssessedCommand]) -> String {
    as_it_is(line, commands)
}

/// Returns a text with the content of what these commands run, if that is known.
fn as_it_is<'a>(text: &str, commands: impl IntoIterator<Item = &'a AssessedCommand>) -> String {
    let known = commands.into_iter().filter_map(|command| match &command.content {
        ProjectContent::Known(content) => Some(content),
        ProjectContent::None | ProjectContent::Unknown => None,
    });
    known.fold(text.to_owned(), |text, content| format!("{text}{CONTENT}{content}"))
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
        let more = as_it_is(&format!("{}{WRITING}", written(command, edits)), [command]);
        let program = program(command, edits);
        self.0.iter().any(|scope| match scope {
            Scope::Commands(known) => known.contains(&prefix) || known.contains(&more),
            Scope::Programs(known) => program.as_ref().is_some_and(|it| known.contains(it)),
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

    /// Returns whether they cover the reading of a file outside of the workspace, a real path.
    pub(super) fn covers_reading(&self, path: &Path) -> bool {
        self.readable().any(|place| path.starts_with(place))
    }

    /// Returns the files and directories outside of the workspace whose reading they cover.
    pub(super) fn readable(&self) -> impl Iterator<Item = &PathBuf> {
        let places = self.0.iter().map(|scope| match scope {
            Scope::Reads(places) => places.as_slice(),
            _ => &[],
        });
        places.flatten()
    }

    pub(super) fn covers_host(&self, host: &String) -> bool {
        self.0.iter().any(|scope| matches!(scope, Scope::Hosts(hosts) if hosts.contains(host)))
    }
}
