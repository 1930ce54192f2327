//! All limits of the program, and one table of those that people can set: on the command line and in the settings.

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
pub(super) const MAX_LIMIT_TIME: Duration = Duration::from_hours(365 * 24);

/// Least value of a limit.
const MIN_LIMIT: u64 = 1;

/// Change of one limit, which is written `NAME=VALUE`.
#[derive(Clone)]
pub struct Change {
    limit: &'static Limit,
    value: u64,
}

impl Change {
    /// Changes the limit in `limits`. A value above the greatest counts as the greatest.
    pub fn apply(&self, limits: &mut Limits) {
        match self.limit.field {
            Field::Count(field) => {
                *field(limits) = usize::try_from(self.value).unwrap_or(usize::MAX);
            }
            Field::Large(field) => *field(limits) = self.value,
            Field::Times(field) => {
                *field(limits) = u32::try_from(self.value).unwrap_or(u32::MAX);
            }
            Field::Seconds(field) => {
                *field(limits) = Duration::from_secs(self.value).min(MAX_LIMIT_TIME);
            }
        }
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(change: &str) -> Result<Self, ChangeError> {
        let (name, value) = change.split_once('=').ok_or(ChangeError::Form)?;
        if let Some(fixed) = FIXED_LIMITS.iter().find(|limit| limit.name == name) {
            return Err(ChangeError::Fixed(fixed.name, fixed.default()));
        }
        let limit = LIMIT_TABLE.iter().find(|limit| limit.name == name);
        let limit = limit.ok_or_else(|| ChangeError::UnknownLimit(name.to_owned()))?;
        let value = value.parse().map_err(|_| ChangeError::NotANumber(value.to_owned()))?;
        if value < MIN_LIMIT {
            return Err(ChangeError::TooSmall);
        }
        Ok(Self { limit, value })
    }
}

/// Reason why a text cannot be read as a change of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeError {
    /// The text is not `NAME=VALUE`.
    Form,
    /// No limit has this name.
    UnknownLimit(String),
    /// The limit with this name could be set in earlier versions, and always has this value now.
    Fixed(&'static str, String),
    /// The value is not a whole number.
    NotANumber(String),
    /// The value is less than 1.
    TooSmall,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("must be NAME=VALUE"),
            Self::UnknownLimit(name) => {
                let names: Vec<_> = LIMIT_TABLE.iter().map(|limit| limit.name).collect();
                write!(f, "unknown limit `{name}`; known limits: {}", names.join(", "))
            }
            Self::Fixed(name, value) => {
                write!(
                    f,
                    "`{name}` has no effect any more, and is always {value}: remove the limit"
                )
            }
            Self::NotANumber(value) => write!(f, "`{value}` is not a whole number"),
            Self::TooSmall => write!(f, "a limit is at least {MIN_LIMIT}"),
        }
    }
}

impl Error for ChangeError {}

/// Returns the text of the help on limits: one line for each limit, with its default.
pub fn help() -> String {
    let line =
        |limit: &Limit| format!("  {:<23} {:<50} [{}]\n", limit.name, limit.what, limit.default());
    LIMIT_TABLE.iter().map(line).collect()
}

/// A limit with a name. The end of the name is the unit of the value: `bytes`, `chars` or `seconds`, else a number of
/// things. The least value is [`MIN_LIMIT`]; the greatest of a time is [`MAX_LIMIT_TIME`], and any other limit has
/// none.
struct Limit {
    name: &'static str,
    /// Description for the help.
    what: &'static str,
    field: Field,
}

/// Accessor of a limit's field, by the field's type.
enum Field {
    Count(fn(&mut Limits) -> &mut usize),
    Large(fn(&mut Limits) -> &mut u64),
    Times(fn(&mut Limits) -> &mut u32),
    Seconds(fn(&mut Limits) -> &mut Duration),
}

impl Limit {
    /// Returns the default in the unit of the limit.
    fn default(&self) -> String {
        let mut defaults = Limits::default();
        match self.field {
            Field::Count(field) => field(&mut defaults).to_string(),
            Field::Large(field) => match *field(&mut defaults) {
                u64::MAX => "none".to_owned(),
                default => default.to_string(),
            },
            Field::Times(field) => field(&mut defaults).to_string(),
            Field::Seconds(field) => field(&mut defaults).as_secs().to_string(),
        }
    }
}

const fn limit(name: &'static str, what: &'static str, field: Field) -> Limit {
    Limit { name, what, field }
}

/// The limits that people can set, in the order in which they are shown.
const LIMIT_TABLE: &[Limit] = &[
    limit(
        "line-bytes",
        "a line that an editor sends, or the agent that a terminal is attached to",
        Field::Count(|limits| &mut limits.line_bytes),
    ),
    limit(
        "stdin-bytes",
        "standard input that is put before the prompt of -p",
        Field::Count(|limits| &mut limits.stdin_bytes),
    ),
    limit("rounds", "requests to the model in one turn", Field::Count(|limits| &mut limits.rounds)),
    limit(
        "model-attempts",
        "attempts of a request to the model",
        Field::Times(|limits| &mut limits.model.retry.attempts),
    ),
    limit(
        "model-idle-seconds",
        "silence of the model",
        Field::Seconds(|limits| &mut limits.model.idle),
    ),
    limit(
        "answer-bytes",
        "an answer of the model",
        Field::Count(|limits| &mut limits.model.max_answer),
    ),
    limit(
        "event-bytes",
        "one event of an answer",
        Field::Count(|limits| &mut limits.model.max_event),
    ),
    limit(
        "file-bytes",
        "a file that is read or edited, and all files of a patch together",
        Field::Large(|limits| &mut limits.tools.file_bytes),
    ),
    limit(
        "editor-file-seconds",
        "an editor's answer about a file",
        Field::Seconds(|limits| &mut limits.tools.editor_time),
    ),
    limit(
        "editor-terminal-seconds",
        "an editor's answer about one of its terminals",
        Field::Seconds(|limits| &mut limits.tools.client_terminal_time),
    ),
    limit(
        "output-chars",
        "characters of a call's output that the model is given",
        Field::Count(|limits| &mut limits.tools.output_chars),
    ),
    limit("search-seconds", "a search", Field::Seconds(|limits| &mut limits.tools.search_time)),
    limit(
        "web-bytes",
        "bytes that one call reads from the web",
        Field::Count(|limits| &mut limits.tools.web_bytes),
    ),
    limit(
        "web-seconds",
        "reading one web address",
        Field::Seconds(|limits| &mut limits.tools.web_time),
    ),
    limit(
        "web-requests",
        "requests to one web host in a minute",
        Field::Count(|limits| &mut limits.tools.web_requests),
    ),
    limit(
        "shell-seconds",
        "a command before it goes to the background",
        Field::Seconds(|limits| &mut limits.tools.shell_time),
    ),
    limit(
        "shell-idle-seconds",
        "silence of a command before it is ended",
        Field::Seconds(|limits| &mut limits.tools.shell_idle),
    ),
    limit(
        "background-commands",
        "commands in the background at once",
        Field::Count(|limits| &mut limits.tools.background_commands),
    ),
    limit(
        "sandbox-processes",
        "processes and threads of a session in the sandbox",
        Field::Large(|limits| &mut limits.tools.sandbox_processes),
    ),
    limit(
        "sandbox-memory-bytes",
        "memory of a command in the sandbox, and of each of its processes; none: 3/4 of all",
        Field::Large(|limits| &mut limits.tools.sandbox_memory_bytes),
    ),
    limit(
        "sandbox-temporary-bytes",
        "temporary files of a session in the sandbox, and shared memory of a command",
        Field::Large(|limits| &mut limits.tools.sandbox_temporary_bytes),
    ),
    limit(
        "mcp-message-bytes",
        "a message of an MCP server",
        Field::Count(|limits| &mut limits.mcp.message_bytes),
    ),
    limit(
        "mcp-start-seconds",
        "start of an MCP server",
        Field::Seconds(|limits| &mut limits.mcp.start),
    ),
    limit(
        "mcp-call-seconds",
        "silence of an MCP server during a call",
        Field::Seconds(|limits| &mut limits.mcp.call),
    ),
    limit(
        "mcp-tools",
        "tools that one MCP server offers",
        Field::Count(|limits| &mut limits.mcp.tools),
    ),
    limit(
        "agent-idle-seconds",
        "silence of another agent during a call",
        Field::Seconds(|limits| &mut limits.agents.idle),
    ),
    limit(
        "undo-bytes",
        "contents of files before changes, for /restore",
        Field::Large(|limits| &mut limits.tools.undo_bytes),
    ),
    limit(
        "tree-entries",
        "files and directories named in the model's instructions",
        Field::Count(|limits| &mut limits.tools.tree_entries),
    ),
    limit(
        "a2a-connections",
        "A2A connections at once",
        Field::Count(|limits| &mut limits.a2a.connections),
    ),
    limit(
        "a2a-requests",
        "A2A requests under way at once",
        Field::Count(|limits| &mut limits.a2a.requests),
    ),
    limit(
        "a2a-body-bytes",
        "the body of an A2A request, or a frame",
        Field::Count(|limits| &mut limits.a2a.body_bytes),
    ),
    limit(
        "a2a-refused-requests",
        "requests a minute of an address without a token",
        Field::Count(|limits| &mut limits.a2a.refused_requests),
    ),
    limit(
        "a2a-attachment-chars",
        "characters of a text attached to a message",
        Field::Count(|limits| &mut limits.a2a.attachment_chars),
    ),
    limit(
        "a2a-retry-seconds",
        "time in which the same message is a retry",
        Field::Seconds(|limits| &mut limits.a2a.retry),
    ),
    limit(
        "a2a-head-seconds",
        "receiving the head of a request",
        Field::Seconds(|limits| &mut limits.a2a.head_time),
    ),
    limit(
        "a2a-stuck-seconds",
        "time before a client that reads nothing is dropped",
        Field::Seconds(|limits| &mut limits.a2a.patience),
    ),
    limit(
        "a2a-ping-seconds",
        "silence of a WebSocket before a ping",
        Field::Seconds(|limits| &mut limits.a2a.ping),
    ),
    limit(
        "a2a-pong-seconds",
        "wait for the answer to a ping",
        Field::Seconds(|limits| &mut limits.a2a.pong),
    ),
    limit(
        "sessions",
        "sessions of `tandem serve` at once",
        Field::Count(|limits| &mut limits.a2a.sessions),
    ),
    limit(
        "session-idle-seconds",
        "life of a session that nobody uses",
        Field::Seconds(|limits| &mut limits.a2a.session_idle),
    ),
    limit(
        "question-seconds",
        "wait of `tandem serve` for an answer",
        Field::Seconds(|limits| &mut limits.a2a.question),
    ),
    limit(
        "store-seconds",
        "time for the database of --store to answer",
        Field::Seconds(|limits| &mut limits.store.patience),
    ),
    limit(
        "store-refusal-seconds",
        "wait of a client's session for a store that refuses to save it",
        Field::Seconds(|limits| &mut limits.store.refusal),
    ),
    limit(
        "node-dead-seconds",
        "silence of a node after which others take its sessions",
        Field::Seconds(|limits| &mut limits.store.node_dead),
    ),
    limit(
        "trace-content-bytes",
        "an attribute of a span with --trace-content",
        Field::Count(|limits| &mut limits.trace_content_bytes),
    ),
    limit(
        "session-files-bytes",
        "files of a session in the database of --store, for /restore and long output",
        Field::Large(|limits| &mut limits.store.session_files_bytes),
    ),
    limit(
        "git-seconds",
        "a git command for a workspace: a clone, a push",
        Field::Seconds(|limits| &mut limits.git.time),
    ),
    limit(
        "git-file-bytes",
        "an untracked file that is saved with a workspace",
        Field::Large(|limits| &mut limits.git.file_bytes),
    ),
    limit(
        "git-snapshot-bytes",
        "snapshot of a workspace, and its uncommitted files",
        Field::Large(|limits| &mut limits.git.snapshot_bytes),
    ),
    limit(
        "principal-sessions",
        "sessions at once of a person or service",
        Field::Count(|limits| &mut limits.a2a.principal_sessions),
    ),
    limit(
        "principal-turns",
        "turns at once of a person or service",
        Field::Count(|limits| &mut limits.a2a.principal_turns),
    ),
    limit(
        "principal-requests",
        "requests a second of a person or service",
        Field::Count(|limits| &mut limits.a2a.principal_requests),
    ),
    limit(
        "principal-daily-tokens",
        "model tokens a day (UTC) of a person or service",
        Field::Large(|limits| &mut limits.a2a.principal_tokens),
    ),
];

/// Limits that could be set in earlier versions. Most only keep a fault, or a hostile peer, from using up memory or
/// time; where the others cut off a text, the model reads on in a further call.
const FIXED_LIMITS: &[Limit] = &[
    limit(
        "model-connect-seconds",
        "connecting to the model",
        Field::Seconds(|limits| &mut limits.model.connect_timeout),
    ),
    limit(
        "editor-file-bytes",
        "a file whose unsaved text an editor is asked for",
        Field::Large(|limits| &mut limits.tools.editor_bytes),
    ),
    limit(
        "read-lines",
        "lines of a file that are read at once",
        Field::Count(|limits| &mut limits.tools.read_lines),
    ),
    limit(
        "read-chars",
        "characters of files that one call reads",
        Field::Count(|limits| &mut limits.tools.read_chars),
    ),
    limit(
        "line-chars",
        "characters of a line of a file before it is cut",
        Field::Count(|limits| &mut limits.tools.line_chars),
    ),
    limit(
        "kept-output-bytes",
        "long output that is stored for the model to read",
        Field::Large(|limits| &mut limits.tools.kept_output_bytes),
    ),
    limit("files", "files that one call names", Field::Count(|limits| &mut limits.tools.files)),
    limit(
        "shell-bytes",
        "a command's output that is kept in memory",
        Field::Count(|limits| &mut limits.tools.shell_bytes),
    ),
    limit(
        "background-bytes",
        "output of a background command kept in memory",
        Field::Count(|limits| &mut limits.tools.background_bytes),
    ),
    limit(
        "sandbox-connections",
        "connections at once of commands in the sandbox",
        Field::Count(|limits| &mut limits.tools.proxy.connections),
    ),
    limit(
        "sandbox-hosts",
        "hosts that one command in the sandbox asks for",
        Field::Count(|limits| &mut limits.tools.proxy.hosts),
    ),
    limit(
        "sandbox-head-bytes",
        "the head of a request to the proxy of the sandbox",
        Field::Count(|limits| &mut limits.tools.proxy.head_bytes),
    ),
    limit(
        "sandbox-head-seconds",
        "receiving the head of a request to this proxy",
        Field::Seconds(|limits| &mut limits.tools.proxy.head_time),
    ),
    limit(
        "sandbox-connect-seconds",
        "resolving a host for a command in the sandbox, and connecting",
        Field::Seconds(|limits| &mut limits.tools.proxy.connect_time),
    ),
    limit(
        "sandbox-idle-seconds",
        "silence of a connection of a command in the sandbox",
        Field::Seconds(|limits| &mut limits.tools.proxy.idle),
    ),
    limit(
        "mcp-wait-seconds",
        "wait of a prompt for MCP servers",
        Field::Seconds(|limits| &mut limits.mcp.wait),
    ),
    limit(
        "mcp-login-seconds",
        "a login to an MCP server",
        Field::Seconds(|limits| &mut limits.mcp.login),
    ),
    limit(
        "mcp-tool-chars",
        "an MCP tool's description, and its schema",
        Field::Count(|limits| &mut limits.mcp.tool_chars),
    ),
    limit(
        "mcp-instructions-chars",
        "instructions of one MCP server for the model",
        Field::Count(|limits| &mut limits.mcp.instructions_chars),
    ),
    limit(
        "agent-message-bytes",
        "an event, or another message, of another agent",
        Field::Count(|limits| &mut limits.agents.message_bytes),
    ),
    limit(
        "agent-answer-bytes",
        "text of another agent that is kept of one call",
        Field::Count(|limits| &mut limits.agents.answer_bytes),
    ),
    limit(
        "agent-events",
        "events of another agent in one call",
        Field::Count(|limits| &mut limits.agents.events),
    ),
    limit(
        "agent-connect-seconds",
        "connecting to another agent, and reading its card",
        Field::Seconds(|limits| &mut limits.agents.connect),
    ),
    limit(
        "log-bytes",
        "a session's log in memory; what is older is in a file",
        Field::Count(|limits| &mut limits.log_bytes),
    ),
    limit(
        "custom-commands",
        "files of your own commands that are read",
        Field::Count(|limits| &mut limits.commands.files),
    ),
    limit(
        "custom-command-bytes",
        "a file of a command of your own",
        Field::Count(|limits| &mut limits.commands.bytes),
    ),
    limit(
        "a2a-streams",
        "A2A requests under way at once on one connection of HTTP/2, streams among them",
        Field::Count(|limits| &mut limits.a2a.streams),
    ),
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
        for limit in LIMIT_TABLE {
            let mut limits = Limits::default();
            Change { limit, value: u64::MAX }.apply(&mut limits);
            if let Field::Seconds(field) = limit.field {
                assert_eq!(*field(&mut limits), MAX_LIMIT_TIME, "{}", limit.name);
            }
        }
    }

    #[test]
    fn a_wrong_change_is_refused() {
        let wrong = |change: &str, error| assert_eq!(change.parse::<Change>().err(), Some(error));
        wrong("line-bytes", ChangeError::Form);
        wrong("lines=1", ChangeError::UnknownLimit("lines".to_owned()));
        wrong("line-bytes=many", ChangeError::NotANumber("many".to_owned()));
        wrong("line-bytes=0", ChangeError::TooSmall);
    }

    #[test]
    fn a_limit_that_cannot_be_set_any_more_says_its_value() {
        let error = "read-lines=5".parse::<Change>().err().unwrap();
        let text = "`read-lines` has no effect any more, and is always 2000: remove the limit";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn each_limit_has_one_name_which_ends_with_its_unit() {
        let mut names: Vec<_> =
            LIMIT_TABLE.iter().chain(FIXED_LIMITS).map(|limit| limit.name).collect();
        for limit in LIMIT_TABLE.iter().chain(FIXED_LIMITS) {
            let is_time = matches!(limit.field, Field::Seconds(_));
            assert_eq!(is_time, limit.name.ends_with("-seconds"), "{}", limit.name);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
