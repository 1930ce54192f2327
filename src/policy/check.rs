//! The policy on calls: the built-in rules of each approval mode, and the rules that people have written.

use std::path::{Path, PathBuf};

use super::always::Always;
use super::decide::{Action, Confinement, decide};
use super::findings::{self, Fact, Finding};
use super::reads;
use super::rules::{Rank, Rule, RuleEffect, RuleSet, Ruling, Subject};
use tandem_approval::{
    BuiltInRule, Environment, Mode, PolicyRequest, Question, Scope, Situation, Verdict,
};
use tandem_host::Access;
use tandem_host::secrets::Secrets;
use tandem_host::workspace::OutsideFile;

/// Message for the model in plan mode.
const PLAN_REASON: &str =
    "Plan mode: nothing may be changed or run. Read, search, and say what you would do.";

/// A call that is checked, with everything that the verdict depends on.
pub(super) struct Check<'a> {
    pub(super) request: &'a PolicyRequest<'a>,
    pub(super) situation: Situation<'a>,
    pub(super) policy: &'a RuleSet,
    pub(super) always: Always,
    /// Directories of the workspace, as real paths.
    pub(super) roots: &'a [PathBuf],
    pub(super) secrets: &'a Secrets,
    /// Environment that commands are started with.
    pub(super) environment: &'a Environment,
}

/// Finding of a call that is no command line.
struct CallFinding {
    finding: Finding,
    /// Scopes that an "always" can have, the usual one first.
    scopes: Vec<Scope>,
    /// `true` if the settings answer the question.
    is_trusted: bool,
}

impl<'a> Check<'a> {
    /// Turns the permission of a call into a question if a rule that cannot be read may forbid the call.
    pub(super) fn doubted(&self, verdict: Verdict) -> Verdict {
        match (verdict, self.doubt()) {
            (Verdict::Allow, Some(broken)) if *self.request.access != Access::Nothing => {
                let why =
                    format!("a rule that cannot be read may forbid this call: {}", broken.why);
                Verdict::Ask(Question {
                    why,
                    rules: vec![broken.name.clone()],
                    ..Question::default()
                })
            }
            (verdict, _) => verdict,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.situation.mode
    }

    pub(super) fn ruling(&self, subject: Subject<'_>) -> Option<Ruling<'a>> {
        self.policy.ruling(self.request, &self.situation, subject)
    }

    /// Returns the verdict on a call that is no command line.
    pub(super) fn call(&self) -> Verdict {
        if let Access::Fetch { urls, allowed } = self.request.access {
            return self.fetch(urls, allowed);
        }
        let built_in = self.built_in();
        if matches!(self.request.access, Access::UserInput { .. }) {
            // Only a user can answer, so neither a mode nor a rule allows the call. A rule may deny it.
            return match self.call_ruling() {
                Some(Ruling { rule, effect: RuleEffect::Deny }) => denied(rule, self.request.tool),
                _ => built_in,
            };
        }
        let Some(Ruling { rule, effect }) = self.call_ruling() else { return built_in };
        match (effect, &built_in) {
            (RuleEffect::Deny, _) => denied(rule, self.request.tool),
            // In plan mode, a rule allows a call only if the rule names this mode (see `Rule::effect_in`).
            (RuleEffect::BuiltIn, _) | (RuleEffect::Ask, Verdict::Deny { .. }) => built_in,
            (RuleEffect::Ask, _) => Verdict::Ask(Question {
                why: format!("a rule asks about `{}`", self.request.tool),
                rules: vec![rule.name.clone()],
                ..Question::default()
            }),
            // A rule that allows a reading tool is about files of the workspace. So the rule does not answer the
            // question about files outside.
            (RuleEffect::Allow, Verdict::Ask(asked))
                if (asked.every_time() || reads::asks(asked)) && rule.rank < Rank::EVERY_TIME =>
            {
                built_in
            }
            (RuleEffect::Allow, _) if !self.is_in_reach_of(rule) => built_in,
            (RuleEffect::Allow, _) => Verdict::Allow,
        }
    }

    /// Returns the verdict of the built-in rules, without any written rule.
    fn built_in(&self) -> Verdict {
        let found = match self.request.access {
            Access::Nothing | Access::Read => return Verdict::Allow,
            Access::ReadFiles { paths, outside } => return self.reading(paths, outside),
            Access::Connect { host, is_allowed, .. } => return self.connection(host, *is_allowed),
            Access::ProgramInput(input) => return self.feeding(input),
            Access::UserInput { .. } => {
                return ask(BuiltInRule::UserInput, "the model needs a decision of yours", vec![]);
            }
            _ => self.finding(),
        };
        let CallFinding { finding, scopes, is_trusted } = found;
        let whole = self.whole_tool();
        let is_allowed =
            || is_trusted || scopes.iter().chain([&whole]).any(|scope| self.always.has(scope));
        match self.decide(finding.fact) {
            Action::Refuse => not_in_plan(),
            Action::Run => Verdict::Allow,
            Action::Ask if is_allowed() => Verdict::Allow,
            Action::Ask | Action::AskEveryTime => ask(finding.rule, finding.why, scopes),
        }
    }

    /// Returns the finding of a call that does more than read.
    fn finding(&self) -> CallFinding {
        let whole = self.whole_tool();
        let found = |fact, rule, why: &str, scopes| CallFinding {
            finding: Finding::new(fact, rule, why),
            scopes,
            is_trusted: false,
        };
        match self.request.access {
            Access::Edit { .. } => {
                let files = self.request.access.changed_files();
                let sensitive: Vec<_> = files.filter_map(|path| self.sensitive(path)).collect();
                if !sensitive.is_empty() {
                    let why = sensitive.join("; ");
                    return found(Fact::ChangesSensitive, BuiltInRule::SpecialFiles, &why, vec![]);
                }
                let why = "this mode asks before a call changes files";
                found(Fact::WritesFile, BuiltInRule::Edits, why, vec![Scope::Edits, whole])
            }
            Access::Mcp { server, hints, .. } => {
                // An MCP server may lie about its tools. So its hints allow no call; they change only what the question
                // says.
                let (fact, said) = match (hints.read_only, hints.destructive) {
                    (Some(true), _) => {
                        (Fact::CallsReadingServer, "; the server says that this tool only reads")
                    }
                    (_, Some(true)) => (
                        Fact::CallsServer,
                        "; the server says that this tool may destroy something",
                    ),
                    _ => (Fact::CallsServer, ""),
                };
                let why = format!("a tool of an MCP server may do anything{said}");
                let scopes = vec![whole, Scope::Server(server.clone())];
                let found = found(fact, BuiltInRule::Mcp, &why, scopes);
                CallFinding { is_trusted: hints.trusted, ..found }
            }
            Access::Agent { agent, trusted, .. } => {
                let why = "the message leaves this session, and the other agent may do anything";
                let scopes = vec![Scope::Agent(agent.clone())];
                let found = found(Fact::CallsAgent, BuiltInRule::Agent, why, scopes);
                CallFinding { is_trusted: *trusted, ..found }
            }
            Access::AgentQuestion { danger: true, .. } => {
                let why = "the other agent says that this may do harm where that agent runs";
                found(Fact::AgentDoesHarm, BuiltInRule::AgentAsks, why, vec![])
            }
            Access::AgentQuestion { agent, tool, .. } => {
                let why = "the other agent asks before it does this where that agent runs";
                let scope = Scope::AgentTool { agent: agent.clone(), tool: tool.clone() };
                found(Fact::AgentActs, BuiltInRule::AgentAsks, why, vec![scope])
            }
            _ => {
                let why = "this mode asks before a call does more than read";
                found(Fact::DoesMore, BuiltInRule::Other, why, vec![whole])
            }
        }
    }

    /// Returns the scope of every call of the tool.
    pub(super) fn whole_tool(&self) -> Scope {
        Scope::Tool(self.request.tool.to_owned())
    }

    /// Returns the verdict on a tool that reads these files. `outside`: files outside of the workspace that are
    /// asked about.
    fn reading(&self, paths: &[PathBuf], outside: &[OutsideFile]) -> Verdict {
        let asks = |fact| self.decide(fact) != Action::Run;
        let mut secrets = paths.iter().filter_map(|path| self.secret(path));
        let secret = secrets.next().filter(|_| asks(Fact::ReadsSecret));
        let outside = reads::question(&self.always, outside);
        match (secret, outside.filter(|_| asks(Fact::ReadsHiddenHome))) {
            (None, None) => Verdict::Allow,
            (None, Some(outside)) => Verdict::Ask(outside),
            (Some(why), None) => ask(BuiltInRule::Secrets, why, Vec::new()),
            // One question covers the secret and the files outside. A secret is asked about every time, so no "always"
            // is offered.
            (Some(why), Some(outside)) => Verdict::Ask(outside.with(&why, BuiltInRule::Secrets)),
        }
    }

    /// Returns the action of the table on a fact about a call that is no command line.
    pub(super) fn decide(&self, fact: Fact) -> Action {
        decide(fact, self.editing_mode(), Confinement::Unsandboxed)
    }

    /// Returns the mode for the table: mode `default` in which the user always allows edits is `auto_edit`.
    pub(super) fn editing_mode(&self) -> Mode {
        match self.mode() {
            Mode::Default if self.edits_freely() => Mode::AutoEdit,
            mode => mode,
        }
    }

    /// Returns the reason why a change of this file is always asked about. Names of directories above the workspace do
    /// not count, except for secrets.
    fn sensitive(&self, path: &Path) -> Option<String> {
        let inside = self.inside(path);
        let why = findings::sensitive(inside);
        let why = why.map(|why| format!("`{}` is a sensitive file: {why}", inside.display()));
        why.or_else(|| self.secret(path))
    }

    /// Returns the reason why reading this file, or this directory, is always asked about.
    fn secret(&self, path: &Path) -> Option<String> {
        let why = self.secrets.why(path)?;
        Some(format!("`{}` may hold secrets: {why}", self.inside(path).display()))
    }

    /// Returns a path as seen from the workspace.
    pub(super) fn inside<'p>(&self, path: &'p Path) -> &'p Path {
        let inside = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path)
    }

    /// Returns whether tools change files of the workspace without a question.
    pub(super) fn edits_freely(&self) -> bool {
        self.mode() == Mode::AutoEdit || self.always.has(&Scope::Edits)
    }
}

/// Returns a question of a built-in rule.
pub(super) fn ask(rule: BuiltInRule, why: impl Into<String>, scopes: Vec<Scope>) -> Verdict {
    let rules = vec![rule.into()];
    Verdict::Ask(Question { why: why.into(), rules, scopes, ..Question::default() })
}

/// Returns a denial with a message for the model that names the call and the rule.
pub(super) fn denied(rule: &Rule, what: &str) -> Verdict {
    let name = &rule.name;
    let why = match &rule.message {
        Some(message) => format!("{message} (`{what}` is denied by {name}.)"),
        None => format!(
            "Not run: `{what}` is denied by a rule of the user ({name}). Do not try it in another \
             way: go on without it, or ask what they want instead."
        ),
    };
    Verdict::Deny { why, rule: Some(name.clone()) }
}

/// Returns the denial of a call that plan mode does not allow.
pub(super) fn not_in_plan() -> Verdict {
    Verdict::Deny { why: PLAN_REASON.to_owned(), rule: Some(BuiltInRule::Plan.into()) }
}
