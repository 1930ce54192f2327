//! A call that is ready to run: a description of its effects, and the function that carries it out.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tandem_sandbox::SandboxMode;

use super::context::ToolContext;
use super::output::{FileDiff, ToolError, ToolOutput};
use super::user_input::InputQuestion;
use super::workspace::OutsideFile;

/// A call that is ready to run.
pub struct Invocation {
    /// Summary for people.
    pub summary: Summary,
    /// Access that the call needs.
    pub access: Access,
    run: RunCall,
}

type RunCall = Box<
    dyn FnOnce(
            ToolContext,
            Option<AnswerContent>,
        ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
        + Send,
>;

/// Content of the user's answer to the question about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerContent {
    /// Content of a file, in place of the proposed one.
    Edited(String),
    /// Answers to the call's own questions, in their order. An empty text: the user has left the question out.
    Input(Vec<String>),
}

impl AnswerContent {
    fn edited(self) -> Option<String> {
        match self {
            Self::Edited(content) => Some(content),
            Self::Input(_) => None,
        }
    }

    fn input(self) -> Option<Vec<String>> {
        match self {
            Self::Input(answers) => Some(answers),
            Self::Edited(_) => None,
        }
    }
}

impl Invocation {
    /// Returns a call that `run` carries out.
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

    /// Returns a call that changes a file. `run` also gets the content that the user has put in place of the proposed
    /// one, if any.
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
            access: Access::edit(path),
            run: Box::new(|cx, given| run(cx, given.and_then(AnswerContent::edited)).boxed()),
        }
    }

    /// Returns a call that asks the user these questions. `run` gets the answers, in the order of the questions.
    pub fn input<F>(
        summary: Summary,
        questions: Vec<InputQuestion>,
        run: impl FnOnce(Vec<String>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let run: RunCall = Box::new(|_, given| {
            run(given.and_then(AnswerContent::input).unwrap_or_default()).boxed()
        });
        Self { summary, access: Access::UserInput { questions }, run }
    }

    /// Returns a call that changes several files, or removes or moves files. The user can allow such a change, but not
    /// put another content in place of the proposed one.
    pub fn edits<F>(
        summary: Summary,
        path: PathBuf,
        others: Vec<PathBuf>,
        run: impl FnOnce(ToolContext) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let run: RunCall = Box::new(|cx, given| {
            if given.is_none() {
                return run(cx).boxed();
            }
            let message = "Nothing was changed: the text cannot be edited where a call changes several files, or \
                removes or moves a file.";
            std::future::ready(Err(ToolError::new("not_editable", message))).boxed()
        });
        Self { summary, access: Access::Edit { path, others }, run }
    }

    /// Returns a call that can be shown to people but always fails.
    pub fn failing(summary: Summary, error: ToolError) -> Self {
        Self::new(summary, Access::Nothing, |_| std::future::ready(Err(error)))
    }

    /// Carries out the call. The future is to be dropped if it does not end soon after `cx.cancel`.
    pub async fn run(
        self,
        cx: ToolContext,
        given: Option<AnswerContent>,
    ) -> Result<ToolOutput, ToolError> {
        (self.run)(cx, given).await
    }
}

/// Summary of a call, for people, before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Title on one line: a verb in the imperative, and its object. Logs of older versions may have the object alone.
    pub label: String,
    /// Places that the call is about. The last place is the one that front ends show.
    pub locations: Vec<FileLocation>,
    /// Change that the call proposes.
    pub diff: Option<FileDiff>,
}

impl Summary {
    /// Returns a summary with a label alone.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Adds a place.
    #[must_use]
    pub fn at(mut self, path: &Path, line: Option<u32>) -> Self {
        self.locations.push(FileLocation { path: path.display().to_string(), line });
        self
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocation {
    /// Absolute path.
    pub path: String,
    /// Line number, from 1.
    pub line: Option<u32>,
}

/// Access that a call needs, for the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// No access to anything outside the conversation.
    Nothing,
    /// Reads data that is not confidential: results of a search engine, or files of the workspace that the call has
    /// found and that hold no secrets.
    Read,
    /// Reads these files, or files in these directories.
    ReadFiles {
        /// Absolute paths of the files and directories that are named one by one.
        paths: Vec<PathBuf>,
        /// Files among them that lie outside the workspace and are read only if a person agrees.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outside: Vec<OutsideFile>,
    },
    /// Changes files of the workspace.
    Edit {
        /// Absolute path of the file.
        path: PathBuf,
        /// Further files that the call changes; absolute paths.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<PathBuf>,
    },
    /// Runs a command line.
    Execute {
        /// Command line for `bash -c`.
        command: String,
        /// Working directory; absolute.
        directory: PathBuf,
        /// Sandbox that the call asks for, if it names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<SandboxRequest>,
    },
    /// Writes to a command that runs in the background, or closes its standard input.
    ProgramInput(ProgramInput),
    /// Reads the web.
    Fetch {
        /// Addresses.
        urls: Vec<String>,
        /// Hosts of these addresses that the settings allow.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed: Vec<String>,
    },
    /// Lets a command in the sandbox connect to a host.
    Connect {
        /// Name or address of the host.
        host: String,
        /// Port.
        port: u16,
        /// Further hosts with their ports, for which the same answer counts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<String>,
        /// Command that connects, or addresses that are read; on one line, for people.
        command: String,
        /// `true` if the settings allow the host.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_allowed: bool,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server's name in the settings.
        server: String,
        /// The server's name of the tool.
        tool: String,
        /// Name of the tool for people.
        display_name: String,
        /// Properties of the tool.
        #[serde(default)]
        hints: Hints,
    },
    /// Sends a message to another agent.
    Agent {
        /// The agent's name in the settings.
        agent: String,
        /// Address and text, for people.
        description: String,
        /// `true` if the user trusts the agent.
        #[serde(default)]
        trusted: bool,
    },
    /// Answers another agent, which asks before it does something.
    AgentQuestion {
        /// The agent's name in the settings.
        agent: String,
        /// Name of the tool that the agent would use.
        tool: String,
        /// The agent's question, for people.
        description: String,
        /// `true` if the agent says that the action may do harm. Such a question is asked every time.
        #[serde(default)]
        danger: bool,
    },
    /// Asks the user questions of the model's own. The call runs when they are answered.
    UserInput {
        /// The questions.
        questions: Vec<InputQuestion>,
    },
    /// Another action that the user should know of.
    Other {
        /// Description in a sentence.
        description: String,
    },
}

impl Access {
    /// Returns the access of a call that changes one file.
    pub fn edit(path: impl Into<PathBuf>) -> Self {
        Self::Edit { path: path.into(), others: Vec::new() }
    }

    /// Returns the files that the call changes; empty for any other access.
    pub fn changed_files(&self) -> impl Iterator<Item = &PathBuf> {
        let (path, others) = match self {
            Self::Edit { path, others } => (Some(path), others.as_slice()),
            _ => (None, [].as_slice()),
        };
        path.into_iter().chain(others)
    }

    /// Returns the hosts, with their ports, to which a command wants to connect; empty for any other access.
    pub fn hosts(&self) -> Vec<String> {
        let Self::Connect { host, port, others, .. } = self else { return Vec::new() };
        [format!("{host}:{port}")].into_iter().chain(others.iter().cloned()).collect()
    }
}

/// Text that a call writes to a running command, and the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramInput {
    /// Process id of the command.
    pub pid: i32,
    /// Command line that was started.
    pub command: String,
    /// Working directory in which it was started; absolute.
    pub directory: PathBuf,
    /// Mode of the sandbox that the command runs in.
    pub sandbox: SandboxMode,
    /// `true` if the sandbox shows files with secrets to the command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sees_secrets: bool,
    /// Beginning of the line that the text continues; empty if the text begins a line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unfinished: String,
    /// Text to write; empty if the standard input is only closed.
    pub text: String,
    /// `true` if the standard input is closed after the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closes: bool,
}

/// Request of a call about the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRequest {
    /// Mode that the command is to run in.
    pub mode: SandboxMode,
    /// The model's reason, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

/// Properties of a tool of an MCP server. All but the first are claims of the server, which need not be true. `None`:
/// the server makes no claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// `true` if the user trusts the server.
    pub trusted: bool,
    /// `true` if the tool changes nothing.
    pub read_only: Option<bool>,
    /// `true` if the tool may delete or overwrite data.
    pub destructive: Option<bool>,
    /// `true` if a repeated call has no further effect.
    pub idempotent: Option<bool>,
    /// `true` if the tool reaches systems outside.
    pub open_world: Option<bool>,
}
