//! What the agent can do: one file a tool, and [`all`] that lists them.
//!
//! A call has two steps. [`Tool::prepare`] reads the arguments and says what would happen, for
//! the policy and for people; [`Invocation::run`] does it. Tools reach files through
//! [`Workspace`] and programs through [`Processes`], never directly.

mod args;
mod blocking;
mod files;
mod first;
mod glob;
mod grep_search;
mod list_directory;
mod pattern;
pub mod process;
mod read_file;
mod read_many_files;
mod shorten;
mod target;
mod text;
pub mod workspace;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::process::Processes;
use self::workspace::Workspace;
use crate::media::Media;

/// Every built-in tool, in the order that models are told of them.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file::ReadFile),
        Arc::new(read_many_files::ReadManyFiles),
        Arc::new(list_directory::ListDirectory),
        Arc::new(glob::Glob),
        Arc::new(grep_search::GrepSearch),
    ]
}

/// Something the model can ask for.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it is.
    fn spec(&self) -> ToolSpec;

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
    /// The files.
    pub workspace: Arc<Workspace>,
    /// The programs.
    pub processes: Arc<Processes>,
    /// How much is too much.
    pub limits: Arc<Limits>,
    /// Fires when the turn is cancelled. What runs should end soon after.
    pub cancel: CancellationToken,
    /// Takes the live output so far; each call replaces the one before.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
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
    /// Files that one `glob`, `list_directory` or `read_many_files` names.
    pub files: usize,
    /// How long a search may take.
    pub search_time: Duration,
    /// How long a command may be silent.
    pub shell_idle: Duration,
    /// Bytes of a command's output that are kept in memory.
    pub shell_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 20 << 20,
            read_lines: 2000,
            line_chars: 2000,
            read_chars: 160_000,
            output_chars: 40_000,
            files: 2000,
            search_time: Duration::from_secs(30),
            shell_idle: Duration::from_secs(300),
            shell_bytes: 16 << 20,
        }
    }
}

/// A call that is ready to run.
pub struct Invocation {
    /// What people are shown of it.
    pub summary: Summary,
    /// What it would touch.
    pub access: Access,
    run: Run,
}

type Run = Box<
    dyn FnOnce(ToolContext, Option<String>) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
        + Send,
>;

impl Invocation {
    /// A call that `run` carries out.
    pub fn new<F>(
        summary: Summary,
        access: Access,
        run: impl FnOnce(ToolContext) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self { summary, access, run: Box::new(|cx, _| run(cx).boxed()) }
    }

    /// A change of a file: `run` also takes the content that the user put in place of what was
    /// proposed, if so.
    pub fn edit<F>(
        summary: Summary,
        path: PathBuf,
        run: impl FnOnce(ToolContext, Option<String>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self {
            summary,
            access: Access::Edit { path },
            run: Box::new(|cx, edited| run(cx, edited).boxed()),
        }
    }

    /// A call that can be shown and cannot be done.
    pub fn failing(summary: Summary, error: ToolError) -> Self {
        Self::new(summary, Access::Nothing, |_| std::future::ready(Err(error)))
    }

    /// Does it. To be dropped if it does not end soon after `cx.cancel`.
    pub async fn run(
        self,
        cx: ToolContext,
        edited: Option<String>,
    ) -> Result<ToolOutput, ToolError> {
        (self.run)(cx, edited).await
    }
}

/// What people are shown of a call before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// One line.
    pub label: String,
    /// The places it is about; the last is the one to look at.
    pub locations: Vec<Location>,
    /// The change it proposes.
    pub diff: Option<FileDiff>,
}

impl Summary {
    /// A label alone.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Adds a place.
    #[must_use]
    pub fn at(mut self, path: &Path, line: Option<u32>) -> Self {
        self.locations.push(Location { path: path.display().to_string(), line });
        self
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Absolute.
    pub path: String,
    /// From 1.
    pub line: Option<u32>,
}

/// What a call would touch, for the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Nothing outside the conversation.
    Nothing,
    /// It reads files of the workspace.
    Read,
    /// It changes a file of the workspace.
    Edit {
        /// Absolute.
        path: PathBuf,
    },
    /// It runs a command line.
    Execute {
        /// For `bash -c`.
        command: String,
        /// Where; absolute.
        directory: PathBuf,
    },
    /// It reads the web.
    Fetch {
        /// What.
        urls: Vec<String>,
    },
    /// It calls a tool of an MCP server.
    Mcp {
        /// The server's name in the settings.
        server: String,
        /// The server's name of the tool.
        tool: String,
        /// For people.
        display_name: String,
    },
    /// Something else that the user should know of.
    Other {
        /// A sentence.
        description: String,
    },
}

/// What came of a call that worked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model to read.
    pub text: String,
    /// For the model to look at.
    pub media: Vec<Media>,
    /// For people; `None` when the label says it all.
    pub shown: Option<Content>,
}

impl ToolOutput {
    /// Text for the model, and Markdown for people.
    pub fn new(text: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { text: text.into(), media: Vec::new(), shown: Some(Content::Markdown(shown.into())) }
    }
}

/// What people are shown of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Content {
    /// A sentence or a list.
    Markdown(String),
    /// A program's output: plain text.
    Output(String),
    /// A change of a file.
    Diff(FileDiff),
    /// The todo list as it is now.
    Todos(Vec<Todo>),
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Absolute.
    pub path: String,
    /// The text before; `None` if the file is new.
    pub old: Option<String>,
    /// The text after.
    pub new: String,
}

/// An item of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub description: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a todo is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the tool's own names")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
    Blocked,
}

/// Why a call failed. The model reads it, and so do people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolError {
    /// A name for programs, such as `file_not_found`.
    pub kind: String,
    /// What went wrong, and what to do instead.
    pub message: String,
}

impl ToolError {
    /// An error of a kind.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into() }
    }

    /// The arguments do not fit the tool's schema.
    pub fn invalid_args(message: impl fmt::Display) -> Self {
        Self::new("invalid_tool_params", message.to_string())
    }

    /// The turn was cancelled.
    pub fn cancelled() -> Self {
        Self::new("cancelled", "The user cancelled this call.")
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

/// Reads a call's arguments. The error names the field.
fn parse<T: DeserializeOwned>(args: Value) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(args).map_err(|err| match err.path().to_string().as_str() {
        "." => ToolError::invalid_args(err.inner()),
        path => ToolError::invalid_args(format_args!("`{path}`: {}", err.inner())),
    })
}
