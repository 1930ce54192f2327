//! Names in settings files that have no effect in tandem: names of Gemini CLI, and unknown names. Also files beside the
//! settings that have no effect.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use super::a2a_agent::A2aAgent;
use super::env::Env;
use super::file::{Node, NodeKind};
use super::keys::{A2A_SERVERS, KEY_TABLE, MCP_SERVERS, MODEL_SERVERS, WITHOUT_EFFECT, is_guard};
use super::mcp_server::McpServer;
use super::model_server::ModelServer;
use tandem_content::shorten::first_chars;

/// Names that Gemini CLI knows and that have no effect in tandem.
static GEMINI_CLI: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let lines = include_str!("gemini_cli_keys.txt").lines();
    lines.filter(|line| !line.starts_with('#')).collect()
});

/// Fields of an MCP server's entry that Gemini CLI knows and that have no effect in tandem.
const GEMINI_CLI_SERVER: [&str; 4] = ["extension", "targetAudience", "targetServiceAccount", "tcp"];

/// Gemini CLI's file of MCP servers that are switched off.
pub(super) const ENABLEMENT_FILE: &str = "mcp-server-enablement.json";

/// Files and directories in a `.gemini` directory that have no effect in tandem.
const GEMINI_CLI_FILES: [&str; 6] =
    ["agents", "extensions", "keybindings.json", ENABLEMENT_FILE, "skills", "system.md"];

/// Maximum number of names that are reported of one file. A file of another program may have very many.
const MAX_REPORTED: usize = 100;

/// Maximum number of unknown names in a file that are compared with all known names.
const MAX_COMPARED: usize = 200;

/// Maximum length of a name that is compared with the known names, in bytes, and of a name in a report, in
/// characters.
const MAX_NAME: usize = 100;

/// Minimum length in bytes of a name that is completed to a known one, or of a last part that is looked up in other
/// groups.
const MIN_COMPLETED: usize = 5;

/// A name in a file that has no effect.
#[derive(Debug)]
pub(super) struct Unread {
    /// Full name, with dots between its parts.
    name: String,
    pub line: usize,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    /// Gemini CLI knows the name.
    GeminiCli,
    /// The name is that of a group, but its value is no object.
    NoGroup,
    /// Neither program knows the name.
    Unknown {
        /// The known name that was probably meant.
        meant: Option<String>,
    },
}

impl Unread {
    /// Returns `true` if the name, or the known name that was probably meant, limits what the agent may do.
    pub(super) fn is_guard(&self) -> bool {
        match &self.reason {
            Reason::GeminiCli => false,
            Reason::NoGroup => is_guard(&format!("{}.", self.name)),
            Reason::Unknown { meant } => {
                is_guard(&self.name) || meant.as_deref().is_some_and(is_guard)
            }
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = first_chars(&self.name, MAX_NAME);
        match &self.reason {
            Reason::GeminiCli => write!(f, "`{name}` has no effect in tandem."),
            Reason::NoGroup => write!(f, "`{name}` must be an object (`{{ ... }}`)."),
            Reason::Unknown { meant: None } => write!(f, "`{name}` is unknown and has no effect."),
            Reason::Unknown { meant: Some(meant) } if *meant == name => {
                write!(
                    f,
                    "`{name}` has no effect with a dot in its name: write an object for each part."
                )
            }
            Reason::Unknown { meant: Some(meant) } => {
                write!(f, "`{name}` is unknown and has no effect. Did you mean `{meant}`?")
            }
        }
    }
}

/// Returns the names in a file that have no effect, within the limits [`MAX_REPORTED`] and [`MAX_COMPARED`].
pub(super) fn unread(root: &Node) -> Vec<Unread> {
    let mut search = Search::default();
    walk(root, "", &mut search);
    search.found.truncate(MAX_REPORTED);
    search.found
}

/// Search of a file for names that have no effect.
#[derive(Default)]
struct Search {
    found: Vec<Unread>,
    /// Number of unknown names that were compared with all known names.
    compared: usize,
}

impl Search {
    /// Returns `true` if a limit of the search is reached. Without limits, a project's file could delay the start.
    fn is_over(&self) -> bool {
        self.found.len() >= MAX_REPORTED || self.compared >= MAX_COMPARED
    }
}

/// Kind of a name, by its place among the known names.
enum NameKind {
    Value,
    Group,
    /// A group with names that the user chooses, each for an object with these fields.
    Entries(Vec<String>),
    GeminiCli,
    Nowhere,
}

fn walk(node: &Node, group: &str, search: &mut Search) {
    let NodeKind::Object(properties) = &node.kind else { return };
    for (own, node) in properties {
        if search.is_over() {
            return;
        }
        if is_nothing(node) {
            continue;
        }
        let name = if group.is_empty() { own.clone() } else { format!("{group}.{own}") };
        let is_object = matches!(node.kind, NodeKind::Object(_));
        let known = if own.contains('.') { NameKind::Nowhere } else { name_kind(&name, is_object) };
        match known {
            NameKind::Value => {}
            NameKind::Group if is_object => walk(node, &name, search),
            NameKind::Group => {
                search.found.push(Unread { name, line: node.line, reason: Reason::NoGroup });
            }
            NameKind::Entries(fields) => entries(node, &name, &fields, search),
            NameKind::GeminiCli => {
                search.found.push(Unread { name, line: node.line, reason: Reason::GeminiCli });
            }
            NameKind::Nowhere => nowhere(name, node, search),
        }
    }
}

/// Reports an unknown name. For a group, reports the names in the group instead if one of them is like a known name.
fn nowhere(name: String, node: &Node, search: &mut Search) {
    let before = search.found.len();
    walk(node, &name, search);
    let is_meant = |unread: &Unread| matches!(&unread.reason, Reason::Unknown { meant: Some(_) });
    if !search.found[before..].iter().any(is_meant) {
        search.found.truncate(before);
        search.compared += 1;
        let meant = similar_name(&name);
        search.found.push(Unread { name, line: node.line, reason: Reason::Unknown { meant } });
    }
}

/// Reports unknown fields of the entries of a group.
fn entries(node: &Node, group: &str, fields: &[String], search: &mut Search) {
    let NodeKind::Object(entries) = &node.kind else { return };
    for (entry, node) in entries {
        let NodeKind::Object(properties) = &node.kind else { continue };
        for (own, node) in properties {
            if search.is_over() {
                return;
            }
            if fields.contains(own) || is_nothing(node) {
                continue;
            }
            let reason = if GEMINI_CLI_SERVER.contains(&own.as_str()) && group == MCP_SERVERS {
                Reason::GeminiCli
            } else {
                search.compared += 1;
                let near = nearest(own, fields.iter().map(String::as_str));
                Reason::Unknown { meant: near.map(|near| format!("{group}.{entry}.{near}")) }
            };
            search.found.push(Unread {
                name: format!("{group}.{entry}.{own}"),
                line: node.line,
                reason,
            });
        }
    }
}

/// Returns the kind of a name that is outside of all groups, or in known groups.
fn name_kind(name: &str, is_object: bool) -> NameKind {
    let is_group = |known: &str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let is_guard = WITHOUT_EFFECT.iter().any(|(known, _)| *known == name);
    match name {
        MCP_SERVERS => return NameKind::Entries(fields(&McpServer::default(), &["oauth"])),
        MODEL_SERVERS => return NameKind::Entries(fields(&ModelServer::default(), &[])),
        A2A_SERVERS => return NameKind::Entries(fields(&A2aAgent::default(), &[])),
        // Editors read this name to check and complete the file; tandem does not.
        "$schema" => return NameKind::Value,
        _ => {}
    }
    let is_old = |known: &&str| *known == name && !is_object;
    if is_guard || KEY_TABLE.iter().any(|key| key.name == name || key.old.iter().any(is_old)) {
        return NameKind::Value;
    }
    let is_free = |known: &str| known.strip_suffix(".*").is_some_and(|group| group == name);
    if GEMINI_CLI.iter().any(|known| *known == name || is_free(known)) {
        return NameKind::GeminiCli;
    }
    let mut names = KEY_TABLE.iter().flat_map(|key| key.old.iter().copied().chain([key.name]));
    let mut guards = WITHOUT_EFFECT.iter().map(|(known, _)| *known);
    if names.any(is_group) || guards.any(is_group) || GEMINI_CLI.iter().any(|it| is_group(it)) {
        return NameKind::Group;
    }
    NameKind::Nowhere
}

/// Returns the names of an entry's fields: the serialized fields, and `hidden`, the fields that are not serialized
/// if empty.
fn fields<T: serde::Serialize>(entry: &T, hidden: &[&str]) -> Vec<String> {
    let value = serde_json::to_value(entry).unwrap_or_default();
    let written = value.as_object().into_iter().flatten().map(|(name, _)| name.clone());
    written.chain(hidden.iter().map(|&name| name.to_owned())).collect()
}

/// Returns `true` for a value that sets nothing: `null` or an empty object.
fn is_nothing(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Plain(Value::Null))
        || matches!(&node.kind, NodeKind::Object(properties) if properties.is_empty())
}

/// Returns the known name that was probably meant by a name: a known name with a similar spelling, or the only known
/// name that has the same last part.
fn similar_name(name: &str) -> Option<String> {
    let guards = WITHOUT_EFFECT.iter().map(|(known, _)| *known);
    let foreign = GEMINI_CLI.iter().map(|known| known.strip_suffix(".*").unwrap_or(known));
    let known =
        KEY_TABLE.iter().flat_map(|key| [key.name].into_iter().chain(key.old.iter().copied()));
    if let Some(near) = nearest(name, known.chain(guards).chain(foreign)) {
        // The old name has an effect too, but the manual describes the new one.
        let key = KEY_TABLE.iter().find(|key| key.old.contains(&near));
        return Some(key.map_or(near, |key| key.name).to_owned());
    }
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let own = last(name);
    let mut same = KEY_TABLE.iter().map(|key| key.name).filter(|known| last(known) == own);
    let only = same.next().filter(|_| own.len() >= MIN_COMPLETED && same.next().is_none());
    only.map(ToOwned::to_owned)
}

/// Returns the known name whose spelling is most similar to `name`, if it is similar enough: one slip is allowed, and
/// one more for every eight bytes of `name`. A long enough `name` may also be the beginning of the known name.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME {
        return None;
    }
    let name = name.to_lowercase();
    let near = known.filter_map(|known| {
        let lower = known.to_lowercase();
        let distance = strsim::osa_distance(&lower, &name);
        let begins = name.len() >= MIN_COMPLETED && lower.starts_with(&name);
        (distance <= 1 + name.len() / 8 || begins).then_some((distance, known))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Returns the user's and the project's files and directories of Gemini CLI that have no effect in tandem.
pub(super) fn unread_files(env: &Env) -> Vec<PathBuf> {
    let dirs = [env.gemini_dir(), Some(env.directory().join(".gemini"))];
    let paths = dirs.into_iter().flatten().flat_map(|dir| GEMINI_CLI_FILES.map(|it| dir.join(it)));
    let mut paths: Vec<_> = paths.filter(|path| has_content(path)).collect();
    // If the working directory is the home, both `.gemini` directories are the same.
    paths.sort();
    paths.dedup();
    paths
}

/// Returns `true` for a file, and for a directory that is not empty.
fn has_content(path: &Path) -> bool {
    fs::read_dir(path).map_or_else(|_| path.is_file(), |mut entries| entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_file_of_very_many_unknown_names_is_looked_through_in_part() {
        let names = |count: usize, value: &str| {
            let names: Vec<_> = (0..count).map(|n| format!("\"unheard{n}\": {value}")).collect();
            format!("{{{}}}", names.join(","))
        };
        // Groups are reported by their own names: a limit of reports alone lets all others be compared.
        let text = names(50, &names(50, "1"));
        let mut search = Search::default();
        walk(&file::parse(&text).unwrap().unwrap(), "", &mut search);
        assert!(search.compared <= MAX_COMPARED + 1, "{} were compared", search.compared);
        assert!(!search.found.is_empty());
    }

    #[test]
    fn no_setting_that_has_an_effect_is_in_the_table_of_those_without() {
        for known in GEMINI_CLI.iter() {
            let name = known.strip_suffix(".*").unwrap_or(known);
            let is_known = KEY_TABLE.iter().any(|key| key.name == name || key.old.contains(&name));
            let is_guard = WITHOUT_EFFECT.iter().any(|(guard, _)| *guard == name);
            assert!(!is_known && !is_guard, "{known}");
            assert!(name.split('.').all(|part| part.chars().all(char::is_alphanumeric)), "{known}");
        }
    }
}
