//! Tools: their names and schemas, and the parsing of a call's arguments.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::audience::ToolAudience;
use super::context::ToolContext;
use super::invocation::{Access, Invocation};
use super::output::ToolError;

/// A tool that the model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name, the schema and the kind of the tool.
    fn spec(&self) -> ToolSpec;

    /// Returns the tool as a model is told of it. Differs from [`Self::spec`] only in the description and in the
    /// parameters that the model is told of.
    fn spec_for(&self, _: ToolAudience) -> ToolSpec {
        self.spec()
    }

    /// Returns the access that every call of the tool needs, if that is known without a call, as for tools of MCP
    /// servers.
    fn access(&self) -> Option<Access> {
        None
    }

    /// Returns the form of the tool for models that write one of its arguments as plain text rather than as JSON, if
    /// the tool has such a form.
    fn freeform(&self) -> Option<Freeform> {
        None
    }

    /// Returns whether the tool can be used at the moment. Called each time when a model is told of the tools.
    fn is_offered(&self) -> bool {
        true
    }

    /// Parses the arguments and describes the effects of the call. Changes nothing.
    ///
    /// An error means that the arguments make no sense. A call that makes sense but cannot be done is an
    /// [`Invocation::failing`], which can be shown to people.
    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError>;
}

/// Form of a tool whose only argument is a text that follows a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freeform {
    /// Name of the argument.
    pub argument: &'static str,
    /// Grammar of the text, in Lark's syntax.
    pub grammar: &'static str,
}

/// Name, schema and kind of a tool.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Name by which the model calls the tool.
    pub name: String,
    /// Older names that models still use.
    pub aliases: &'static [&'static str],
    /// Description for the model: when to call the tool, and what it returns.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Kind of the tool.
    pub kind: ToolKind,
}

impl ToolSpec {
    /// Returns whether the name is that of the tool, current or older.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Kind of a tool.
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
    /// Any other kind.
    Other,
}

impl ToolKind {
    /// Returns whether tools of this kind only read, so that several may run at once.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::List | Self::Find | Self::Search)
    }
}
