//! Bounds of what tools do.

use std::time::Duration;

use super::network::ProxyLimits;

/// Bounds of what tools do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Bytes of a file that is read or edited.
    pub file_bytes: u64,
    /// Bytes of a file whose text an editor is asked for.
    pub editor_bytes: u64,
    /// Time for an editor to answer.
    pub editor_time: Duration,
    /// Time for a client to begin, end or describe one of its terminals.
    pub client_terminal_time: Duration,
    /// Lines of a file that are read at once.
    pub read_lines: usize,
    /// Characters of a line before it is cut.
    pub line_chars: usize,
    /// Characters of files that the model is given of one call that reads them.
    pub read_chars: usize,
    /// Characters of output that the model is given of any other call.
    pub output_chars: usize,
    /// Bytes of such output that are kept in files, for the model to read.
    pub kept_output_bytes: u64,
    /// Files that one `glob`, `list_directory` or `read_many_files` names.
    pub files: usize,
    /// Bytes that one call reads of the web.
    pub web_bytes: usize,
    /// Time to read from one address, redirections included.
    pub web_time: Duration,
    /// Requests to one host of the web within a minute.
    pub web_requests: usize,
    /// Time for a search.
    pub search_time: Duration,
    /// Time of a command, unless the model names another, before it goes to the background.
    pub shell_time: Duration,
    /// Time for which a command may be silent.
    pub shell_idle: Duration,
    /// Bytes of a command's output that are kept in memory.
    pub shell_bytes: usize,
    /// The proxy of commands in the sandbox.
    pub proxy: ProxyLimits,
    /// Commands that may run in the background at once.
    pub background_commands: usize,
    /// Bytes of each one's output that are kept in memory.
    pub background_bytes: usize,
    /// Processes and threads of a session's commands in the sandbox.
    pub sandbox_processes: u64,
    /// Bytes of memory of a command in the sandbox, with all that it has started, and of each process; `u64::MAX` for
    /// three quarters of the machine's, and as much as there is for each process.
    pub sandbox_memory_bytes: u64,
    /// Bytes of a session's temporary files where they are in memory, and of a command's `/dev/shm`.
    pub sandbox_temporary_bytes: u64,
    /// Bytes of files that are kept as they were before changes; 0 keeps none.
    pub undo_bytes: u64,
    /// Files and directories of the workspace that the model is told of at first; 0 for none.
    pub tree_entries: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            file_bytes: 20 << 20,
            editor_bytes: 4 << 20,
            editor_time: Duration::from_secs(10),
            client_terminal_time: Duration::from_secs(10),
            read_lines: 2000,
            line_chars: 2000,
            read_chars: 160_000,
            output_chars: 40_000,
            kept_output_bytes: 64 << 20,
            files: 2000,
            web_bytes: 10 << 20,
            web_time: Duration::from_secs(30),
            web_requests: 10,
            search_time: Duration::from_secs(30),
            shell_time: Duration::from_mins(2),
            shell_idle: Duration::from_hours(365 * 24),
            shell_bytes: 16 << 20,
            proxy: ProxyLimits::default(),
            background_commands: 16,
            background_bytes: 1 << 20,
            sandbox_processes: 4096,
            // Sanitizers of C and of Go reserve terabytes.
            sandbox_memory_bytes: u64::MAX,
            sandbox_temporary_bytes: 2 << 30,
            undo_bytes: 512 << 20,
            tree_entries: 200,
        }
    }
}
