//! A rule: the calls that it is about, and its effect on them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regex::Regex;

use super::command::{self, CommandPattern};
use super::effect::{Certainty, Rank, RuleEffect};
use super::subject::Subject;
use tandem_approval::{Mode, NamePattern, PolicyRequest, RuleName, Situation};
use tandem_host::Access;
use tandem_sandbox::SandboxMode;

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Name of the rule: file and line, or setting.
    pub name: RuleName,
    /// Effect on the calls.
    pub effect: RuleEffect,
    /// Weight of the rule among others.
    pub rank: Rank,
    /// Message for the model on a denial.
    pub message: Option<String>,
    /// `true` if commands that the rule allows may also write files of the workspace by redirections.
    pub allow_redirection: bool,
    /// Sandbox mode of the commands that the rule allows, if the rule names one.
    pub sandbox: Option<SandboxMode>,
    /// Calls that the rule is about.
    pub(super) about: CallMatcher,
}

/// The calls that a rule is about. A field that is not set fits every call.
#[derive(Debug, Clone, Default)]
pub(super) struct CallMatcher {
    pub(super) tools: Option<Vec<NamePattern>>,
    /// Built-in tools that the rule is not about; it is about all others.
    pub(super) tools_but: Option<Vec<NamePattern>>,
    pub(super) server: Option<String>,
    /// MCP servers that the rule is not about; it is about the tools of all others.
    pub(super) servers_but: Option<Vec<String>>,
    pub(super) annotations: BTreeMap<String, bool>,
    pub(super) args: Option<Regex>,
    pub(super) command: Option<CommandPattern>,
    pub(super) modes: Option<Vec<Mode>>,
    pub(super) interactive: Option<bool>,
    /// Directory in which, and below which, the rule counts; absolute.
    pub(super) folder: Option<PathBuf>,
}

/// A rule, or a file of rules, that cannot be used.
#[derive(Debug, Clone)]
pub struct Broken {
    /// Name of the rule or of the file: file and line, or setting.
    pub name: RuleName,
    /// Reason why the rule cannot be used.
    pub why: String,
    /// `true` if the calls that the rule may have been about are asked about; `false` if the rule could only have
    /// allowed calls.
    pub(super) asks: bool,
    /// Tools that the rule is about, if at least these can be read.
    pub(super) tools: Option<Vec<NamePattern>>,
}

impl Broken {
    /// Returns an entry for a whole file, or for another part that may hold any rule.
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
    /// Returns whether the rule is about the text of a command line, rather than about a tool.
    pub fn reads(&self) -> bool {
        self.about.args.is_some() || self.about.command.is_some()
    }

    /// Returns the sandbox mode up to which the rule allows commands to run.
    pub(crate) fn most_sandbox_mode(&self) -> SandboxMode {
        self.sandbox.unwrap_or(SandboxMode::WorkspaceWrite)
    }

    /// Returns the effect of the rule in a mode. In plan mode, a rule allows a call only if the rule names this mode.
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
        // A `cd` within the workspace leads to the directory of other commands. Only a rule that names commands is
        // about the `cd` itself.
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
    /// Returns `true` if the matcher fits a call. The call's arguments and its command are not compared here.
    fn applies(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> bool {
        self.names(request, situation)
            && self.modes.as_ref().is_none_or(|modes| modes.contains(&situation.mode))
    }

    /// Returns whether the matcher fits every call of its tools, in every mode.
    pub(super) fn whole(&self) -> bool {
        self.args.is_none() && self.command.is_none() && self.modes.is_none()
    }

    /// Returns whether the matcher fits the tool of a call, in any mode.
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
