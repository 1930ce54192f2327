//! Scopes of an "always".

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::risk::AssessedCommand;

/// Calls that the user always allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "allow", content = "of", rename_all = "snake_case")]
pub enum Scope {
    /// Changing files of the workspace.
    Edits,
    /// Commands that begin with one of these words: `git commit`, `make`.
    Commands(Vec<String>),
    /// This command line in this directory, and no other.
    Line {
        /// As written.
        line: String,
        /// Absolute.
        directory: PathBuf,
    },
    /// Everything that these programs do: `git`.
    Programs(Vec<String>),
    /// Reading from these hosts.
    Hosts(Vec<String>),
    /// Everything that one tool does.
    Tool(String),
    /// Every tool of one MCP server.
    Server(String),
    /// That the model goes on when it repeats itself.
    Repetition,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| {
            let brief = |name: &String| match name.split_once('\n') {
                Some((line, _)) => format!("`{line} …`"),
                None => format!("`{name}`"),
            };
            names.iter().map(brief).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Edits => f.write_str("all edits in the workspace"),
            Self::Commands(prefixes) => write!(f, "commands that begin with {}", list(prefixes)),
            Self::Line { line, .. } if line.contains('\n') => f.write_str("exactly this command"),
            Self::Line { line, .. } => write!(f, "exactly `{line}`"),
            Self::Programs(programs) => write!(f, "everything that {} does", list(programs)),
            Self::Hosts(hosts) => write!(f, "fetching from {}", list(hosts)),
            Self::Tool(tool) => write!(f, "every call of `{tool}`"),
            Self::Repetition => f.write_str("going on when the model repeats itself"),
            Self::Server(server) => write!(f, "every tool of the server `{server}`"),
        }
    }
}

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

    pub(super) fn covers_line(&self, wanted: &str, in_directory: &Path) -> bool {
        self.0.iter().any(|scope| {
            matches!(scope, Scope::Line { line, directory } if line == wanted && directory == in_directory)
        })
    }

    pub(super) fn covers_host(&self, host: &String) -> bool {
        self.0.iter().any(|scope| matches!(scope, Scope::Hosts(hosts) if hosts.contains(host)))
    }
}
