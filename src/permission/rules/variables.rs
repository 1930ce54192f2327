//! Variables that a command is given, or that a line sets.

use super::Risk;
use crate::shell::{Command, brief};

/// Variables that change no more than how something looks.
const HARMLESS: &[&str] = &[
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LC_*",
    "LINES",
    "NO_COLOR",
    "TERM",
    "TZ",
];

/// Variables that decide what programs run, or where they look; and those whose value bash
/// evaluates, with the commands in it.
pub(super) const DECISIVE: &[&str] = &[
    "*EDITOR",
    "*PAGER",
    "*_COMMAND",
    "*_PROXY",
    "*_WRAPPER",
    "BASH*",
    "BROWSER",
    "CARGO_*",
    "CC",
    "CDPATH",
    "CXX",
    "DYLD_*",
    "ENV",
    "GIT_*",
    "GLOBIGNORE",
    "HISTCMD",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "LD_*",
    "LESS*",
    "MAKEFLAGS",
    "NODE_*",
    "NPM_CONFIG_*",
    "OLDPWD",
    "OPTIND",
    "PATH",
    "PERL*",
    "PIP_*",
    "PROMPT_COMMAND",
    "PS4",
    "PWD",
    "PYTHON*",
    "RANDOM",
    "RIPGREP_CONFIG_PATH",
    "RUBY*",
    "RUSTC*",
    "RUSTFLAGS",
    "SHELL*",
    "SRANDOM",
    "SSH_*",
    "XDG_*",
];

/// What a command's assignments do, and the first variable that counts.
pub(super) fn assignments_risk(command: &Command) -> (&str, (Risk, &'static str)) {
    let mut risk = Risk::None;
    let mut variable = "";
    for assignment in &command.assignments {
        let name = assignment.name.as_str();
        let source = brief(&assignment.source);
        // Small letters are for the line itself, by custom, unless a command is given them.
        let own = command.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        // `IFS= read line` changes how that one line is split.
        let splits = name == "IFS" && command.name() == Some("read");
        let found = if is_listed(DECISIVE, name) && !splits {
            Risk::Forced(format!("`{source}` may change what is run"))
        } else if own || is_listed(HARMLESS, name) {
            Risk::None
        } else {
            Risk::Runs(format!("`{source}` may change what a command does"))
        };
        if found.level() > risk.level() {
            (variable, risk) = (name, found);
        }
    }
    (variable, (risk, "variables"))
}

pub(super) fn is_listed(list: &[&str], name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    list.iter().any(|pattern| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == *pattern,
    })
}
