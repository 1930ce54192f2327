//! MCP servers as settings name them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::server_entry::ServerEntry;

/// Configuration of an MCP server. Only the types of its values are checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct McpServer {
    /// The program, of a server over standard input and output.
    pub command: Option<String>,
    /// The program's arguments.
    pub args: Vec<Concealed>,
    /// Environment variables for the program.
    pub env: BTreeMap<String, Concealed>,
    /// The directory to start it in; may be relative to the workspace.
    pub cwd: Option<PathBuf>,
    /// The address of a server over SSE; or over what `kind` says.
    pub url: Option<Concealed>,
    /// The address of a server over streamable HTTP.
    pub http_url: Option<Concealed>,
    /// `stdio`, `sse` or `http`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// HTTP headers for each request.
    pub headers: BTreeMap<String, Concealed>,
    /// Milliseconds that a call may take.
    pub timeout: Option<u64>,
    /// `true` if the tools of the server need no question; never for a server of an unjudged project.
    pub trust: bool,
    /// `true` if the server's program runs in the sandbox or not at all, even where commands have no sandbox.
    pub sandbox: bool,
    /// The only tools of the server that count, if set.
    pub include_tools: Option<Vec<String>>,
    /// Tools of the server that do not count, even if they are included.
    pub exclude_tools: Vec<String>,
    /// Description of the server, for people.
    pub description: Option<String>,
    /// OAuth settings as they are in the file; `Null` if there are none.
    #[serde(serialize_with = "conceal", skip_serializing_if = "Value::is_null")]
    pub oauth: Value,
    /// Means of logging in.
    pub auth_provider_type: Option<String>,
    /// The entry itself.
    #[serde(skip)]
    pub entry: ServerEntry,
}

impl McpServer {
    /// Returns the maximum time for a call.
    pub fn call_timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }
}

/// Text that may have a secret in it, and that is not shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Concealed(String);

impl Concealed {
    /// The text itself, to be used and not to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

const HIDDEN: &str = "(hidden)";

impl fmt::Debug for Concealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Concealed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(HIDDEN)
    }
}

impl<'de> Deserialize<'de> for Concealed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // People write numbers where programs are given text.
        match Value::deserialize(from)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            Value::Bool(value) => Ok(Self(value.to_string())),
            _ => Err(serde::de::Error::custom("must be text")),
        }
    }
}

fn conceal<S: Serializer>(_: &Value, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(HIDDEN)
}
