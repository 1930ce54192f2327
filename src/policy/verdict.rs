//! Verdicts on calls, and the questions that some of them are.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use tandem_host::Access;
use tandem_host::command_sandbox::ShownFiles;
use tandem_sandbox::SandboxMode;

/// Verdict of the policy on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Run it.
    Allow,
    /// Ask the user.
    Ask(Question),
    /// Do not run it.
    Deny {
        /// Reason, for the model.
        why: String,
        /// The rule that denies it.
        rule: Option<RuleName>,
    },
}

/// Verdict on a call, and the environment variables that go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The verdict.
    pub verdict: Verdict,
    /// Variables that the command line is given besides its own, at once or after a yes: its commands
    /// only read, and with these variables they start no other programs.
    pub variables: Vec<(String, String)>,
    /// Mode of the sandbox that a command line runs in, at once or after a yes.
    pub sandbox: SandboxMode,
    /// Files that a command line sees in the sandbox beside those that every command sees, at once or after a yes: the
    /// command line names them, or an "always" covers them.
    pub shown: ShownFiles,
    /// `true` if a command line is known to only read.
    pub only_reads: bool,
}

impl Checked {
    /// Makes a question of an allowed call that changes something outside of the workspace, in a conversation that is
    /// not being saved: after a crash, nothing would tell that the call was made.
    #[must_use]
    pub fn unsaved(self, access: &Access) -> Self {
        let leaves = match access {
            Access::Execute { .. } => {
                self.sandbox == SandboxMode::DangerFullAccess && !self.only_reads
            }
            Access::Mcp { .. } | Access::Agent { .. } | Access::AgentQuestion { .. } => true,
            _ => false,
        };
        if self.verdict != Verdict::Allow || !leaves {
            return self;
        }
        let why =
            "this conversation is not being saved, and nothing would tell later that this was done";
        let question = Question {
            why: why.to_owned(),
            rules: vec![RuleName::BuiltIn("unsaved".to_owned())],
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
    /// A model that repeats itself.
    Repetition,
    /// A call; also a subject of another version of this program.
    #[default]
    #[serde(other)]
    Call,
}

impl QuestionSubject {
    /// Returns the subject of a question about a call with this access.
    pub(super) fn of(access: &Access) -> Self {
        match access {
            Access::Connect { .. } => Self::Connection,
            _ => Self::Call,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

/// A question for the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Subject, which decides on the answers.
    #[serde(default, skip_serializing_if = "QuestionSubject::is_call")]
    pub subject: QuestionSubject,
    /// Reason for the question: of a command line, the part that is asked about.
    pub why: String,
    /// The rules that ask; the first is that of the first reason.
    #[serde(default)]
    pub rules: Vec<RuleName>,
    /// Of a command line: the names of its commands that were not always allowed before.
    pub commands: Vec<String>,
    /// Scopes that "always" can have, the usual one first. Empty if the call is asked about every
    /// time.
    pub scopes: Vec<Scope>,
    /// `true` if "always" can be saved, for later sessions, too.
    #[serde(default)]
    pub can_save: bool,
}

impl Question {
    /// The same with a reason and a rule before the others, which asks every time.
    #[must_use]
    pub(super) fn with(self, why: &str, rule: RuleName) -> Self {
        let why = format!("{why}; {}", self.why);
        let rules = [vec![rule], self.rules].concat();
        Self { why, rules, scopes: Vec::new(), ..self }
    }

    /// Returns whether "always" is no answer to it.
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

    /// Returns the scope that can be saved.
    pub fn to_save(&self) -> Option<&Scope> {
        self.scopes.first().filter(|_| self.can_save)
    }
}

/// Name of the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RuleName {
    /// One of this program's own.
    BuiltIn(String),
    /// One that somebody has written: a file and a line, or a setting.
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
