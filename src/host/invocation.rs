//! A call that is ready to run: what it would do, and the doing of it.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tandem_sandbox::SandboxMode;

use super::context::ToolContext;
use super::output::{FileDiff, ToolError, ToolOutput};
use super::workspace::OutsideFile;

/// A call that is ready to run.
pub struct Invocation {
    /// Summary for people.
    pub summary: Summary,
    /// Access that it needs.
    pub access: Access,
    run: RunCall,
}

type RunCall = Box<
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

/// Summary of a call, for people, before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Title on one line: a verb in the imperative, and its object. Logs of older versions may have the object alone.
    pub label: String,
    /// The places it is about; the last is the one to look at.
    pub locations: Vec<FileLocation>,
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
        self.locations.push(FileLocation { path: path.display().to_string(), line });
        self
    }
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLocation {
    /// Absolute.
    pub path: String,
    /// From 1.
    pub line: Option<u32>,
}

/// Access that a call needs, for the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Nothing outside the conversation.
    Nothing,
    /// Reads what anybody may know: what a search engine says, or files of the workspace that
    /// it found and that have no secrets in them.
    Read,
    /// Reads these files, or what is in these directories.
    ReadFiles {
        /// Those that are named one by one; absolute.
        paths: Vec<PathBuf>,
        /// Those of them outside of the workspace that are read if a person agrees.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outside: Vec<OutsideFile>,
    },
    /// Changes a file of the workspace.
    Edit {
        /// Absolute.
        path: PathBuf,
    },
    /// Runs a command line.
    Execute {
        /// For `bash -c`.
        command: String,
        /// Working directory; absolute.
        directory: PathBuf,
        /// What the call asks of the sandbox, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<SandboxRequest>,
    },
    /// Reads the web.
    Fetch {
        /// Addresses.
        urls: Vec<String>,
        /// The hosts of those that the settings allow.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed: Vec<String>,
    },
    /// Lets a command in the sandbox connect to a host.
    Connect {
        /// A name, or an address.
        host: String,
        /// Port.
        port: u16,
        /// More hosts with their ports, which the same answer is for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<String>,
        /// The command that connects, or the addresses that are read; on one line, for people.
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
        /// For people.
        display_name: String,
        /// Properties of the tool.
        #[serde(default)]
        hints: Hints,
    },
    /// Sends something to another agent.
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
        /// `true` if the agent says that this may do harm: it is asked about every time.
        #[serde(default)]
        danger: bool,
    },
    /// Something else that the user should know of.
    Other {
        /// A sentence.
        description: String,
    },
}

impl Access {
    /// Returns the hosts, with their ports, that a command wants to connect to; none where it is no connection.
    pub fn hosts(&self) -> Vec<String> {
        let Self::Connect { host, port, others, .. } = self else { return Vec::new() };
        [format!("{host}:{port}")].into_iter().chain(others.iter().cloned()).collect()
    }
}

/// What a call asks of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRequest {
    /// Mode that the command is to run in.
    pub mode: SandboxMode,
    /// The model's reason, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

/// Properties of a tool of an MCP server. But for the first, the server says so, which need not
/// be true; `None`: it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// The user trusts the server.
    pub trusted: bool,
    /// Changes nothing.
    pub read_only: Option<bool>,
    /// May take away what was there.
    pub destructive: Option<bool>,
    /// Twice does no more than once.
    pub idempotent: Option<bool>,
    /// Reaches out into the world.
    pub open_world: Option<bool>,
}
