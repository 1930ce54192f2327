//! Settings from before there were rules, as rules.

use super::command::CommandPattern;
use super::effect::{Rank, RuleEffect, Tier};
use super::name::NamePattern;
use super::rule::{CallMatcher, Rule};
use crate::verdict::RuleName;

/// Older settings on tools. A tool is named as the model knows it, as the program's old
/// classes were (`ShellTool`), or with the beginning of a command: `run_shell_command(git status)`.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// `tools.allowed`: these run without a question.
    pub allowed: Vec<String>,
    /// `tools.exclude`: these do not run.
    pub excluded: Vec<String>,
    /// `tools.core`: of the built-in tools no others run.
    pub core: Option<Vec<String>>,
    /// `tools.confirmationRequired`: these are asked about, every time.
    pub confirmed: Vec<String>,
    /// `mcp.allowed`: of no others the tools run.
    pub servers: Option<Vec<String>>,
    /// `mcp.excluded`: of these no tool runs.
    pub servers_excluded: Vec<String>,
}

const SHELL: &str = "run_shell_command";

/// Names of tools from when settings named them by class.
const CLASSES: &[(&str, &str)] = &[
    ("EditTool", "replace"),
    ("GlobTool", "glob"),
    ("GrepTool", "grep_search"),
    ("LSTool", "list_directory"),
    ("LsTool", "list_directory"),
    ("MemoryTool", "save_memory"),
    ("ReadFileTool", "read_file"),
    ("ReadManyFilesTool", "read_many_files"),
    ("ReplaceTool", "replace"),
    ("RipGrepTool", "grep_search"),
    ("ShellTool", SHELL),
    ("WebFetchTool", "web_fetch"),
    ("WebSearchTool", "google_web_search"),
    ("WriteFileTool", "write_file"),
    ("WriteTodosTool", "write_todos"),
];

/// Returns the settings as rules; `place` returns the name of a setting's place.
pub fn rules(old: &ToolSettings, place: impl Fn(&str) -> String) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut add = |key: &str, effect, priority, about| {
        rules.push(Rule {
            name: RuleName::Written(place(key)),
            effect,
            rank: Rank::new(Tier::User, priority),
            message: None,
            allow_redirection: false,
            sandbox: None,
            about,
        });
    };
    for server in &old.servers_excluded {
        add("mcp.excluded", RuleEffect::Deny, 899, of_server(server));
    }
    if let Some(servers) = &old.servers {
        let about = CallMatcher { servers_but: Some(servers.clone()), ..CallMatcher::default() };
        add("mcp.allowed", RuleEffect::Deny, 899, about);
    }
    if let Some(core) = &old.core {
        add("tools.core", RuleEffect::Deny, 899, tools_but(core));
        let prefixes: Vec<_> = commands(core).collect();
        // The whole tool is named too, or not at all.
        if !prefixes.is_empty() && !core.iter().any(|it| matches!(entry(it), (SHELL, None))) {
            let pattern = CommandPattern::AllBut(prefixes);
            add("tools.core", RuleEffect::Deny, 899, of_shell(pattern));
        }
    }
    let lists = [
        ("tools.exclude", RuleEffect::Deny, 400, &old.excluded),
        ("tools.confirmationRequired", RuleEffect::Ask, 350, &old.confirmed),
        ("tools.allowed", RuleEffect::Allow, 300, &old.allowed),
    ];
    for (key, effect, priority, named) in lists {
        for name in named {
            add(key, effect, priority, of_entry(name));
        }
    }
    rules
}

/// A tool's name as it is now, and the beginning of a command.
fn entry(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    let (name, command) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, command)) => (name.trim(), Some(command.trim()).filter(|it| !it.is_empty())),
        None => (text, None),
    };
    (current_name(name), command)
}

/// Returns a tool's name of today for a name of its class.
pub(super) fn current_name(name: &str) -> &str {
    CLASSES.iter().find(|(class, _)| *class == name).map_or(name, |(_, now)| now)
}

fn of_entry(text: &str) -> CallMatcher {
    match entry(text) {
        (SHELL, Some(command)) => of_shell(CommandPattern::Prefixes(vec![words(command)])),
        (name, _) => CallMatcher {
            tools: Some(vec![NamePattern(name.to_owned())]),
            ..CallMatcher::default()
        },
    }
}

fn of_shell(command: CommandPattern) -> CallMatcher {
    let tools = Some(vec![NamePattern(SHELL.to_owned())]);
    CallMatcher { tools, command: Some(command), ..CallMatcher::default() }
}

fn of_server(server: &str) -> CallMatcher {
    CallMatcher { server: Some(server.to_owned()), ..CallMatcher::default() }
}

/// All built-in tools but these.
fn tools_but(named: &[String]) -> CallMatcher {
    let but = named.iter().map(|name| NamePattern(entry(name).0.to_owned())).collect();
    CallMatcher { tools_but: Some(but), ..CallMatcher::default() }
}

fn commands(named: &[String]) -> impl Iterator<Item = Vec<String>> {
    named.iter().filter_map(|name| match entry(name) {
        (SHELL, Some(command)) => Some(words(command)),
        _ => None,
    })
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn tools_are_known_by_their_older_names() {
        assert_eq!(entry("ShellTool(git status)"), ("run_shell_command", Some("git status")));
        assert_eq!(entry(" run_shell_command() "), ("run_shell_command", None));
        assert_eq!(entry("ReadFileTool"), ("read_file", None));
        assert_eq!(entry("mcp_git_status"), ("mcp_git_status", None));
    }
}
