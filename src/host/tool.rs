//! A tool: its name and schema, and the reading of a call's arguments.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::ToolContext;
use super::invocation::{Access, Invocation};
use super::output::ToolError;

/// A tool that the model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name, the schema and the kind of the tool.
    fn spec(&self) -> ToolSpec;

    /// Returns what every call of it would touch, if that is known before there is one: so it is of
    /// tools of MCP servers.
    fn access(&self) -> Option<Access> {
        None
    }

    /// Returns whether there is what it needs. Asked anew whenever models are told of the tools.
    fn is_offered(&self) -> bool {
        true
    }

    /// Reads the arguments and says what would happen. Changes nothing.
    ///
    /// An error here means that the arguments make no sense; a call that makes sense and cannot
    /// be done is an [`Invocation::failing`], which can be shown.
    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError>;
}

/// Name, schema and kind of a tool.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Name by which the model calls it.
    pub name: String,
    /// Older names that models still use.
    pub aliases: &'static [&'static str],
    /// For the model: when to call it, and what comes of it.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: Value,
    /// Kind of thing that it does.
    pub kind: ToolKind,
}

impl ToolSpec {
    /// Returns whether the name is that of the tool, current or older.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Kind of thing that a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolKind {
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

impl ToolKind {
    /// Returns whether it leaves everything as it is, so that several may run at once.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::List | Self::Find | Self::Search)
    }
}
