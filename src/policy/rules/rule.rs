//! A rule: the calls that it is about, and its effect on them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regex::Regex;

use super::command::{self, CommandPattern};
use super::effect::{Certainty, Rank, RuleEffect};
use super::name::NamePattern;
use super::request::{PolicyRequest, Situation, Subject};
use crate::mode::Mode;
use crate::verdict::RuleName;
use tandem_host::Access;
use tandem_sandbox::SandboxMode;

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// File and line, or setting.
    pub name: RuleName,
    /// Effect on the calls.
    pub effect: RuleEffect,
    /// Weight among the rules.
    pub rank: Rank,
    /// Message for the model on a denial.
    pub message: Option<String>,
    /// `true` if what it allows may also write files of the workspace by redirections.
    pub allow_redirection: bool,
    /// Mode of the sandbox that the commands which it allows run in, if the rule says so.
    pub sandbox: Option<SandboxMode>,
    /// The calls that it is about.
    pub(super) about: CallMatcher,
}

/// The calls that a rule is about; a field that is not set does not matter.
#[derive(Debug, Clone, Default)]
pub(super) struct CallMatcher {
    pub(super) tools: Option<Vec<NamePattern>>,
    /// Of the built-in tools, all but these.
    pub(super) tools_but: Option<Vec<NamePattern>>,
    pub(super) server: Option<String>,
    /// Of all servers but these.
    pub(super) servers_but: Option<Vec<String>>,
    pub(super) annotations: BTreeMap<String, bool>,
    pub(super) args: Option<Regex>,
    pub(super) command: Option<CommandPattern>,
    pub(super) modes: Option<Vec<Mode>>,
    pub(super) interactive: Option<bool>,
    /// Absolute.
    pub(super) folder: Option<PathBuf>,
}

/// A rule, or a file of rules, that cannot be used.
#[derive(Debug, Clone)]
pub struct Broken {
    /// File and line, or setting.
    pub name: RuleName,
    /// Reason why it cannot be used.
    pub why: String,
    /// `true` if the calls that it may have been about are asked about: not if it could only have
    /// allowed something.
    pub(super) asks: bool,
    /// The tools that it is about, if at least that can be made out.
    pub(super) tools: Option<Vec<NamePattern>>,
}

impl Broken {
    /// Returns an entry for a whole file, or something else that may hold any rule.
    pub fn whole(place: &str, why: &str) -> Self {
        let (name, why) = (RuleName::Written(place.to_owned()), why.to_owned());
        Self { name, why, asks: true, tools: None }
    }

    /// Returns a message for people: the place, the effect on calls, and the reason.
    pub fn message(&self) -> String {
        let Self { name, why, .. } = self;
        let effect = match (self.asks, &self.tools) {
            (false, _) => "it allows nothing".to_owned(),
            (true, None) => "until it is corrected, everything is asked about".to_owned(),
            (true, Some(tools)) => {
                let tools: Vec<_> = tools.iter().map(|name| format!("`{}`", name.0)).collect();
                format!("until it is corrected, {} is asked about", tools.join(", "))
            }
        };
        format!("{name}: this rule cannot be used, and {effect}: {why}")
    }
}

impl Rule {
    /// Returns whether it is about the text of a command line, rather than about a tool.
    pub fn reads(&self) -> bool {
        self.about.args.is_some() || self.about.command.is_some()
    }

    /// Returns the mode of the sandbox up to which it allows commands to run.
    pub(crate) fn most_sandbox_mode(&self) -> SandboxMode {
        self.sandbox.unwrap_or(SandboxMode::WorkspaceWrite)
    }

    /// Returns its effect in a mode: in plan mode nothing more is allowed than what a rule allows there
    /// by name.
    pub(super) fn effect_in(&self, mode: Mode) -> RuleEffect {
        let allows = self.effect == RuleEffect::Allow && mode == Mode::Plan;
        if allows && self.about.modes.is_none() { RuleEffect::BuiltIn } else { self.effect }
    }

    pub(super) fn matches(
        &self,
        request: &PolicyRequest<'_>,
        situation: &Situation<'_>,
        subject: Subject<'_>,
    ) -> Certainty {
        // On the way to the directory of what is meant.
        let on_the_way = matches!(subject, Subject::Command(command) if command.only_goes());
        let named = self.about.command.as_ref().is_some_and(CommandPattern::names);
        if on_the_way && !named {
            return Certainty::No;
        }
        if !self.about.applies(request, situation) {
            return Certainty::No;
        }
        let args = self.about.args.as_ref();
        match (&self.about.command, args) {
            (Some(pattern), args) => {
                let args = args.map_or(Certainty::Yes, |args| self.args(args, request, subject));
                args.min(pattern.matches(subject, self.effect))
            }
            (None, Some(args)) => self.args(args, request, subject),
            (None, None) => Certainty::Yes,
        }
    }

    fn args(
        &self,
        pattern: &Regex,
        request: &PolicyRequest<'_>,
        subject: Subject<'_>,
    ) -> Certainty {
        command::args(pattern, request.args, subject, self.effect)
    }
}

impl CallMatcher {
    /// Returns whether a call may be meant, its arguments aside.
    fn applies(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> bool {
        self.names(request, situation)
            && self.modes.as_ref().is_none_or(|modes| modes.contains(&situation.mode))
    }

    /// Returns whether it is about all calls of the tools that it names.
    pub(super) fn whole(&self) -> bool {
        self.args.is_none() && self.command.is_none() && self.modes.is_none()
    }

    /// Returns whether the tool may be meant, in some mode.
    pub(super) fn names(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> bool {
        let server = match request.access {
            Access::Mcp { server, .. } => Some(server),
            _ => None,
        };
        let of_server = self.server.is_some();
        let named = |patterns: &Vec<NamePattern>| {
            patterns.iter().any(|pattern| pattern.matches(request, of_server))
        };
        let has = |(name, value): (&String, &bool)| request.hint(name) == Some(*value);
        let but = self.tools_but.as_ref();
        let servers_but = self.servers_but.as_ref();
        self.server
            .as_ref()
            .is_none_or(|wanted| server.is_some_and(|server| wanted == "*" || wanted == server))
            && servers_but.is_none_or(|but| server.is_some_and(|server| !but.contains(server)))
            && but.is_none_or(|but| server.is_none() && !named(but))
            && self.tools.as_ref().is_none_or(named)
            && self.annotations.iter().all(has)
            && self.interactive.is_none_or(|wanted| wanted == situation.interactive)
            && self.folder.as_ref().is_none_or(|folder| situation.folder.starts_with(folder))
    }
}
