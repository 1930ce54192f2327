//! Limits of tools.

use std::time::Duration;

use super::network::ProxyLimits;

/// Limits of the tools of one session. Each number is a maximum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Size of a file that is read or edited, in bytes.
    pub file_bytes: u64,
    /// Size of a file whose text an editor is asked for, in bytes.
    pub editor_bytes: u64,
    /// Time for an editor to answer a request.
    pub editor_time: Duration,
    /// Time for a client to begin, end or describe one of its terminals.
    pub client_terminal_time: Duration,
    /// Number of lines of a file that are read at once.
    pub read_lines: usize,
    /// Number of characters of a line that are shown before the line is cut.
    pub line_chars: usize,
    /// Number of characters of files that the model gets from one call that reads files.
    pub read_chars: usize,
    /// Number of characters of output that the model gets from any other call.
    pub output_chars: usize,
    /// Size of the files with such output, for the model to read, in bytes.
    pub kept_output_bytes: u64,
    /// Number of files that one `glob`, `list_directory` or `read_many_files` names.
    pub files: usize,
    /// Number of bytes that one call reads from the web.
    pub web_bytes: usize,
    /// Time to read from one address, redirections included.
    pub web_time: Duration,
    /// Number of requests to one host of the web within a minute.
    pub web_requests: usize,
    /// Time for a search.
    pub search_time: Duration,
    /// Time after which a command goes to the background, unless the model gives another time.
    pub shell_time: Duration,
    /// Time for which a command may write no output.
    pub shell_idle: Duration,
    /// Number of bytes of a command's output that are held in memory.
    pub shell_bytes: usize,
    /// Limits of the proxy of commands in the sandbox.
    pub proxy: ProxyLimits,
    /// Number of commands that may run in the background at once.
    pub background_commands: usize,
    /// Number of bytes of each background command's output that are held in memory.
    pub background_bytes: usize,
    /// Number of processes and threads of a session's commands in the sandbox.
    pub sandbox_processes: u64,
    /// Memory of a command in the sandbox with all processes that it has started, and of each process, in bytes.
    /// `u64::MAX`: three quarters of the machine's memory for the command, and no limit for each process.
    pub sandbox_memory_bytes: u64,
    /// Size of a session's temporary files if they are in memory, and of a command's `/dev/shm`, in bytes.
    pub sandbox_temporary_bytes: u64,
    /// Size of the stored contents of files from before changes, in bytes; 0 stores none.
    pub undo_bytes: u64,
    /// Number of files and directories of the workspace that the model is told of at the start; 0 for none.
    pub tree_entries: usize,
    /// Time for git to tell the state of the workspace's repository at the start. It delays the first request.
    pub git_state_time: Duration,
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
            // No limit for a process: sanitizers of C and of Go reserve terabytes.
            sandbox_memory_bytes: u64::MAX,
            sandbox_temporary_bytes: 2 << 30,
            undo_bytes: 512 << 20,
            tree_entries: 200,
            git_state_time: Duration::from_millis(500),
        }
    }
}
