//! Tools of the agent: one file a tool, and [`all`] that lists them.
//!
//! The trait [`Tool`], which each of them implements, is in `src/host`.

mod apply_patch;
mod ask_user;
mod blocking;
mod change;
mod change_set;
mod client_command;
mod glob;
mod google_web_search;
mod grep_search;
mod line_numbers;
mod list_background_processes;
mod list_directory;
mod omission;
mod pattern;
mod read_background_output;
mod read_file;
mod read_many_files;
mod replace;
mod run_shell_command;
mod save_memory;
mod similar_paths;
mod stop_background_command;
mod target;
mod web_fetch;
mod write_file;
mod write_stdin;
mod write_todos;

use std::path::PathBuf;
use std::sync::Arc;

use tandem_host::Tool;

pub use self::google_web_search::{SearchAnswer, WebSearch};
pub use self::web_fetch::WebSetup;

/// Returns every built-in tool, in the order in which models are told of them. Commands have no sandbox.
pub fn all() -> Vec<Arc<dyn Tool>> {
    built_in(false)
}

/// Returns every built-in tool as [`all`] does, for commands that have a sandbox. The model is told of the sandbox.
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
        Arc::new(apply_patch::ApplyPatch),
        Arc::new(run_shell_command::RunShellCommand { sandboxed }),
        Arc::new(list_background_processes::ListBackgroundProcesses),
        Arc::new(read_background_output::ReadBackgroundOutput),
        Arc::new(write_stdin::WriteStdin),
        Arc::new(stop_background_command::StopBackgroundCommand),
        Arc::new(write_todos::WriteTodos),
        Arc::new(ask_user::AskUser),
    ]
}

/// Returns the tool that writes the facts that the user wants known in every session into `file`.
pub fn save_memory(file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(save_memory::SaveMemory { file })
}

/// Returns the tool that reads the web.
pub fn web_fetch(setup: WebSetup) -> Arc<dyn Tool> {
    Arc::new(web_fetch::WebFetch::new(setup))
}

/// Returns the tool that searches the web.
pub fn google_web_search(search: Arc<dyn WebSearch>) -> Arc<dyn Tool> {
    Arc::new(google_web_search::GoogleWebSearch { search })
}
