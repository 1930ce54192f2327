//! Tools of the agent: one file a tool, and [`all`] that lists them.
//!
//! A call has two steps. [`Tool::prepare`] reads the arguments and says what would happen, for
//! the policy and for people; [`Invocation::run`] does it. Tools reach files and start commands
//! through the session's [`Host`], never directly.

pub mod background;
pub mod buffers;
pub mod client_terminals;
pub mod command_sandbox;
pub mod command_times;
pub mod disk;
pub mod files;
pub mod hidden_home;
pub mod home;
pub mod network;
pub mod other_agents;
pub mod outputs;
pub mod preimages;
pub mod scratch;
pub mod secrets;
pub mod seen_files;
pub mod session_files;
pub mod stored_files;
pub mod terminals;
pub mod workspace;

mod args;
mod blocking;
mod change;
mod client_command;
mod command_end;
mod context;
mod diff;
#[cfg(test)]
mod exchange;

mod glob;
mod google_web_search;
mod grep_search;
mod host;
mod invocation;
mod limits;
mod line_numbers;
mod list_background_processes;
mod list_directory;
mod name_list;
mod off_thread;
mod omission;
mod output;
mod pattern;
mod plain;
mod read_background_output;
mod read_file;
mod read_many_files;
mod replace;
mod root;
mod run_shell_command;
mod save_memory;
mod shell_output;
mod shorten;
mod similar_paths;
mod smallest;
mod stop_background_command;
mod target;
mod text;
mod tool;
mod user_question;
mod web_fetch;
mod write_file;
mod write_todos;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::args::parse;
pub use self::command_end::CommandExit;
pub use self::context::{Announce, ToolContext};
pub use self::diff::{DiffLine, LineDiff, Side};
pub use self::google_web_search::{SearchAnswer, WebSearch};
pub use self::host::Host;
pub use self::invocation::{Access, FileLocation, Hints, Invocation, SandboxRequest, Summary};
pub use self::limits::ToolLimits;
pub use self::name_list::NameList;
pub use self::output::{
    FileDiff, ResultContent, ServerAnswer, Todo, TodoStatus, ToolError, ToolOutput, WebSource,
};
pub use self::plain::plain;
pub use self::read_many_files::NO_FILES_READ;
pub use self::shorten::{one_line, shorten};
pub use self::tool::{Tool, ToolKind, ToolSpec};
pub use self::user_question::{AskUser, UserAnswer, UserQuestion};
pub use self::web_fetch::WebSetup;

/// Every built-in tool, in the order that models are told of them.
pub fn all() -> Vec<Arc<dyn Tool>> {
    built_in(false)
}

/// The same where commands have a sandbox, which the model is told of.
pub fn all_with_sandbox() -> Vec<Arc<dyn Tool>> {
    built_in(true)
}

fn built_in(sandboxed: bool) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file::ReadFile),
        Arc::new(read_many_files::ReadManyFiles),
        Arc::new(list_directory::ListDirectory),
        Arc::new(glob::Glob),
        Arc::new(grep_search::GrepSearch),
        Arc::new(write_file::WriteFile),
        Arc::new(replace::Replace),
        Arc::new(run_shell_command::RunShellCommand { sandboxed }),
        Arc::new(list_background_processes::ListBackgroundProcesses),
        Arc::new(read_background_output::ReadBackgroundOutput),
        Arc::new(stop_background_command::StopBackgroundCommand),
        Arc::new(write_todos::WriteTodos),
    ]
}

/// The tool that writes down what the user wants known in every session, in this file.
pub fn save_memory(file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(save_memory::SaveMemory { file })
}

/// The tool that reads the web.
pub fn web_fetch(setup: WebSetup) -> Arc<dyn Tool> {
    Arc::new(web_fetch::WebFetch::new(setup))
}

/// The tool that searches the web.
pub fn google_web_search(search: Arc<dyn WebSearch>) -> Arc<dyn Tool> {
    Arc::new(google_web_search::GoogleWebSearch { search })
}

/// Adds a fact to the file that [`save_memory`] writes.
pub fn add_memory(file: &Path, fact: &str) -> Result<(), ToolError> {
    save_memory::add(file, fact)
}
