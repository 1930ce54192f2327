//! What the agent can do: one file a tool, and [`all`] that lists them.
//!
//! A call has two steps. [`Tool::prepare`] reads the arguments and says what would happen, for
//! the policy and for people; [`Invocation::run`] does it. Tools reach files and start commands
//! through the session's [`Host`], never directly.

pub mod background;
pub mod files;
pub mod mcp;
pub mod outputs;
pub mod preimages;
pub mod scratch;
pub mod secrets;
pub mod terminals;
pub mod workspace;

mod args;
mod blocking;
mod change;
mod diff;
mod first;
mod glob;
mod google_web_search;
mod grep_search;
mod host;
mod invocation;
mod list_background_processes;
mod list_directory;
mod name_list;
mod omission;
mod output;
mod pattern;
mod plain;
mod read_background_output;
mod read_file;
mod read_many_files;
mod replace;
mod run_shell_command;
mod save_memory;
mod shell_output;
mod shorten;
mod target;
mod text;
mod web_content;
mod web_fetch;
mod write_file;
mod write_todos;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::background::Job;
pub use self::diff::{DiffLine, LineDiff, Side};
pub use self::google_web_search::{Found, Search, Source};
pub use self::host::Host;
pub use self::invocation::{Access, Hints, Invocation, Location, Summary};
pub(crate) use self::name_list::NameList;
pub use self::output::{Content, FileDiff, ServerAnswer, Todo, TodoStatus, ToolError, ToolOutput};
use self::preimages::FileChange;
pub use self::read_many_files::NO_FILES_READ;
pub(crate) use self::shorten::shorten;
pub use self::web_fetch::Setup as WebSetup;

/// Every built-in tool, in the order that models are told of them.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file::ReadFile),
        Arc::new(read_many_files::ReadManyFiles),
        Arc::new(list_directory::ListDirectory),
        Arc::new(glob::Glob),
        Arc::new(grep_search::GrepSearch),
        Arc::new(write_file::WriteFile),
        Arc::new(replace::Replace),
        Arc::new(run_shell_command::RunShellCommand),
        Arc::new(list_background_processes::ListBackgroundProcesses),
        Arc::new(read_background_output::ReadBackgroundOutput),
        Arc::new(write_todos::WriteTodos),
    ]
}

/// The tool that writes down what the user wants known in every session, in this file.
pub fn save_memory(file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(save_memory::SaveMemory { file })
}

/// The tool that reads the web.
pub fn web_fetch(setup: web_fetch::Setup) -> Arc<dyn Tool> {
    Arc::new(web_fetch::WebFetch::new(setup))
}

/// The tool that searches the web.
pub fn google_web_search(search: Arc<dyn Search>) -> Arc<dyn Tool> {
    Arc::new(google_web_search::GoogleWebSearch { search })
}

/// Adds a fact to the file that [`save_memory`] writes.
pub fn add_memory(file: &Path, fact: &str) -> Result<(), ToolError> {
    save_memory::add(file, fact)
}

/// Something the model can ask for.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it is.
    fn spec(&self) -> ToolSpec;

    /// What every call of it would touch, if that is known before there is one: so it is of tools
    /// of MCP servers.
    fn access(&self) -> Option<Access> {
        None
    }

    /// Whether there is what it needs. Asked anew whenever models are told of the tools.
    fn is_offered(&self) -> bool {
        true
    }

    /// Reads the arguments and says what would happen. Changes nothing.
    ///
    /// An error here means that the arguments make no sense; a call that makes sense and cannot
    /// be done is an [`Invocation::failing`], which can be shown.
    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError>;
}

/// What a tool is.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// What the model calls it.
    pub name: String,
    /// Older names that models still use.
    pub aliases: &'static [&'static str],
    /// For the model: when to call it, and what comes of it.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
    /// What kind of thing it does.
    pub kind: Kind,
}

/// What kind of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Reads files.
    Read,
    /// Lists a directory.
    List,
    /// Finds files by name.
    Find,
    /// Finds text in files.
    Search,
    /// Changes a file.
    Edit,
    /// Runs a program.
    Execute,
    /// Reads the web.
    Fetch,
    /// Keeps notes: todos, memory.
    Think,
    /// Anything else.
    Other,
}

impl Kind {
    /// Whether it leaves everything as it is, so that several may run at once.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::List | Self::Find | Self::Search)
    }
}

/// What a tool works with.
#[derive(Clone)]
pub struct ToolContext {
    /// The session's files, commands and limits.
    pub host: Arc<Host>,
    /// Environment variables that a command is given besides.
    pub variables: Arc<[(String, String)]>,
    /// Fires when the turn is cancelled. What runs should end soon after.
    pub cancel: CancellationToken,
    /// Takes the live output so far; each call replaces the one before.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
    /// Is told of each file that has been changed.
    pub changed: Arc<dyn Fn(FileChange) + Send + Sync>,
    /// Called for each command in the background that has ended by itself, or was stopped by somebody.
    pub background_ended: Arc<dyn Fn(&Job) + Send + Sync>,
}

/// How much is too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file that is read or edited.
    pub file_bytes: u64,
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
    /// How long reading from one address may take, redirections included.
    pub web_time: Duration,
    /// How often one host of the web is asked within a minute.
    pub web_requests: usize,
    /// How long a search may take.
    pub search_time: Duration,
    /// How long a command may be silent.
    pub shell_idle: Duration,
    /// Bytes of a command's output that are kept in memory.
    pub shell_bytes: usize,
    /// Commands that may run in the background at once.
    pub background_commands: usize,
    /// Bytes of each one's output that are kept in memory.
    pub background_bytes: usize,
    /// Bytes of files that are kept as they were before changes; 0 keeps none.
    pub undo_bytes: u64,
    /// Files and directories of the workspace that the model is told of at first; 0 for none.
    pub tree_entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 20 << 20,
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
            shell_idle: Duration::from_mins(5),
            shell_bytes: 16 << 20,
            background_commands: 16,
            background_bytes: 1 << 20,
            undo_bytes: 512 << 20,
            tree_entries: 200,
        }
    }
}

/// Reads a call's arguments. The error names the field.
fn parse<T: DeserializeOwned>(args: Value) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(args).map_err(|err| match err.path().to_string().as_str() {
        "." => ToolError::invalid_args(err.inner()),
        path => ToolError::invalid_args(format_args!("`{path}`: {}", err.inner())),
    })
}
