//! Scopes of an "always": the calls that such an answer allows from now on.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Separator between a remembered command and the project content that the command was allowed with: names of files and
/// a hash. No command line that can be analysed has this character.
pub const CONTENT_SEPARATOR: char = '\u{1f}';

/// Calls that the user always allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "allow", content = "of", rename_all = "snake_case")]
pub enum Scope {
    /// Changing files of the workspace.
    Edits,
    /// Commands that begin with one of these prefixes: `git commit`, `make`.
    Commands(Vec<String>),
    /// Commands that begin with one of these prefixes, outside of the sandbox.
    Outside(Vec<String>),
    /// This command line in this directory, and no other.
    Line {
        /// Text of the line, as written.
        line: String,
        /// Directory that the line runs in, as an absolute path.
        directory: PathBuf,
    },
    /// Every command of these programs: `git`.
    Programs(Vec<String>),
    /// Reading from these hosts with `web_fetch`. Only earlier versions of this program offered and saved this scope.
    Hosts(Vec<String>),
    /// Connections to these hosts, of commands in the sandbox and of `web_fetch`.
    Connections(Vec<String>),
    /// Reading these files outside of the workspace, and everything below these directories, by tools and by commands
    /// in the sandbox. The paths are real.
    Reads(Vec<PathBuf>),
    /// Every call of one tool.
    Tool(String),
    /// Every tool of one MCP server.
    Server(String),
    /// Sending to one other agent.
    Agent(String),
    /// One tool of another agent that asks before it uses the tool.
    AgentTool {
        /// The agent's name in the settings.
        agent: String,
        /// The agent's name of the tool.
        tool: String,
    },
    /// Going on with a turn in which the model repeats itself.
    Repetition,
}

impl Scope {
    /// Returns the prefixes of the commands that the scope covers; empty for a scope of another kind.
    pub fn prefixes(&self) -> Vec<&str> {
        let (Self::Commands(remembered) | Self::Outside(remembered)) = self else {
            return Vec::new();
        };
        remembered.iter().map(|it| it.split(CONTENT_SEPARATOR).next().unwrap_or_default()).collect()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |names: &[String]| names.iter().map(|name| brief(name)).collect::<Vec<_>>().join(", ");
        match self {
            Self::Edits => f.write_str("all edits in the workspace"),
            Self::Commands(prefixes) => write!(f, "commands that begin with {}", list(prefixes)),
            Self::Outside(prefixes) => {
                write!(f, "commands that begin with {}, outside the sandbox", list(prefixes))
            }
            Self::Line { line, .. } if line.contains('\n') => f.write_str("exactly this command"),
            Self::Line { line, .. } => write!(f, "exactly {}", brief(line)),
            Self::Programs(programs) => write!(f, "everything that {} does", list(programs)),
            Self::Hosts(hosts) => write!(f, "fetching from {}", list(hosts)),
            Self::Connections(hosts) => {
                write!(f, "connections to {}", list(hosts))
            }
            Self::Reads(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "reading {}", list(&paths))
            }
            Self::Tool(tool) => write!(f, "every call of `{tool}`"),
            Self::Repetition => f.write_str("going on when the model repeats itself"),
            Self::Agent(agent) => write!(f, "sending to the agent `{agent}`"),
            Self::AgentTool { agent, tool } => write!(f, "`{tool}` of the agent `{agent}`"),
            Self::Server(server) => write!(f, "every tool of the server `{server}`"),
        }
    }
}

/// Returns a remembered prefix, program or line in a form for people.
fn brief(remembered: &str) -> String {
    let mut parts = remembered.split(CONTENT_SEPARATOR);
    let text = parts.next().unwrap_or_default();
    let text = match text.split_once('\n') {
        Some((line, _)) => format!("`{line} …`"),
        None => format!("`{text}`"),
    };
    let files = parts.filter_map(|content| Some(format!("`{}`", content.rsplit_once(' ')?.0)));
    let files: Vec<_> = files.collect();
    match files.len() {
        0 => text,
        _ => format!("{text} (with {} as now)", files.join(", ")),
    }
}
