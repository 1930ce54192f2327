//! Older settings on tools, from before there were rules, converted to rules.

use super::command::CommandPattern;
use super::effect::{Rank, RuleEffect, Tier};
use super::rule::{CallMatcher, Rule};
use tandem_approval::{NamePattern, RuleName, current_name};

/// Older settings on tools. An entry is the name of a tool, the name of its class in earlier versions (`ShellTool`), or
/// the shell tool with the beginning of a command: `run_shell_command(git status)`.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// `tools.allowed`: tools that run without a question.
    pub allowed: Vec<String>,
    /// `tools.exclude`: tools that do not run.
    pub excluded: Vec<String>,
    /// `tools.core`: the only built-in tools that run, if set.
    pub core: Option<Vec<String>>,
    /// `tools.confirmationRequired`: tools that are asked about, every time.
    pub confirmed: Vec<String>,
    /// `mcp.allowed`: the only MCP servers whose tools run, if set.
    pub servers: Option<Vec<String>>,
    /// `mcp.excluded`: MCP servers whose tools do not run.
    pub servers_excluded: Vec<String>,
}

const SHELL_TOOL: &str = "run_shell_command";

/// Returns the settings as rules; `place` returns the place of a setting, for people.
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
        // Commands are restricted only if the list names commands and does not also name the whole shell tool.
        if !prefixes.is_empty() && !core.iter().any(|it| matches!(entry(it), (SHELL_TOOL, None))) {
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

/// Returns the present name of the tool of an entry, and the beginning of a command if the entry has one.
fn entry(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    let (name, command) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, command)) => (name.trim(), Some(command.trim()).filter(|it| !it.is_empty())),
        None => (text, None),
    };
    (current_name(name), command)
}

fn of_entry(text: &str) -> CallMatcher {
    match entry(text) {
        (SHELL_TOOL, Some(command)) => of_shell(CommandPattern::Prefixes(vec![words(command)])),
        (name, _) => CallMatcher {
            tools: Some(vec![NamePattern(name.to_owned())]),
            ..CallMatcher::default()
        },
    }
}

fn of_shell(command: CommandPattern) -> CallMatcher {
    let tools = Some(vec![NamePattern(SHELL_TOOL.to_owned())]);
    CallMatcher { tools, command: Some(command), ..CallMatcher::default() }
}

fn of_server(server: &str) -> CallMatcher {
    CallMatcher { server: Some(server.to_owned()), ..CallMatcher::default() }
}

/// Returns a matcher for all built-in tools but these.
fn tools_but(named: &[String]) -> CallMatcher {
    let but = named.iter().map(|name| NamePattern(entry(name).0.to_owned())).collect();
    CallMatcher { tools_but: Some(but), ..CallMatcher::default() }
}

fn commands(named: &[String]) -> impl Iterator<Item = Vec<String>> {
    named.iter().filter_map(|name| match entry(name) {
        (SHELL_TOOL, Some(command)) => Some(words(command)),
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
