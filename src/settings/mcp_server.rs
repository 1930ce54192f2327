//! MCP servers as settings name them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::conceal::conceal_server;
use super::origin::SettingOrigin;

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
    /// `true` if the server's program runs in the sandbox, whatever that of commands is.
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
    /// Origin of the entry. Always set in [`Settings`](super::Settings).
    #[serde(skip)]
    pub origin: Option<SettingOrigin>,
    /// The environment variables whose values were put into it.
    #[serde(skip)]
    pub variables: Vec<String>,
    /// As it is in the file: variables are still names.
    #[serde(skip)]
    pub(super) written: Value,
}

impl McpServer {
    /// Returns the maximum time for a call.
    pub fn call_timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_millis)
    }

    /// Returns all that decides what is started or reached, as it is written: no variable has been put
    /// in.
    pub(super) fn runs(&self) -> String {
        runs(&self.written)
    }

    /// Returns the same for people, without the secrets that may be written there.
    pub(super) fn shown(&self) -> String {
        runs(&conceal_server(&self.written, &self.variables))
    }

    /// Returns `true` if a project names the server, whatever the user thinks of its folder.
    pub fn of_project(&self) -> bool {
        self.origin.as_ref().is_some_and(SettingOrigin::of_project)
    }

    /// Returns `true` if a project in a folder that the user has not judged names the server: then the
    /// user is asked before the server is started or reached.
    pub fn unjudged(&self) -> bool {
        self.origin.as_ref().is_some_and(SettingOrigin::unjudged)
    }
}

/// Returns an entry on one line.
pub(super) fn runs(written: &Value) -> String {
    let what = ["command", "httpUrl", "url"];
    let what = what.into_iter().find(|name| written[*name].is_string()).unwrap_or_default();
    let mut runs: Vec<_> = written[what].as_str().map(str::to_owned).into_iter().collect();
    if let Some(args) = written["args"].as_array() {
        let word = |arg: &Value| arg.as_str().map_or_else(|| arg.to_string(), ToOwned::to_owned);
        runs.extend(args.iter().map(word));
    }
    let shown = [what, "args", "description", "timeout", "trust"];
    let rest = written.as_object().into_iter().flatten();
    let rest = rest.filter(|(name, _)| !shown.contains(&name.as_str()));
    runs.extend(rest.map(|(name, value)| format!("{name}={value}")));
    runs.join(" ")
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
