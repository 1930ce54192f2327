//! Rules that people have written: which calls they allow, deny or ask about.
//!
//! Of the rules that are about a call, the one of the highest rank decides; of two of the same
//! rank, the stricter. A command line is decided command by command. A rule that cannot be read
//! and would not have allowed something makes a question of what it may have been about.

mod command;
mod describe;
mod file;
mod name;
mod old;
mod stable_json;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;

use self::command::CommandPattern;
pub use self::file::{Parsed, parse};
use self::name::NamePattern;
pub use self::old::{ToolSettings, rules as old_rules};
use super::mode::Mode;
use super::risk::AssessedCommand;
use super::verdict::RuleName;
use tandem_tools::Access;

/// Effect of a rule on the calls that it is about. The stricter is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The verdict is the one without the rule.
    BuiltIn,
    /// The calls run.
    Allow,
    /// The calls are asked about, every time.
    Ask,
    /// The calls do not run.
    Deny,
}

/// Owner of a rule: a rule of a greater tier outranks all of a lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The user's own.
    User = 4,
    /// The machine's.
    Admin = 5,
}

/// Weight of a rule: its tier, then its priority (0 to 999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u32);

impl Rank {
    /// Rank of the built-in rules that ask every time: a rule that allows such a call must weigh as
    /// much.
    pub const EVERY_TIME: Self = Self::new(Tier::User, 900);

    /// The rank of a rule.
    pub const fn new(tier: Tier, priority: u32) -> Self {
        Self(tier as u32 * 1000 + priority)
    }
}

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// File and line, or setting.
    pub name: RuleName,
    /// Effect on the calls.
    pub effect: Effect,
    /// Weight among the rules.
    pub rank: Rank,
    /// Message for the model on a denial.
    pub message: Option<String>,
    /// `true` if what it allows may also write files of the workspace by redirections.
    pub allow_redirection: bool,
    /// The calls that it is about.
    about: CallMatcher,
}

/// The calls that a rule is about; a field that is not set does not matter.
#[derive(Debug, Clone, Default)]
struct CallMatcher {
    tools: Option<Vec<NamePattern>>,
    /// Of the built-in tools, all but these.
    tools_but: Option<Vec<NamePattern>>,
    server: Option<String>,
    /// Of all servers but these.
    servers_but: Option<Vec<String>>,
    annotations: BTreeMap<String, bool>,
    args: Option<Regex>,
    command: Option<CommandPattern>,
    modes: Option<Vec<Mode>>,
    interactive: Option<bool>,
    /// Absolute.
    folder: Option<PathBuf>,
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
    asks: bool,
    /// The tools that it is about, if at least that can be made out.
    tools: Option<Vec<NamePattern>>,
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

/// A call that wants to run, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Older names of the tool.
    pub aliases: &'a [&'static str],
    /// The arguments.
    pub args: &'a Value,
    /// The resources that it would touch.
    pub access: &'a Access,
}

impl PolicyRequest<'_> {
    /// Returns a hint that a server gives of its tool, by MCP's name for it.
    fn hint(&self, name: &str) -> Option<bool> {
        let Access::Mcp { hints, .. } = self.access else {
            return (name == "readOnlyHint").then(|| *self.access == Access::Read);
        };
        match name {
            "readOnlyHint" => hints.read_only,
            "destructiveHint" => hints.destructive,
            "idempotentHint" => hints.idempotent,
            "openWorldHint" => hints.open_world,
            _ => None,
        }
    }
}

/// Circumstances of a call.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Mode of the session.
    pub mode: Mode,
    /// `true` if somebody can be asked.
    pub interactive: bool,
    /// The workspace.
    pub folder: &'a Path,
}

/// Part of a call that a rule is compared with.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A call that is no command line.
    Call,
    /// A whole command line, as written.
    Line(&'a str),
    /// One command of a line.
    Command(&'a AssessedCommand),
    /// A command line that cannot be taken apart.
    Unclear(&'a str),
}

/// Certainty that a rule is about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    No,
    /// Only running it would tell.
    Perhaps,
    Yes,
}

/// The rule that decides.
#[derive(Debug, Clone, Copy)]
pub struct Ruling<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The effect: a question for a denial that may not be meant.
    pub effect: Effect,
}

/// All rules that are in force.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The one of the highest rank first.
    rules: Vec<Rule>,
    broken: Vec<Broken>,
}

impl Policy {
    /// Returns a policy of these rules, and of those that could not be read.
    pub fn new(mut rules: Vec<Rule>, broken: Vec<Broken>) -> Self {
        rules.sort_by_key(|rule| Reverse((rule.rank, rule.effect)));
        Self { rules, broken }
    }

    /// Returns the rules, the one of the highest rank first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the rules that could not be read.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// Returns the rule that decides about something.
    pub fn ruling(
        &self,
        request: &PolicyRequest<'_>,
        situation: &Situation<'_>,
        subject: Subject<'_>,
    ) -> Option<Ruling<'_>> {
        let mut perhaps = None;
        for rule in &self.rules {
            match rule.matches(request, situation, subject) {
                Certainty::No => {}
                Certainty::Perhaps => {
                    perhaps.get_or_insert(Ruling { rule, effect: Effect::Ask });
                }
                Certainty::Yes if rule.effect == Effect::Deny => {
                    return Some(Ruling { rule, effect: Effect::Deny });
                }
                Certainty::Yes => {
                    let effect = rule.effect_in(situation.mode);
                    return perhaps.or(Some(Ruling { rule, effect }));
                }
            }
        }
        perhaps
    }

    /// Returns a rule that could not be read and may be about this call.
    pub fn doubt(&self, request: &PolicyRequest<'_>) -> Option<&Broken> {
        let may = |broken: &&Broken| {
            let named = |patterns: &Vec<NamePattern>| {
                patterns.iter().any(|pattern| pattern.matches(request, false))
            };
            broken.asks && broken.tools.as_ref().is_none_or(named)
        };
        self.broken.iter().find(may)
    }

    /// Returns whether some rule denies or asks about anything.
    pub fn restricts(&self) -> bool {
        self.rules.iter().any(|rule| rule.effect >= Effect::Ask)
    }

    /// Returns the rule that denies every call of a tool in every mode: the model need not know of it.
    pub fn removes(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> Option<&Rule> {
        let mut about = self.rules.iter().filter(|rule| rule.about.names(request, situation));
        let first = about.find(|rule| {
            let whole = rule.about.whole();
            whole || rule.effect != Effect::Deny
        });
        first.filter(|rule| rule.effect == Effect::Deny)
    }
}

impl Rule {
    /// Returns whether it is about the text of a command line, rather than about a tool.
    pub fn reads(&self) -> bool {
        self.about.args.is_some() || self.about.command.is_some()
    }

    /// Returns its effect in a mode: in plan mode nothing more is allowed than what a rule allows there
    /// by name.
    fn effect_in(&self, mode: Mode) -> Effect {
        let allows = self.effect == Effect::Allow && mode == Mode::Plan;
        if allows && self.about.modes.is_none() { Effect::BuiltIn } else { self.effect }
    }

    fn matches(
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
    fn whole(&self) -> bool {
        self.args.is_none() && self.command.is_none() && self.modes.is_none()
    }

    /// Returns whether the tool may be meant, in some mode.
    fn names(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> bool {
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
