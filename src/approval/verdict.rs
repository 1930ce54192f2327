//! Verdicts on calls, and the questions to the user that some verdicts are.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use tandem_host::Access;
use tandem_host::command_sandbox::ShownFiles;
use tandem_sandbox::SandboxMode;

/// Verdict of the policy on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs.
    Allow,
    /// The user is asked.
    Ask(Question),
    /// The call does not run.
    Deny {
        /// Reason, for the model.
        why: String,
        /// The rule that denies it.
        rule: Option<RuleName>,
    },
}

/// Verdict on a call, and the environment and sandbox that its command runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The verdict.
    pub verdict: Verdict,
    /// Variables that a command line which only reads is given in addition to its environment, at once or after a yes.
    /// With them, its commands start no other programs.
    pub variables: Vec<(String, String)>,
    /// Mode of the sandbox that a command line runs in, at once or after a yes.
    pub sandbox: SandboxMode,
    /// Files that a command line sees in the sandbox in addition to those that every command sees, at once or after a
    /// yes: files that the command line names, or that an "always" covers.
    pub shown: ShownFiles,
    /// `true` if the call is a command line that is known to only read.
    pub only_reads: bool,
}

impl Checked {
    /// Turns the permission of a call that changes something outside of the workspace into a question. The caller does
    /// this in a session that is not being saved, because after a crash no record would tell that the call was made.
    #[must_use]
    pub fn unsaved(self, access: &Access) -> Self {
        let leaves = match access {
            Access::Execute { .. } | Access::ProgramInput(_) => {
                self.sandbox == SandboxMode::DangerFullAccess && !self.only_reads
            }
            Access::Mcp { .. } | Access::Agent { .. } | Access::AgentQuestion { .. } => true,
            _ => false,
        };
        if self.verdict != Verdict::Allow || !leaves {
            return self;
        }
        let why = "this conversation is not being saved, so there would be no record of this call";
        let question = Question {
            why: why.to_owned(),
            rules: vec![BuiltInRule::Unsaved.into()],
            ..Question::default()
        };
        Self { verdict: Verdict::Ask(question), ..self }
    }
}

impl From<Verdict> for Checked {
    fn from(verdict: Verdict) -> Self {
        let sandbox = SandboxMode::DangerFullAccess;
        let (variables, shown) = Default::default();
        Self { verdict, variables, sandbox, shown, only_reads: false }
    }
}

/// Subject of a question, which decides on the answers that the question offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionSubject {
    /// A connection of a command in the sandbox.
    Connection,
    /// The programs that a folder's own settings name.
    FolderPrograms,
    /// A turn in which the model repeats itself.
    Repetition,
    /// Questions of the model to the user. The call has them, and runs with the answers.
    UserInput,
    /// A call. A subject that another version of this program has saved is read as a call, too.
    #[default]
    #[serde(other)]
    Call,
}

impl QuestionSubject {
    /// Returns the subject of a question about a call with this access.
    pub(super) fn from_access(access: &Access) -> Self {
        match access {
            Access::Connect { .. } => Self::Connection,
            Access::UserInput { .. } => Self::UserInput,
            _ => Self::Call,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::Call
    }
}

/// A question for the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Subject, which decides on the answers that the question offers.
    #[serde(default, skip_serializing_if = "QuestionSubject::is_default")]
    pub subject: QuestionSubject,
    /// Reason for the question; for a command line, the part of the line that is asked about.
    pub why: String,
    /// Rules that ask; the first of them asks for the first reason.
    #[serde(default)]
    pub rules: Vec<RuleName>,
    /// Names of the commands of a command line that were not always allowed before; empty for other calls.
    pub commands: Vec<String>,
    /// Scopes that "always" can have, the usual one first. Empty if the call is asked about every time.
    pub scopes: Vec<Scope>,
    /// `true` if "always" can also be saved for later sessions.
    #[serde(default)]
    pub can_save: bool,
}

impl Question {
    /// Returns the question with a further reason and rule in front. The question is then asked every time, without
    /// an "always".
    #[must_use]
    pub fn with(self, why: &str, rule: BuiltInRule) -> Self {
        let why = format!("{why}; {}", self.why);
        let rules = [vec![rule.into()], self.rules].concat();
        Self { why, rules, scopes: Vec::new(), ..self }
    }

    /// Returns whether the question is asked every time. Then no "always" is offered.
    pub fn every_time(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Returns the reason with the names of the rules that ask, for people.
    pub fn reason(&self) -> String {
        let own = self.rules.iter().filter_map(|rule| match rule {
            RuleName::BuiltIn(name) => Some(name.as_str()),
            RuleName::Written(_) => None,
        });
        let written = self.rules.iter().filter_map(|rule| match rule {
            RuleName::Written(place) => Some(place.clone()),
            RuleName::BuiltIn(_) => None,
        });
        let own: Vec<_> = own.collect();
        let own = match own.len() {
            0 => None,
            1 => Some(format!("built-in rule {}", own[0])),
            _ => Some(format!("built-in rules {}", own.join(", "))),
        };
        let rules: Vec<_> = written.chain(own).collect();
        if rules.is_empty() {
            return self.why.clone();
        }
        format!("{} [{}]", self.why, rules.join("; "))
    }

    /// Returns the scope that can be saved for later sessions, if there is one.
    pub fn to_save(&self) -> Option<&Scope> {
        self.scopes.first().filter(|_| self.can_save)
    }
}

/// A built-in rule: the part of the policy, or of the session, that asks or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the name of a rule is all that there is to say")]
pub enum BuiltInRule {
    AgentAsks,
    Agent,
    AllowedTools,
    Cd,
    Edits,
    Environment,
    EveryTime,
    Functions,
    Mcp,
    Network,
    Other,
    Patterns,
    Plan,
    ProgramInput,
    ReadOnly,
    Reads,
    Redirections,
    Repetition,
    Sandbox,
    Secrets,
    SpecialFiles,
    Unclear,
    UnknownCommand,
    UnknownFolder,
    Unsaved,
    UserInput,
    Variables,
}

impl BuiltInRule {
    /// Returns the name of the rule, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentAsks => "agent-asks",
            Self::Agent => "agent",
            Self::AllowedTools => "allowed_tools",
            Self::Cd => "cd",
            Self::Edits => "edits",
            Self::Environment => "environment",
            Self::EveryTime => "every-time",
            Self::Functions => "functions",
            Self::Mcp => "mcp",
            Self::Network => "network",
            Self::Other => "other",
            Self::Patterns => "patterns",
            Self::Plan => "plan",
            Self::ProgramInput => "program-input",
            Self::ReadOnly => "read-only",
            Self::Reads => "reads",
            Self::Redirections => "redirections",
            Self::Repetition => "repetition",
            Self::Sandbox => "sandbox",
            Self::Secrets => "secrets",
            Self::SpecialFiles => "special-files",
            Self::Unclear => "unclear",
            Self::UnknownCommand => "unknown-command",
            Self::UnknownFolder => "unknown-folder",
            Self::Unsaved => "unsaved",
            Self::UserInput => "user-input",
            Self::Variables => "variables",
        }
    }
}

impl From<BuiltInRule> for RuleName {
    fn from(rule: BuiltInRule) -> Self {
        Self::BuiltIn(rule.name().to_owned())
    }
}

/// Name of the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RuleName {
    /// Built-in rule, by its name.
    BuiltIn(String),
    /// Rule that a person has written, by its place: a file and a line, or a setting.
    Written(String),
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(name) => write!(f, "built-in rule {name}"),
            Self::Written(place) => f.write_str(place),
        }
    }
}
