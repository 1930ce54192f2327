//! All limits of the program, and tables of those that people can set: on the command line and in the settings.

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

use super::unread::nearest;

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
            return Err(ChangeError::Fixed(fixed.name, fixed.value(&mut Limits::default())));
        }
        let limit = settable().find(|limit| limit.name == name);
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
                write!(f, "unknown limit `{name}`; ")?;
                if let Some(meant) = nearest(name, settable().map(|limit| limit.name)) {
                    write!(f, "did you mean `{meant}`? ")?;
                }
                f.write_str("`tandem config --limits` lists all limits")
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

/// Returns the text of the help on limits: one line for each limit that people often set, with its default.
pub fn help() -> String {
    lines(COMMON_LIMITS, &mut Limits::default())
}

/// Returns the text of all limits that can be set, in two groups: one line for each limit, with its value in `limits`.
pub fn text(limits: &mut Limits) -> String {
    let common = lines(COMMON_LIMITS, limits);
    let special = lines(SPECIAL_LIMITS, limits);
    format!("Often set:\n{common}\nFor special cases:\n{special}")
}

fn lines(table: &[Limit], limits: &mut Limits) -> String {
    let line = |limit: &Limit| {
        format!("  {:<23} {:<50} [{}]\n", limit.name, limit.what, limit.value(limits))
    };
    table.iter().map(line).collect()
}

/// Returns the limits that people can set.
fn settable() -> impl Iterator<Item = &'static Limit> {
    COMMON_LIMITS.iter().chain(SPECIAL_LIMITS)
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

type Accessor<T> = fn(&mut Limits) -> &mut T;

/// Accessor of a limit's field, by the field's type.
enum Field {
    Count(Accessor<usize>),
    Large(Accessor<u64>),
    Times(Accessor<u32>),
    Seconds(Accessor<Duration>),
}

impl Limit {
    /// Returns the value in `limits`, in the unit of the limit.
    fn value(&self, limits: &mut Limits) -> String {
        match self.field {
            Field::Count(field) => field(limits).to_string(),
            Field::Large(field) => match *field(limits) {
                u64::MAX => "none".to_owned(),
                value => value.to_string(),
            },
            Field::Times(field) => field(limits).to_string(),
            Field::Seconds(field) => field(limits).as_secs().to_string(),
        }
    }
}

const fn count(name: &'static str, what: &'static str, field: Accessor<usize>) -> Limit {
    Limit { name, what, field: Field::Count(field) }
}

const fn large(name: &'static str, what: &'static str, field: Accessor<u64>) -> Limit {
    Limit { name, what, field: Field::Large(field) }
}

const fn times(name: &'static str, what: &'static str, field: Accessor<u32>) -> Limit {
    Limit { name, what, field: Field::Times(field) }
}

const fn seconds(name: &'static str, what: &'static str, field: Accessor<Duration>) -> Limit {
    Limit { name, what, field: Field::Seconds(field) }
}

/// Limits that people often set, in the order in which they are shown: `--help` lists these alone. Ordinary work reaches
/// them, and the best value depends on the work: how long a turn, a build or an answer may take, how much the model is
/// given to read, how much of a machine commands may use, how much of a server each person may use.
const COMMON_LIMITS: &[Limit] = &[
    count("rounds", "requests to the model in one turn", |all| &mut all.rounds),
    times("model-attempts", "attempts of a request to the model", |all| {
        &mut all.model.retry.attempts
    }),
    seconds("model-idle-seconds", "silence of the model", |all| &mut all.model.idle),
    count("output-chars", "characters of a call's output that the model is given", |all| {
        &mut all.tools.output_chars
    }),
    large(
        "file-bytes",
        "a file that is read or edited, and all files of a patch together",
        |all| &mut all.tools.file_bytes,
    ),
    seconds("search-seconds", "a search", |all| &mut all.tools.search_time),
    count("web-requests", "requests to one web host in a minute", |all| {
        &mut all.tools.web_requests
    }),
    seconds("shell-seconds", "a command before it goes to the background", |all| {
        &mut all.tools.shell_time
    }),
    seconds("shell-idle-seconds", "silence of a command before it is ended", |all| {
        &mut all.tools.shell_idle
    }),
    count("background-commands", "commands in the background at once", |all| {
        &mut all.tools.background_commands
    }),
    large("sandbox-processes", "processes and threads of a session in the sandbox", |all| {
        &mut all.tools.sandbox_processes
    }),
    large(
        "sandbox-memory-bytes",
        "memory of a command in the sandbox, and of each of its processes; none: 3/4 of all",
        |all| &mut all.tools.sandbox_memory_bytes,
    ),
    large(
        "sandbox-temporary-bytes",
        "temporary files of a session in the sandbox, and shared memory of a command",
        |all| &mut all.tools.sandbox_temporary_bytes,
    ),
    seconds("mcp-start-seconds", "start of an MCP server", |all| &mut all.mcp.start),
    seconds("mcp-call-seconds", "silence of an MCP server during a call", |all| &mut all.mcp.call),
    count("mcp-tools", "tools that one MCP server offers", |all| &mut all.mcp.tools),
    seconds("agent-idle-seconds", "silence of another agent during a call", |all| {
        &mut all.agents.idle
    }),
    large("undo-bytes", "contents of files before changes, for /restore", |all| {
        &mut all.tools.undo_bytes
    }),
    seconds("git-seconds", "a git command for a workspace: a clone, a push", |all| {
        &mut all.git.time
    }),
    count("sessions", "sessions of `tandem serve` at once", |all| &mut all.a2a.sessions),
    seconds("session-idle-seconds", "life of a session that nobody uses", |all| {
        &mut all.a2a.session_idle
    }),
    seconds("question-seconds", "wait of `tandem serve` for an answer", |all| {
        &mut all.a2a.question
    }),
    count("principal-sessions", "sessions at once of a person or service", |all| {
        &mut all.a2a.principal_sessions
    }),
    count("principal-turns", "turns at once of a person or service", |all| {
        &mut all.a2a.principal_turns
    }),
    count("principal-requests", "requests a second of a person or service", |all| {
        &mut all.a2a.principal_requests
    }),
    large("principal-daily-tokens", "model tokens a day (UTC) of a person or service", |all| {
        &mut all.a2a.principal_tokens
    }),
];

/// Limits for special cases. Ordinary work seldom reaches them: they keep a fault, a flood or a stuck peer from using up
/// memory or time. They can be set for an editor, proxy, database or network that needs another value.
const SPECIAL_LIMITS: &[Limit] = &[
    count(
        "line-bytes",
        "a line that an editor sends, or the agent that a terminal is attached to",
        |all| &mut all.line_bytes,
    ),
    count("stdin-bytes", "standard input that is put before the prompt of -p", |all| {
        &mut all.stdin_bytes
    }),
    count("answer-bytes", "an answer of the model", |all| &mut all.model.max_answer),
    seconds("editor-file-seconds", "an editor's answer about a file", |all| {
        &mut all.tools.editor_time
    }),
    seconds("editor-terminal-seconds", "an editor's answer about one of its terminals", |all| {
        &mut all.tools.client_terminal_time
    }),
    count("web-bytes", "bytes that one call reads from the web", |all| &mut all.tools.web_bytes),
    seconds("web-seconds", "reading one web address", |all| &mut all.tools.web_time),
    count("mcp-message-bytes", "a message of an MCP server", |all| &mut all.mcp.message_bytes),
    count("tree-entries", "files and directories named in the model's instructions", |all| {
        &mut all.tools.tree_entries
    }),
    count("a2a-connections", "A2A connections at once", |all| &mut all.a2a.connections),
    count("a2a-requests", "A2A requests under way at once", |all| &mut all.a2a.requests),
    count("a2a-body-bytes", "the body of an A2A request, or a frame", |all| {
        &mut all.a2a.body_bytes
    }),
    count("a2a-refused-requests", "requests a minute of an address without a token", |all| {
        &mut all.a2a.refused_requests
    }),
    count("a2a-attachment-chars", "characters of a text attached to a message", |all| {
        &mut all.a2a.attachment_chars
    }),
    seconds("a2a-retry-seconds", "time in which the same message is a retry", |all| {
        &mut all.a2a.retry
    }),
    seconds("a2a-head-seconds", "receiving the head of a request", |all| &mut all.a2a.head_time),
    seconds("a2a-stuck-seconds", "time before a client that reads nothing is dropped", |all| {
        &mut all.a2a.patience
    }),
    seconds("a2a-ping-seconds", "silence of a WebSocket before a ping", |all| &mut all.a2a.ping),
    seconds("a2a-pong-seconds", "wait for the answer to a ping", |all| &mut all.a2a.pong),
    seconds("store-seconds", "time for the database of --store to answer", |all| {
        &mut all.store.patience
    }),
    seconds(
        "store-refusal-seconds",
        "wait of a client's session for a store that refuses to save it",
        |all| &mut all.store.refusal,
    ),
    seconds("node-dead-seconds", "silence of a node after which others take its sessions", |all| {
        &mut all.store.node_dead
    }),
    count("trace-content-bytes", "an attribute of a span with --trace-content", |all| {
        &mut all.trace_content_bytes
    }),
    large(
        "session-files-bytes",
        "files of a session in the database of --store, for /restore and long output",
        |all| &mut all.store.session_files_bytes,
    ),
    large("git-file-bytes", "an untracked file that is saved with a workspace", |all| {
        &mut all.git.file_bytes
    }),
    large("git-snapshot-bytes", "snapshot of a workspace, and its uncommitted files", |all| {
        &mut all.git.snapshot_bytes
    }),
];

/// Limits that could be set in earlier versions. Most only keep a fault, or a hostile peer, from using up memory or
/// time; where the others cut off a text, the model reads on in a further call.
const FIXED_LIMITS: &[Limit] = &[
    count("event-bytes", "one event of an answer", |all| &mut all.model.max_event),
    seconds("model-connect-seconds", "connecting to the model", |all| {
        &mut all.model.connect_timeout
    }),
    large("editor-file-bytes", "a file whose unsaved text an editor is asked for", |all| {
        &mut all.tools.editor_bytes
    }),
    count("read-lines", "lines of a file that are read at once", |all| &mut all.tools.read_lines),
    count("read-chars", "characters of files that one call reads", |all| &mut all.tools.read_chars),
    count("line-chars", "characters of a line of a file before it is cut", |all| {
        &mut all.tools.line_chars
    }),
    large("kept-output-bytes", "long output that is stored for the model to read", |all| {
        &mut all.tools.kept_output_bytes
    }),
    count("files", "files that one call names", |all| &mut all.tools.files),
    count("shell-bytes", "a command's output that is kept in memory", |all| {
        &mut all.tools.shell_bytes
    }),
    count("background-bytes", "output of a background command kept in memory", |all| {
        &mut all.tools.background_bytes
    }),
    count("sandbox-connections", "connections at once of commands in the sandbox", |all| {
        &mut all.tools.proxy.connections
    }),
    count("sandbox-hosts", "hosts that one command in the sandbox asks for", |all| {
        &mut all.tools.proxy.hosts
    }),
    count("sandbox-head-bytes", "the head of a request to the proxy of the sandbox", |all| {
        &mut all.tools.proxy.head_bytes
    }),
    seconds("sandbox-head-seconds", "receiving the head of a request to this proxy", |all| {
        &mut all.tools.proxy.head_time
    }),
    seconds(
        "sandbox-connect-seconds",
        "resolving a host for a command in the sandbox, and connecting",
        |all| &mut all.tools.proxy.connect_time,
    ),
    seconds("sandbox-idle-seconds", "silence of a connection of a command in the sandbox", |all| {
        &mut all.tools.proxy.idle
    }),
    seconds("mcp-wait-seconds", "wait of a prompt for MCP servers", |all| &mut all.mcp.wait),
    seconds("mcp-login-seconds", "a login to an MCP server", |all| &mut all.mcp.login),
    count("mcp-tool-chars", "an MCP tool's description, and its schema", |all| {
        &mut all.mcp.tool_chars
    }),
    count("mcp-instructions-chars", "instructions of one MCP server for the model", |all| {
        &mut all.mcp.instructions_chars
    }),
    count("agent-message-bytes", "an event, or another message, of another agent", |all| {
        &mut all.agents.message_bytes
    }),
    count("agent-answer-bytes", "text of another agent that is kept of one call", |all| {
        &mut all.agents.answer_bytes
    }),
    count("agent-events", "events of another agent in one call", |all| &mut all.agents.events),
    seconds("agent-connect-seconds", "connecting to another agent, and reading its card", |all| {
        &mut all.agents.connect
    }),
    count("log-bytes", "a session's log in memory; what is older is in a file", |all| {
        &mut all.log_bytes
    }),
    count("custom-commands", "files of your own commands that are read", |all| {
        &mut all.commands.files
    }),
    count("custom-command-bytes", "a file of a command of your own", |all| &mut all.commands.bytes),
    count(
        "a2a-streams",
        "A2A requests under way at once on one connection of HTTP/2, streams among them",
        |all| &mut all.a2a.streams,
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
        for limit in settable() {
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
        let mut names: Vec<_> = settable().chain(FIXED_LIMITS).map(|limit| limit.name).collect();
        for limit in settable().chain(FIXED_LIMITS) {
            let is_time = matches!(limit.field, Field::Seconds(_));
            assert_eq!(is_time, limit.name.ends_with("-seconds"), "{}", limit.name);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
