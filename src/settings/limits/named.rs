//! The names of the limits on the command line, and which limit each means.

use std::time::Duration;

use super::Limits;

/// A limit as users name it.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) field: Field,
}

/// Where a limit is kept.
pub(super) enum Field {
    Count(fn(&mut Limits) -> &mut usize),
    Bytes(fn(&mut Limits) -> &mut u64),
    Times(fn(&mut Limits) -> &mut u32),
    Seconds(fn(&mut Limits) -> &mut Duration),
}

/// All of them.
pub(super) const NAMED: &[Named] = &[
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
        what: "how often the model is asked in one turn",
        field: Field::Count(|limits| &mut limits.rounds),
    },
    Named {
        name: "model-attempts",
        what: "how often a request to the model is tried",
        field: Field::Times(|limits| &mut limits.model.retry.attempts),
    },
    Named {
        name: "model-connect-seconds",
        what: "how long connecting to the model may take",
        field: Field::Seconds(|limits| &mut limits.model.connect_timeout),
    },
    Named {
        name: "model-idle-seconds",
        what: "how long the model may say nothing",
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
        what: "longer output that is kept for it to read",
        field: Field::Bytes(|limits| &mut limits.tools.kept_output_bytes),
    },
    Named {
        name: "files",
        what: "files that one call names",
        field: Field::Count(|limits| &mut limits.tools.files),
    },
    Named {
        name: "search-seconds",
        what: "how long a search may take",
        field: Field::Seconds(|limits| &mut limits.tools.search_time),
    },
    Named {
        name: "web-bytes",
        what: "what one call reads of the web",
        field: Field::Count(|limits| &mut limits.tools.web_bytes),
    },
    Named {
        name: "web-seconds",
        what: "how long reading one address may take",
        field: Field::Seconds(|limits| &mut limits.tools.web_time),
    },
    Named {
        name: "web-requests",
        what: "how often one host of the web is asked within a minute",
        field: Field::Count(|limits| &mut limits.tools.web_requests),
    },
    Named {
        name: "shell-idle-seconds",
        what: "how long a command may be silent",
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
        what: "each one's output that is kept in memory",
        field: Field::Count(|limits| &mut limits.tools.background_bytes),
    },
    Named {
        name: "mcp-message-bytes",
        what: "a message of an MCP server",
        field: Field::Count(|limits| &mut limits.mcp.message_bytes),
    },
    Named {
        name: "mcp-start-seconds",
        what: "how long an MCP server may take to be ready",
        field: Field::Seconds(|limits| &mut limits.mcp.start),
    },
    Named {
        name: "mcp-wait-seconds",
        what: "how long a prompt waits for MCP servers",
        field: Field::Seconds(|limits| &mut limits.mcp.wait),
    },
    Named {
        name: "mcp-call-seconds",
        what: "how long an MCP server may say nothing to a call",
        field: Field::Seconds(|limits| &mut limits.mcp.call),
    },
    Named {
        name: "mcp-login-seconds",
        what: "how long a login to an MCP server may take",
        field: Field::Seconds(|limits| &mut limits.mcp.login),
    },
    Named {
        name: "mcp-tools",
        what: "tools that one MCP server offers",
        field: Field::Count(|limits| &mut limits.mcp.tools),
    },
    Named {
        name: "mcp-tool-chars",
        what: "a tool's description, and its schema",
        field: Field::Count(|limits| &mut limits.mcp.tool_chars),
    },
    Named {
        name: "mcp-instructions-chars",
        what: "what one MCP server tells the model about itself",
        field: Field::Count(|limits| &mut limits.mcp.instructions_chars),
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
        name: "a2a-body-bytes",
        what: "the body of an A2A request, or a frame",
        field: Field::Count(|limits| &mut limits.a2a.body_bytes),
    },
    Named {
        name: "a2a-head-seconds",
        what: "how long the head of a request may take",
        field: Field::Seconds(|limits| &mut limits.a2a.head_time),
    },
    Named {
        name: "a2a-stuck-seconds",
        what: "how long a client may take nothing it is sent",
        field: Field::Seconds(|limits| &mut limits.a2a.patience),
    },
    Named {
        name: "a2a-ping-seconds",
        what: "how long a WebSocket is silent before a ping",
        field: Field::Seconds(|limits| &mut limits.a2a.ping),
    },
    Named {
        name: "a2a-pong-seconds",
        what: "how long the answer to a ping may take",
        field: Field::Seconds(|limits| &mut limits.a2a.pong),
    },
    Named {
        name: "sessions",
        what: "sessions of `tandem serve` at once",
        field: Field::Count(|limits| &mut limits.a2a.sessions),
    },
    Named {
        name: "session-idle-seconds",
        what: "how long a session lives that nobody uses",
        field: Field::Seconds(|limits| &mut limits.a2a.session_idle),
    },
    Named {
        name: "question-seconds",
        what: "how long `tandem serve` waits for an answer",
        field: Field::Seconds(|limits| &mut limits.a2a.question),
    },
];
