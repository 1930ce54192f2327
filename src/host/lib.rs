//! The host of a session: its workspace, files, terminals, sandbox for commands, network proxy and outputs; and the
//! traits that tools are written against.
//!
//! A call has two steps. [`Tool::prepare`] parses the arguments and describes the effects of the call, for the policy
//! and for people. [`Invocation::run`] carries it out. Tools reach files and start commands only through the session's
//! [`Host`].

pub mod args;
mod audience;
pub mod background;
pub mod buffers;
pub mod client_terminals;
pub mod command_end;
pub mod command_sandbox;
pub mod command_times;
pub mod compare;
mod context;
pub mod diff;
pub mod disk;
pub mod files;
pub mod hidden_home;
pub mod home;
mod host;
mod invocation;
mod limits;
pub mod memory_file;
mod name_list;
pub mod network;
pub mod off_thread;
mod output;
pub mod outputs;
pub mod preimages;
pub mod root;
pub mod scratch;
pub mod secrets;
pub mod seen_files;
pub mod session_files;
pub mod shell_output;
pub mod smallest;
pub mod stored_files;
pub mod terminals;
pub mod text;
mod tool;
mod user_input;
mod user_question;
pub mod workspace;

pub use self::args::parse;
pub use self::audience::ToolAudience;
pub use self::command_end::CommandExit;
pub use self::context::{Announce, ToolContext};
pub use self::diff::{DiffLine, LineDiff, Side};
pub use self::host::{Host, ReadablePath};
pub use self::invocation::{
    Access, AnswerContent, FileLocation, Hints, Invocation, ProgramInput, SandboxRequest, Summary,
};
pub use self::limits::ToolLimits;
pub use self::name_list::NameList;
pub use self::output::{
    FileDiff, NO_FILES_READ, ResultContent, ServerAnswer, Todo, TodoStatus, ToolError, ToolOutput,
    WebSource,
};
pub use self::tool::{Freeform, Tool, ToolKind, ToolSpec};
pub use self::user_input::{
    InputOption, InputQuestion, MAX_INPUT_ANSWER_CHARS, answered, is_answer,
};
pub use self::user_question::{AskUser, UserAnswer, UserQuestion};
