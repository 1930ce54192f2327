//! The entry in settings that names a server: its origin, and its text as written.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tandem_content::bounded;
use tandem_host::preimages::ContentId;

use super::conceal::conceal_server;
use super::origin::SettingOrigin;

/// Maximum size of a script that is read, in bytes.
const MAX_SCRIPT_BYTES: u64 = 64 * 1024 * 1024;

/// Entry in settings that names an MCP server or another agent.
#[derive(Debug, Clone, Default)]
pub struct ServerEntry {
    /// Origin of the entry. Always set in [`Settings`](super::Settings).
    pub origin: Option<SettingOrigin>,
    /// Names of the environment variables whose values were put into the entry.
    pub variables: Vec<String>,
    /// The entry as it is in the file, before variables were replaced by their values.
    pub(super) written: Value,
}

impl ServerEntry {
    /// Returns everything that decides which program is started or which address is reached, as it is written in the
    /// file: variables are not replaced by their values.
    pub(super) fn runs(&self) -> String {
        runs(&self.written)
    }

    /// Returns the files of a project that the command line names, each with the SHA-256 of its content. A file that
    /// cannot be read, or that is too large, is left out.
    pub(super) fn scripts(&self, project: &Path) -> Vec<String> {
        let directory =
            self.written["cwd"].as_str().map_or(project.to_owned(), |it| project.join(it));
        let args = self.written["args"].as_array().into_iter().flatten();
        let words = [&self.written["command"]].into_iter().chain(args).filter_map(Value::as_str);
        let is_inside =
            |path: &PathBuf| path.canonicalize().is_ok_and(|real| real.starts_with(project));
        let paths = words.map(|word| directory.join(word)).filter(is_inside);
        let hashed = paths.filter_map(|path| {
            let content = bounded::read(&path, MAX_SCRIPT_BYTES).ok()?;
            Some(format!("{}={}", path.display(), ContentId::hash(&content).sha256()))
        });
        hashed.collect()
    }

    /// Returns everything that decides which program is started or which address is reached, for people: without the
    /// secrets that may be written there.
    pub(super) fn identity(&self) -> String {
        runs(&conceal_server(&self.written, &self.variables))
    }

    /// Returns `true` if the entry comes from a project's settings file. The user's trust in the folder makes no
    /// difference.
    pub fn of_project(&self) -> bool {
        self.origin.as_ref().is_some_and(SettingOrigin::of_project)
    }

    /// Returns `true` if a project in a folder that the user has not judged names the server. The user is then asked
    /// before the server is started or reached.
    pub fn unjudged(&self) -> bool {
        self.origin.as_ref().is_some_and(SettingOrigin::unjudged)
    }
}

/// Returns the parts of an entry that decide what runs, on one line.
fn runs(written: &Value) -> String {
    let what = ["command", "httpUrl", "url"];
    let what = what.into_iter().find(|name| written[*name].is_string()).unwrap_or_default();
    // A word with a blank is quoted: two other programs could otherwise have the same text.
    let is_plain = |word: &&str| {
        !word.is_empty()
            && !word.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"')
    };
    let word = |word: &Value| {
        word.as_str().filter(is_plain).map_or_else(|| word.to_string(), ToOwned::to_owned)
    };
    let first = match &written[what] {
        command @ Value::String(_) if what == "command" => Some(word(command)),
        address => address.as_str().map(ToOwned::to_owned),
    };
    let args = written["args"].as_array().into_iter().flatten();
    let mut runs: Vec<_> = first.into_iter().chain(args.map(word)).collect();
    // `description`, `timeout` and `trust` are left out: they do not decide what runs, so the user need not be asked
    // again when they change.
    let shown = [what, "args", "description", "timeout", "trust"];
    let rest = written.as_object().into_iter().flatten();
    let rest = rest.filter(|(name, _)| !shown.contains(&name.as_str()));
    runs.extend(rest.map(|(name, value)| format!("{name}={value}")));
    runs.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_that_are_split_in_another_way_are_another_program() {
        let text =
            |command: &str, args: &[&str]| runs(&json!({ "command": command, "args": args }));
        assert_eq!(text("sh", &["-c", "a b"]), "sh -c \"a b\"");
        assert_eq!(text("sh", &["-c", "a", "b"]), "sh -c a b");
        assert_eq!(text("sh -c", &["a", "\"b\""]), "\"sh -c\" a \"\\\"b\\\"\"");
        assert_eq!(text("sh", &[""]), "sh \"\"");
    }
}
