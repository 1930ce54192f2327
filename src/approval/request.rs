//! A call and its circumstances, as rules are compared with them.

use std::path::Path;

use serde_json::Value;

use super::mode::Mode;
use tandem_host::Access;

/// Tool name by which rules name connections to hosts. No tool has this name.
pub const CONNECT_TOOL: &str = "connect";

/// A call that is to run, as rules are compared with it.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Older names of the tool.
    pub aliases: &'a [&'static str],
    /// The arguments.
    pub args: &'a Value,
    /// Resources that the call would touch.
    pub access: &'a Access,
}

impl PolicyRequest<'_> {
    /// Returns a hint that a server gives about its tool, by the name of the hint in MCP.
    pub fn hint(&self, name: &str) -> Option<bool> {
        let Access::Mcp { hints, .. } = self.access else {
            return (name == "readOnlyHint").then(|| *self.access == Access::Read);
        };
        match name {
            "readOnlyHint" => hints.read_only,
            "destructiveHint" => hints.destructive,
            "idempotentHint" => hints.idempotent,
            "openWorldHint" => hints.open_world,
            _ => None,
        }
    }
}

/// Circumstances of a call.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Mode of the session.
    pub mode: Mode,
    /// `true` if a person can be asked.
    pub interactive: bool,
    /// First directory of the workspace.
    pub folder: &'a Path,
}
