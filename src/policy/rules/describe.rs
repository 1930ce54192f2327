//! Descriptions of rules, for people.

use std::fmt;

use super::command::CommandPattern;
use super::effect::RuleEffect;
use super::rule::{CallMatcher, Rule};

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            RuleEffect::BuiltIn => "leave as it is",
            RuleEffect::Allow => "allow",
            RuleEffect::Ask => "ask about",
            RuleEffect::Deny => "deny",
        };
        write!(f, "{effect} {}", self.about)?;
        if self.allow_redirection {
            f.write_str(", writing files too")?;
        }
        if let Some(mode) = self.sandbox {
            write!(f, ", in the sandbox mode {mode}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CallMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.calls())?;
        if let Some(server) = &self.server {
            write!(f, " of the MCP server `{server}`")?;
        }
        if let Some(servers) = &self.servers_but {
            write!(f, " of any MCP server but {}", list(servers.iter(), ", "))?;
        }
        for (name, value) in &self.annotations {
            write!(f, " with `{name}` {value}")?;
        }
        if let Some(args) = &self.args {
            write!(f, " whose arguments match `{args}`")?;
        }
        if let Some(modes) = &self.modes {
            write!(f, " in {}", list(modes.iter(), " and "))?;
        }
        match self.interactive {
            Some(true) => f.write_str(" where somebody can be asked")?,
            Some(false) => f.write_str(" where nobody can be asked")?,
            None => {}
        }
        if let Some(folder) = &self.folder {
            write!(f, " in {}", folder.display())?;
        }
        Ok(())
    }
}

impl CallMatcher {
    fn calls(&self) -> String {
        let prefixes =
            |prefixes: &[Vec<String>]| list(prefixes.iter().map(|prefix| prefix.join(" ")), " or ");
        match (&self.command, &self.tools, &self.tools_but) {
            (Some(CommandPattern::Prefixes(it)), ..) => {
                format!("commands that begin with {}", prefixes(it))
            }
            (Some(CommandPattern::AllBut(it)), ..) => {
                format!("commands that do not begin with {}", prefixes(it))
            }
            (Some(CommandPattern::Regex(it)), ..) => format!("commands that match `{it}`"),
            (None, Some(tools), _) => list(tools.iter().map(|tool| &tool.0), ", "),
            (None, None, Some(tools)) => {
                format!("built-in tools but {}", list(tools.iter().map(|tool| &tool.0), ", "))
            }
            (None, None, None) => "every tool".to_owned(),
        }
    }
}

fn list(names: impl Iterator<Item = impl fmt::Display>, between: &str) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(between)
}
