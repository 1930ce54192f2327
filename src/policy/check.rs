//! The policy on calls: the built-in rules of each approval mode, and the rules that people have written.

use std::path::{Path, PathBuf};

use super::always::Always;
use super::findings::{self, Environment};
use super::mode::Mode;
use super::reads;
use super::rules::{PolicyRequest, Rank, Rule, RuleEffect, RuleSet, Ruling, Situation, Subject};
use super::scope::Scope;
use super::verdict::{Question, RuleName, Verdict};
use tandem_host::secrets::Secrets;
use tandem_host::{Access, Hints};

/// Message for the model in plan mode.
const PLAN: &str =
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

impl Check<'_> {
    /// Turns the permission of a call into a question if a rule that cannot be read may forbid the call.
    pub(super) fn doubted(&self, verdict: Verdict) -> Verdict {
        let doubt = self.policy.doubt(self.request);
        match (verdict, doubt) {
            (Verdict::Allow, Some(broken)) if *self.request.access != Access::Nothing => {
                let why = format!("a rule may forbid this, but cannot be read: {}", broken.why);
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

    pub(super) fn ruling(&self, subject: Subject<'_>) -> Option<Ruling<'_>> {
        self.policy.ruling(self.request, &self.situation, subject)
    }

    /// Returns the verdict on a call that is no command line.
    pub(super) fn call(&self) -> Verdict {
        if let Access::Fetch { urls, allowed } = self.request.access {
            return self.fetch(urls, allowed);
        }
        let built_in = self.built_in();
        let Some(Ruling { rule, effect }) = self.ruling(Subject::Call) else { return built_in };
        match (effect, &built_in) {
            (RuleEffect::Deny, _) => denied(rule, self.request.tool),
            // In plan mode, a rule allows a call only if the rule names this mode (see `Rule::effect_in`).
            (RuleEffect::BuiltIn, _) | (RuleEffect::Ask, Verdict::Deny { .. }) => built_in,
            (RuleEffect::Ask, _) => Verdict::Ask(Question {
                why: format!("a rule asks about `{}`", self.request.tool),
                rules: vec![rule.name.clone()],
                ..Question::default()
            }),
            // A rule that allows a reading tool was written for files of the workspace, so that it answers no question
            // about files outside.
            (RuleEffect::Allow, Verdict::Ask(asked))
                if (asked.every_time() || reads::asks(asked)) && rule.rank < Rank::EVERY_TIME =>
            {
                built_in
            }
            (RuleEffect::Allow, _) => Verdict::Allow,
        }
    }

    /// Returns the verdict of the built-in rules, without any written rule.
    fn built_in(&self) -> Verdict {
        let (mode, tool) = (self.mode(), self.request.tool);
        let access = self.request.access;
        if let Access::Connect { host, is_allowed, .. } = access {
            return self.connection(host, *is_allowed);
        }
        if mode == Mode::Yolo || matches!(access, Access::Nothing | Access::Read) {
            return Verdict::Allow;
        }
        let whole = Scope::Tool(tool.to_owned());
        if let Access::ReadFiles { paths, outside } = access {
            let outside = reads::question(&self.always, outside);
            return match (paths.iter().find_map(|path| self.secret(path)), outside) {
                (None, None) => Verdict::Allow,
                (None, Some(outside)) => Verdict::Ask(outside),
                (Some(why), None) => ask(findings::SECRETS, why, Vec::new()),
                // One question covers the secret and the files outside. A secret is asked about every time, so no
                // "always" is offered.
                (Some(why), Some(outside)) => {
                    let secret = RuleName::BuiltIn(findings::SECRETS.to_owned());
                    Verdict::Ask(outside.with(&why, secret))
                }
            };
        }
        if mode == Mode::Plan {
            return match access {
                Access::Mcp { server, hints, .. } if hints.read_only == Some(true) => {
                    self.mcp(server, *hints)
                }
                _ => not_in_plan(),
            };
        }
        if let Access::Edit { path } = access
            && let Some(why) = self.sensitive(path)
        {
            return ask("special-files", why, Vec::new());
        }
        if self.always.has(&whole) {
            return Verdict::Allow;
        }
        match access {
            Access::Edit { .. } if self.edits_freely() => Verdict::Allow,
            Access::Edit { .. } => {
                ask("edits", "this mode asks before it changes files", vec![Scope::Edits, whole])
            }
            Access::Mcp { server, hints, .. } => self.mcp(server, *hints),
            Access::Agent { agent, trusted, .. } => self.agent(agent, *trusted),
            Access::AgentQuestion { agent, tool, danger, .. } => {
                self.agent_question(agent, tool, *danger)
            }
            _ => ask("other", "this mode asks before it does more than read", vec![whole]),
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
    fn inside<'p>(&self, path: &'p Path) -> &'p Path {
        let inside = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        inside.filter(|inside| !inside.as_os_str().is_empty()).unwrap_or(path)
    }

    /// Returns whether tools change files of the workspace without a question.
    pub(super) fn edits_freely(&self) -> bool {
        self.mode() == Mode::AutoEdit || self.always.has(&Scope::Edits)
    }

    fn mcp(&self, server: &str, hints: Hints) -> Verdict {
        let tool = Scope::Tool(self.request.tool.to_owned());
        let server = Scope::Server(server.to_owned());
        if hints.trusted || self.always.has(&tool) || self.always.has(&server) {
            return Verdict::Allow;
        }
        // A server may lie about its tools, so that its hints allow nothing.
        let said = match (hints.read_only, hints.destructive) {
            (Some(true), _) => "; the server says that this one only reads",
            (_, Some(true)) => "; the server says that this one may destroy something",
            _ => "",
        };
        ask("mcp", format!("a tool of an MCP server may do anything{said}"), vec![tool, server])
    }

    fn agent(&self, agent: &str, trusted: bool) -> Verdict {
        let scope = Scope::Agent(agent.to_owned());
        if trusted || self.always.has(&scope) {
            return Verdict::Allow;
        }
        ask("agent", "what is sent leaves this session, and the agent may do anything", vec![scope])
    }

    fn agent_question(&self, agent: &str, tool: &str, danger: bool) -> Verdict {
        let scope = Scope::AgentTool { agent: agent.to_owned(), tool: tool.to_owned() };
        if danger {
            return ask("agent-asks", "the agent says that this may do harm where it runs", vec![]);
        }
        if self.always.has(&scope) {
            return Verdict::Allow;
        }
        ask("agent-asks", "the agent asks before it does this where it runs", vec![scope])
    }
}

/// Returns a question of a built-in rule.
pub(super) fn ask(rule: &str, why: impl Into<String>, scopes: Vec<Scope>) -> Verdict {
    let rules = vec![RuleName::BuiltIn(rule.to_owned())];
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
    Verdict::Deny { why: PLAN.to_owned(), rule: Some(RuleName::BuiltIn("plan".to_owned())) }
}
