//! All limits of the program, each with a name for the command line and the settings.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tandem_a2a_client as a2a_client;
use tandem_agent::commands;
use tandem_git as git;
use tandem_host::ToolLimits;
use tandem_mcp as mcp;
use tandem_model as model;

/// All limits.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum size in bytes of a line that an editor or another peer sends.
    pub line_bytes: usize,
    /// Maximum number of bytes of standard input that are put before a prompt.
    pub stdin_bytes: usize,
    /// Maximum number of requests to the model in one turn.
    pub rounds: usize,
    /// Maximum number of bytes of a session's log in memory.
    pub log_bytes: usize,
    /// Maximum size in bytes of a span's attribute that holds text of the conversation.
    pub trace_content_bytes: usize,
    /// Limits of tools.
    pub tools: ToolLimits,
    /// Limits of MCP servers.
    pub mcp: mcp::McpLimits,
    /// Limits of calls of other agents.
    pub agents: a2a_client::AgentLimits,
    /// Limits of the user's own commands.
    pub commands: commands::CustomLimits,
    /// Options of requests to the model.
    pub model: model::options::RequestOptions,
    /// Limits of the A2A server.
    pub a2a: A2aLimits,
    /// Limits of the store of sessions.
    pub store: StoreLimits,
    /// Limits of workspaces that are clones of git repositories.
    pub git: git::GitLimits,
}

/// Limits of the store of sessions, most of them for a database as the store.
#[derive(Debug, Clone)]
pub struct StoreLimits {
    /// Time after which a database that does not answer is reported as unreachable.
    pub patience: Duration,
    /// Time without a sign of life after which a node's sessions may be taken over.
    pub node_dead: Duration,
    /// Maximum number of bytes of one session's files in the database.
    pub session_files_bytes: u64,
    /// Time for which a session of A2A clients waits for a store that refuses writes, before the session ends.
    pub refusal: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            node_dead: Duration::from_secs(3),
            session_files_bytes: 128 << 20,
            refusal: Duration::from_mins(2),
        }
    }
}

/// Limits of the A2A server.
#[derive(Debug, Clone)]
pub struct A2aLimits {
    /// Maximum number of connections at once.
    pub connections: usize,
    /// Maximum number of requests under way at once.
    pub requests: usize,
    /// Maximum number of requests without a valid token, from one address within a minute, that are answered with the
    /// reason.
    pub refused_requests: usize,
    /// Maximum number of requests under way at once on one HTTP/2 connection, including event streams.
    pub streams: usize,
    /// Maximum size in bytes of a request's body or of a WebSocket's frame.
    pub body_bytes: usize,
    /// Maximum number of characters of a text that a client attaches to a message.
    pub attachment_chars: usize,
    /// Time after a turn's end during which its message, if sent again without naming a session, counts as a retry.
    pub retry: Duration,
    /// Maximum time for the head of a request.
    pub head_time: Duration,
    /// Maximum time for which a client may leave sent data unread.
    pub patience: Duration,
    /// Time without data from a WebSocket's client after which the server sends a ping.
    pub ping: Duration,
    /// Time that the client has to answer the ping.
    pub pong: Duration,
    /// Maximum number of sessions at once.
    pub sessions: usize,
    /// Lifetime of a session that no client uses.
    pub session_idle: Duration,
    /// Time that a question waits for an answer of a client, while no user at a terminal is asked too.
    pub question: Duration,
    /// Maximum number of sessions at once of one principal: a client that the server knows by name.
    pub principal_sessions: usize,
    /// Maximum number of turns at once of one principal.
    pub principal_turns: usize,
    /// Maximum number of requests of one principal within a second.
    pub principal_requests: usize,
    /// Maximum number of the model's tokens of one principal within a day (UTC).
    pub principal_tokens: u64,
}

impl Default for A2aLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            requests: 64,
            refused_requests: 120,
            streams: 64,
            body_bytes: 4 << 20,
            attachment_chars: 100_000,
            retry: Duration::from_mins(10),
            head_time: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            ping: Duration::from_secs(30),
            pong: Duration::from_secs(30),
            sessions: 1000,
            session_idle: Duration::from_hours(1),
            question: Duration::from_hours(1),
            principal_sessions: 100,
            principal_turns: 20,
            principal_requests: 100,
            principal_tokens: 1_000_000_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 32 << 20,
            stdin_bytes: 8 << 20,
            rounds: 100,
            log_bytes: 16 << 20,
            trace_content_bytes: 8 << 10,
            tools: ToolLimits::default(),
            mcp: mcp::McpLimits::default(),
            agents: a2a_client::AgentLimits::default(),
            commands: commands::CustomLimits::default(),
            model: model::options::RequestOptions::default(),
            a2a: A2aLimits::default(),
            store: StoreLimits::default(),
            git: git::GitLimits::default(),
        }
    }
}

/// Longest time that a limit can have. A clock cannot always add a longer time to the present.
pub(super) const LONGEST: Duration = Duration::from_hours(365 * 24);

/// Change of one limit, which is written `NAME=VALUE`.
#[derive(Clone)]
pub struct Change {
    named: &'static Named,
    value: u64,
}

impl Change {
    /// Changes the limit in `limits`.
    pub fn apply(&self, limits: &mut Limits) {
        match self.named.field {
            Field::Count(field) => {
                *field(limits) = usize::try_from(self.value).unwrap_or(usize::MAX);
            }
            Field::Bytes(field) => *field(limits) = self.value,
            Field::Times(field) => {
                *field(limits) = u32::try_from(self.value).unwrap_or(u32::MAX);
            }
            Field::Seconds(field) => *field(limits) = Duration::from_secs(self.value).min(LONGEST),
        }
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(change: &str) -> Result<Self, ChangeError> {
        let (name, value) = change.split_once('=').ok_or(ChangeError::Form)?;
        let named = NAMED.iter().find(|named| named.name == name);
        let named = named.ok_or_else(|| ChangeError::UnknownLimit(name.to_owned()))?;
        let value = value.parse().map_err(|_| ChangeError::NotANumber(value.to_owned()))?;
        if value == 0 {
            return Err(ChangeError::Zero);
        }
        Ok(Self { named, value })
    }
}

/// Reason why a text cannot be read as a change of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// The text is not `NAME=VALUE`.
    Form,
    /// No limit has this name.
    UnknownLimit(String),
    /// The value is not a whole number.
    NotANumber(String),
    /// The value is 0.
    Zero,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("must be NAME=VALUE"),
            Self::UnknownLimit(name) => {
                let names: Vec<_> = NAMED.iter().map(|named| named.name).collect();
                write!(f, "unknown limit `{name}`; known limits: {}", names.join(", "))
            }
            Self::NotANumber(value) => write!(f, "`{value}` is not a whole number"),
            Self::Zero => f.write_str("a limit is at least 1"),
        }
    }
}

impl Error for ChangeError {}

/// Returns the text of the help on limits: one line for each limit, with its default.
pub fn help() -> String {
    let mut defaults = Limits::default();
    let mut line = |named: &Named| {
        let default = match named.field {
            Field::Count(field) => field(&mut defaults).to_string(),
            Field::Bytes(field) => match *field(&mut defaults) {
                u64::MAX => "none".to_owned(),
                default => default.to_string(),
            },
            Field::Times(field) => field(&mut defaults).to_string(),
            Field::Seconds(field) => field(&mut defaults).as_secs().to_string(),
        };
        format!("  {:<22} {:<50} [{default}]\n", named.name, named.what)
    };
    NAMED.iter().map(&mut line).collect()
}

/// Entry of a limit: its name, its description for the help, and its accessor.
struct Named {
    name: &'static str,
    what: &'static str,
    field: Field,
}

/// Accessor of a limit's field, by the field's type.
enum Field {
    Count(fn(&mut Limits) -> &mut usize),
    Bytes(fn(&mut Limits) -> &mut u64),
    Times(fn(&mut Limits) -> &mut u32),
    Seconds(fn(&mut Limits) -> &mut Duration),
}

/// All limits, in the order in which people are shown them.
const NAMED: &[Named] = &[
    Named {
        name: "line-bytes",
        what: "a line that an editor sends, or the agent that a terminal is attached to",
        field: Field::Count(|limits| &mut limits.line_bytes),
    },
    Named {
        name: "stdin-bytes",
        what: "standard input that is put before the prompt of -p",
        field: Field::Count(|limits| &mut limits.stdin_bytes),
    },
    Named {
        name: "rounds",
        what: "requests to the model in one turn",
        field: Field::Count(|limits| &mut limits.rounds),
    },
    Named {
        name: "model-attempts",
        what: "attempts of a request to the model",
        field: Field::Times(|limits| &mut limits.model.retry.attempts),
    },
    Named {
        name: "model-connect-seconds",
        what: "connecting to the model",
        field: Field::Seconds(|limits| &mut limits.model.connect_timeout),
    },
    Named {
        name: "model-idle-seconds",
        what: "silence of the model",
        field: Field::Seconds(|limits| &mut limits.model.idle),
    },
    Named {
        name: "answer-bytes",
        what: "an answer of the model",
        field: Field::Count(|limits| &mut limits.model.max_answer),
    },
    Named {
        name: "event-bytes",
        what: "one event of an answer",
        field: Field::Count(|limits| &mut limits.model.max_event),
    },
    Named {
        name: "file-bytes",
        what: "a file that is read or edited",
        field: Field::Bytes(|limits| &mut limits.tools.file_bytes),
    },
    Named {
        name: "editor-file-bytes",
        what: "a file whose unsaved text an editor is asked for",
        field: Field::Bytes(|limits| &mut limits.tools.editor_bytes),
    },
    Named {
        name: "editor-file-seconds",
        what: "an editor's answer about a file",
        field: Field::Seconds(|limits| &mut limits.tools.editor_time),
    },
    Named {
        name: "editor-terminal-seconds",
        what: "an editor's answer about one of its terminals",
        field: Field::Seconds(|limits| &mut limits.tools.client_terminal_time),
    },
    Named {
        name: "read-lines",
        what: "lines of a file that are read at once",
        field: Field::Count(|limits| &mut limits.tools.read_lines),
    },
    Named {
        name: "read-chars",
        what: "characters of files that one call reads",
        field: Field::Count(|limits| &mut limits.tools.read_chars),
    },
    Named {
        name: "line-chars",
        what: "characters of a line of a file before it is cut",
        field: Field::Count(|limits| &mut limits.tools.line_chars),
    },
    Named {
        name: "output-chars",
        what: "characters of a call's output that the model is given",
        field: Field::Count(|limits| &mut limits.tools.output_chars),
    },
    Named {
        name: "kept-output-bytes",
        what: "longer output that is kept for the model to read",
        field: Field::Bytes(|limits| &mut limits.tools.kept_output_bytes),
    },
    Named {
        name: "files",
        what: "files that one call names",
        field: Field::Count(|limits| &mut limits.tools.files),
    },
    Named {
        name: "search-seconds",
        what: "a search",
        field: Field::Seconds(|limits| &mut limits.tools.search_time),
    },
    Named {
        name: "web-bytes",
        what: "bytes that one call reads from the web",
        field: Field::Count(|limits| &mut limits.tools.web_bytes),
    },
    Named {
        name: "web-seconds",
        what: "reading one web address",
        field: Field::Seconds(|limits| &mut limits.tools.web_time),
    },
    Named {
        name: "web-requests",
        what: "requests to one web host within a minute",
        field: Field::Count(|limits| &mut limits.tools.web_requests),
    },
    Named {
        name: "shell-seconds",
        what: "a command before it goes to the background",
        field: Field::Seconds(|limits| &mut limits.tools.shell_time),
    },
    Named {
        name: "shell-idle-seconds",
        what: "silence of a command before it is ended",
        field: Field::Seconds(|limits| &mut limits.tools.shell_idle),
    },
    Named {
        name: "shell-bytes",
        what: "a command's output that is kept in memory",
        field: Field::Count(|limits| &mut limits.tools.shell_bytes),
    },
    Named {
        name: "background-commands",
        what: "commands in the background at once",
        field: Field::Count(|limits| &mut limits.tools.background_commands),
    },
    Named {
        name: "background-bytes",
        what: "output of a background command kept in memory",
        field: Field::Count(|limits| &mut limits.tools.background_bytes),
    },
    Named {
        name: "sandbox-connections",
        what: "connections at once of commands in the sandbox",
        field: Field::Count(|limits| &mut limits.tools.proxy.connections),
    },
    Named {
        name: "sandbox-hosts",
        what: "hosts that one command in the sandbox asks for",
        field: Field::Count(|limits| &mut limits.tools.proxy.hosts),
    },
    Named {
        name: "sandbox-head-bytes",
        what: "the head of a request to the proxy of the sandbox",
        field: Field::Count(|limits| &mut limits.tools.proxy.head_bytes),
    },
    Named {
        name: "sandbox-head-seconds",
        what: "receiving the head of such a request",
        field: Field::Seconds(|limits| &mut limits.tools.proxy.head_time),
    },
    Named {
        name: "sandbox-connect-seconds",
        what: "resolving a name for a command, and connecting",
        field: Field::Seconds(|limits| &mut limits.tools.proxy.connect_time),
    },
    Named {
        name: "sandbox-idle-seconds",
        what: "silence of a connection of such a command",
        field: Field::Seconds(|limits| &mut limits.tools.proxy.idle),
    },
    Named {
        name: "sandbox-processes",
        what: "processes and threads of a session in the sandbox",
        field: Field::Bytes(|limits| &mut limits.tools.sandbox_processes),
    },
    Named {
        name: "sandbox-memory-bytes",
        what: "memory of a command in the sandbox, and of each of its processes; none: 3/4 of all",
        field: Field::Bytes(|limits| &mut limits.tools.sandbox_memory_bytes),
    },
    Named {
        name: "sandbox-temporary-bytes",
        what: "temporary files of a session in the sandbox, and shared memory of a command",
        field: Field::Bytes(|limits| &mut limits.tools.sandbox_temporary_bytes),
    },
    Named {
        name: "mcp-message-bytes",
        what: "a message of an MCP server",
        field: Field::Count(|limits| &mut limits.mcp.message_bytes),
    },
    Named {
        name: "mcp-start-seconds",
        what: "start of an MCP server",
        field: Field::Seconds(|limits| &mut limits.mcp.start),
    },
    Named {
        name: "mcp-wait-seconds",
        what: "wait of a prompt for MCP servers",
        field: Field::Seconds(|limits| &mut limits.mcp.wait),
    },
    Named {
        name: "mcp-call-seconds",
        what: "silence of an MCP server during a call",
        field: Field::Seconds(|limits| &mut limits.mcp.call),
    },
    Named {
        name: "mcp-login-seconds",
        what: "a login to an MCP server",
        field: Field::Seconds(|limits| &mut limits.mcp.login),
    },
    Named {
        name: "mcp-tools",
        what: "tools that one MCP server offers",
        field: Field::Count(|limits| &mut limits.mcp.tools),
    },
    Named {
        name: "mcp-tool-chars",
        what: "an MCP tool's description, and its schema",
        field: Field::Count(|limits| &mut limits.mcp.tool_chars),
    },
    Named {
        name: "mcp-instructions-chars",
        what: "instructions of one MCP server for the model",
        field: Field::Count(|limits| &mut limits.mcp.instructions_chars),
    },
    Named {
        name: "agent-message-bytes",
        what: "an event, or another message, of another agent",
        field: Field::Count(|limits| &mut limits.agents.message_bytes),
    },
    Named {
        name: "agent-answer-bytes",
        what: "text of another agent that is kept of one call",
        field: Field::Count(|limits| &mut limits.agents.answer_bytes),
    },
    Named {
        name: "agent-events",
        what: "events of another agent in one call",
        field: Field::Count(|limits| &mut limits.agents.events),
    },
    Named {
        name: "agent-connect-seconds",
        what: "connecting to another agent, and reading its card",
        field: Field::Seconds(|limits| &mut limits.agents.connect),
    },
    Named {
        name: "agent-idle-seconds",
        what: "silence of another agent during a call",
        field: Field::Seconds(|limits| &mut limits.agents.idle),
    },
    Named {
        name: "undo-bytes",
        what: "files as they were before changes, for /restore",
        field: Field::Bytes(|limits| &mut limits.tools.undo_bytes),
    },
    Named {
        name: "log-bytes",
        what: "a session's log in memory; what is older is in a file",
        field: Field::Count(|limits| &mut limits.log_bytes),
    },
    Named {
        name: "tree-entries",
        what: "files and directories that the model is told of at first",
        field: Field::Count(|limits| &mut limits.tools.tree_entries),
    },
    Named {
        name: "custom-commands",
        what: "files of your own commands that are read",
        field: Field::Count(|limits| &mut limits.commands.files),
    },
    Named {
        name: "custom-command-bytes",
        what: "a file of a command of your own",
        field: Field::Count(|limits| &mut limits.commands.bytes),
    },
    Named {
        name: "a2a-connections",
        what: "A2A connections at once",
        field: Field::Count(|limits| &mut limits.a2a.connections),
    },
    Named {
        name: "a2a-requests",
        what: "A2A requests under way at once",
        field: Field::Count(|limits| &mut limits.a2a.requests),
    },
    Named {
        name: "a2a-streams",
        what: "A2A requests under way at once on one connection of HTTP/2, streams among them",
        field: Field::Count(|limits| &mut limits.a2a.streams),
    },
    Named {
        name: "a2a-body-bytes",
        what: "the body of an A2A request, or a frame",
        field: Field::Count(|limits| &mut limits.a2a.body_bytes),
    },
    Named {
        name: "a2a-refused-requests",
        what: "requests a minute of an address without a token",
        field: Field::Count(|limits| &mut limits.a2a.refused_requests),
    },
    Named {
        name: "a2a-attachment-chars",
        what: "characters of a text attached to a message",
        field: Field::Count(|limits| &mut limits.a2a.attachment_chars),
    },
    Named {
        name: "a2a-retry-seconds",
        what: "time after its turn in which a message is a retry",
        field: Field::Seconds(|limits| &mut limits.a2a.retry),
    },
    Named {
        name: "a2a-head-seconds",
        what: "receiving the head of a request",
        field: Field::Seconds(|limits| &mut limits.a2a.head_time),
    },
    Named {
        name: "a2a-stuck-seconds",
        what: "time that a client may read nothing it is sent",
        field: Field::Seconds(|limits| &mut limits.a2a.patience),
    },
    Named {
        name: "a2a-ping-seconds",
        what: "silence of a WebSocket before a ping",
        field: Field::Seconds(|limits| &mut limits.a2a.ping),
    },
    Named {
        name: "a2a-pong-seconds",
        what: "wait for the answer to a ping",
        field: Field::Seconds(|limits| &mut limits.a2a.pong),
    },
    Named {
        name: "sessions",
        what: "sessions of `tandem serve` at once",
        field: Field::Count(|limits| &mut limits.a2a.sessions),
    },
    Named {
        name: "session-idle-seconds",
        what: "life of a session that nobody uses",
        field: Field::Seconds(|limits| &mut limits.a2a.session_idle),
    },
    Named {
        name: "question-seconds",
        what: "wait of `tandem serve` for an answer",
        field: Field::Seconds(|limits| &mut limits.a2a.question),
    },
    Named {
        name: "store-seconds",
        what: "time for the database of --store to answer",
        field: Field::Seconds(|limits| &mut limits.store.patience),
    },
    Named {
        name: "store-refusal-seconds",
        what: "wait of a client's session for a store that refuses to save it",
        field: Field::Seconds(|limits| &mut limits.store.refusal),
    },
    Named {
        name: "node-dead-seconds",
        what: "silence of a node after which others take its sessions",
        field: Field::Seconds(|limits| &mut limits.store.node_dead),
    },
    Named {
        name: "trace-content-bytes",
        what: "an attribute of a span with --trace-content",
        field: Field::Count(|limits| &mut limits.trace_content_bytes),
    },
    Named {
        name: "session-files-bytes",
        what: "files of a session in the database of --store, for /restore and long output",
        field: Field::Bytes(|limits| &mut limits.store.session_files_bytes),
    },
    Named {
        name: "git-seconds",
        what: "a git command for a workspace: a clone, a push",
        field: Field::Seconds(|limits| &mut limits.git.time),
    },
    Named {
        name: "git-file-bytes",
        what: "an untracked file that is saved with a workspace",
        field: Field::Bytes(|limits| &mut limits.git.file_bytes),
    },
    Named {
        name: "git-snapshot-bytes",
        what: "what is pushed to save a workspace, and its files that are not committed",
        field: Field::Bytes(|limits| &mut limits.git.snapshot_bytes),
    },
    Named {
        name: "principal-sessions",
        what: "sessions at once of one who has a token",
        field: Field::Count(|limits| &mut limits.a2a.principal_sessions),
    },
    Named {
        name: "principal-turns",
        what: "turns at once of one who has a token",
        field: Field::Count(|limits| &mut limits.a2a.principal_turns),
    },
    Named {
        name: "principal-requests",
        what: "requests a second of one who has a token",
        field: Field::Count(|limits| &mut limits.a2a.principal_requests),
    },
    Named {
        name: "principal-daily-tokens",
        what: "tokens a day (UTC) of one who has a token",
        field: Field::Bytes(|limits| &mut limits.a2a.principal_tokens),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: &str, changed: impl Fn(&Limits) -> bool) {
        let mut limits = Limits::default();
        change.parse::<Change>().unwrap().apply(&mut limits);
        assert!(changed(&limits), "{change}");
    }

    #[test]
    fn a_limit_is_changed_by_its_name() {
        check("line-bytes=5", |limits| limits.line_bytes == 5);
        check("shell-idle-seconds=7", |limits| limits.tools.shell_idle.as_secs() == 7);
    }

    #[test]
    fn no_time_is_longer_than_a_clock_can_count() {
        for named in NAMED {
            let mut limits = Limits::default();
            Change { named, value: u64::MAX }.apply(&mut limits);
            if let Field::Seconds(field) = named.field {
                assert_eq!(*field(&mut limits), LONGEST, "{}", named.name);
            }
        }
    }

    #[test]
    fn a_wrong_change_is_refused() {
        let wrong = |change: &str, error| assert_eq!(change.parse::<Change>().err(), Some(error));
        wrong("line-bytes", ChangeError::Form);
        wrong("lines=1", ChangeError::UnknownLimit("lines".to_owned()));
        wrong("line-bytes=many", ChangeError::NotANumber("many".to_owned()));
        wrong("line-bytes=0", ChangeError::Zero);
    }
}
