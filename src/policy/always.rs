//! Scopes that the user always allows, and the part of a command that an "always" remembers.

use std::path::{Path, PathBuf};

use super::decide::{Gravity, gravity};
use super::findings::{AssessedCommand, Fact, ProjectContent};
use tandem_approval::{CONTENT_SEPARATOR, Scope};

/// End of the remembered prefix of a command that writes a file by a redirection.
const WRITING_SUFFIX: &str = " >";

/// Returns the part of a command that an "always" remembers, with the content of the project's files that decide what
/// the command runs. `edits`: the user allows changes of files.
pub(super) fn remembered(command: &AssessedCommand, edits: bool) -> String {
    as_it_is(&written(command, edits), [command])
}

/// Returns the prefix of a command. Unless edits are allowed, the prefix says that the command writes a file, and names
/// the file if it is executable.
fn written(command: &AssessedCommand, edits: bool) -> String {
    let prefix = &command.remembered.prefix;
    match &command.remembered.overwrites {
        _ if command.first_finding(Fact::WritesFile).is_none() || edits => prefix.clone(),
        Some(file) => format!("{prefix}{WRITING_SUFFIX} {file}"),
        None => format!("{prefix}{WRITING_SUFFIX}"),
    }
}

/// Returns the program that an "always" remembers; `None` if the command also writes a file, unless edits are allowed.
pub(super) fn program(command: &AssessedCommand, edits: bool) -> Option<String> {
    let is_covered = command.first_finding(Fact::WritesFile).is_none() || edits;
    let program = command.remembered.program.as_ref().filter(|_| is_covered);
    program.map(|program| as_it_is(program, [command]))
}

/// Returns the command line that an "always" remembers.
pub(super) fn line(line: &str, commands: &[AssessedCommand]) -> String {
    as_it_is(line, commands)
}

/// Returns a text with the content of the project's files that decide what these commands run, where the content is
/// known. No "always" covers commands that are asked about every time, so that their content does not count.
fn as_it_is<'a>(text: &str, commands: impl IntoIterator<Item = &'a AssessedCommand>) -> String {
    let commands =
        commands.into_iter().filter(|it| gravity(&it.findings) != Some(Gravity::EveryTime));
    let known = commands.filter_map(|command| match &command.remembered.content {
        ProjectContent::Known(content) => Some(content),
        ProjectContent::None | ProjectContent::Unknown => None,
    });
    known.fold(text.to_owned(), |text, content| format!("{text}{CONTENT_SEPARATOR}{content}"))
}

/// Scopes that the user always allows, as far as they count in the present mode and folder.
pub(super) struct Always(pub(super) Vec<Scope>);

impl Always {
    pub(super) fn has(&self, scope: &Scope) -> bool {
        self.0.contains(scope)
    }

    /// Returns whether the scopes cover the prefix of a command, or its whole program.
    pub(super) fn covers(&self, command: &AssessedCommand, edits: bool) -> bool {
        let prefix = remembered(command, edits);
        // An "always" for a command with a redirection also covers the command without one.
        let more = as_it_is(&format!("{}{WRITING_SUFFIX}", written(command, edits)), [command]);
        let program = program(command, edits);
        self.0.iter().any(|scope| match scope {
            Scope::Commands(known) => known.contains(&prefix) || known.contains(&more),
            Scope::Programs(known) => program.as_ref().is_some_and(|it| known.contains(it)),
            _ => false,
        })
    }

    /// Returns whether the scopes cover a command outside of the sandbox.
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

    /// Returns whether the scopes cover the reading of a file outside of the workspace; `path` is a real path.
    pub(super) fn covers_reading(&self, path: &Path) -> bool {
        self.readable().any(|place| path.starts_with(place))
    }

    /// Returns the files and directories outside of the workspace whose reading the scopes cover.
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
