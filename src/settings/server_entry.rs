//! The entry of settings that names a server: where it stands, and as it stands there.

use serde_json::Value;

use super::conceal::conceal_server;
use super::origin::SettingOrigin;

/// Entry of settings that names an MCP server or another agent.
#[derive(Debug, Clone, Default)]
pub struct ServerEntry {
    /// Origin of the entry. Always set in [`Settings`](super::Settings).
    pub origin: Option<SettingOrigin>,
    /// The environment variables whose values were put into it.
    pub variables: Vec<String>,
    /// As it is in the file: variables are still names.
    pub(super) written: Value,
}

impl ServerEntry {
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
fn runs(written: &Value) -> String {
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
