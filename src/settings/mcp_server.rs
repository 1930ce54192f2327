//! MCP servers as settings describe them.

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
    /// Program of a server that speaks over standard input and output.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<Concealed>,
    /// Environment variables for the program.
    pub env: BTreeMap<String, Concealed>,
    /// Working directory of the program; may be relative to the workspace.
    pub cwd: Option<PathBuf>,
    /// Address of a server over SSE, or over the transport in `kind`.
    pub url: Option<Concealed>,
    /// Address of a server over streamable HTTP.
    pub http_url: Option<Concealed>,
    /// Transport: `stdio`, `sse` or `http`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// HTTP headers for each request.
    pub headers: BTreeMap<String, Concealed>,
    /// Maximum time of a call in milliseconds.
    pub timeout: Option<u64>,
    /// `true` if the tools of the server need no question; never for a server of an unjudged project.
    pub trust: bool,
    /// `true` if the server's program must run in the sandbox, even if commands have none; else it is not started.
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
    /// Way of logging in to the server.
    pub auth_provider_type: Option<String>,
    /// The entry from which the settings were read.
    #[serde(skip)]
    pub entry: ServerEntry,
}

impl McpServer {
    /// Returns the maximum time for a call.
    pub fn call_timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }
}

/// Text that may contain a secret, and so is never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Concealed(String);

impl Concealed {
    /// Returns the text, which may be used but must not be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the scheme, host and port of an address, for people. The rest of the address may hold secrets.
    pub(super) fn shown_address(&self) -> String {
        let url = reqwest::Url::parse(&self.0).ok();
        let address = url.map(|url| url.origin().ascii_serialization());
        address.unwrap_or_else(|| "an address that is not a URL".to_owned())
    }
}

const HIDDEN_VALUE: &str = "(hidden)";

impl fmt::Debug for Concealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN_VALUE)
    }
}

impl Serialize for Concealed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(HIDDEN_VALUE)
    }
}

impl<'de> Deserialize<'de> for Concealed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // People write numbers and booleans although the program is given text.
        match Value::deserialize(from)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            Value::Bool(value) => Ok(Self(value.to_string())),
            _ => Err(serde::de::Error::custom("must be text")),
        }
    }
}

fn conceal<S: Serializer>(_: &Value, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(HIDDEN_VALUE)
}
