//! One command of a line, with its risk.

use std::path::PathBuf;

use tandem_shell::Word;

use super::project::ProjectContent;
use tandem_host::workspace::OutsideFile;

/// One command of a command line, with its risk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one command")]
pub struct AssessedCommand {
    /// The command's name, for people: `git`.
    pub name: String,
    /// Prefix that an "always" would remember: `git commit`.
    pub prefix: String,
    /// Program that an "always" for all its commands would remember: `git`. None where that would
    /// allow any program.
    pub program: Option<String>,
    /// Risk of running it.
    pub risk: Risk,
    /// Name of the built-in rule that found the risk.
    pub rule: &'static str,
    /// Further reasons to ask about it every time.
    pub also: Vec<Finding>,
    /// Files with secrets that it names, real paths.
    pub secrets: Vec<PathBuf>,
    /// Files of the hidden home that the command names and reads.
    pub hidden: Vec<OutsideFile>,
    /// `true` if it reads or changes secrets, and not only may.
    pub tells_secrets: bool,
    /// Files of the workspace that it writes by redirections, for people.
    pub writes: Option<String>,
    /// Those of the files that can be run already, as written: an "always" for others does not
    /// cover them.
    pub overwrites: Option<String>,
    /// The command as rules know it: first without what does not matter, then as it was written,
    /// then what it is wrapped in.
    pub forms: Vec<Vec<Word>>,
    /// `true` if its name stands for a program of the workspace: an "always" for the line may have been
    /// given for another program.
    pub own: bool,
    /// Programs that it may run where the line is not given the variables of lines that only read.
    pub relies: Option<String>,
    /// `true` if it runs commands that are not seen here.
    pub hides: bool,
    /// `true` if it may take away files of the workspace for good.
    pub destroys: bool,
    /// `true` if it names a file to change that takes effect by itself, and that the sandbox lets programs write.
    pub plants: bool,
    /// Content of the files of a project that decide what it runs.
    pub content: ProjectContent,
    /// `true` if it is git by its path (`/usr/bin/git`), and not known to only read.
    pub changes_repository: bool,
    /// `true` if it changes or deletes a file of the hidden home that it names.
    pub changes_hidden: bool,
}

/// A reason to ask about a command every time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The reason in a few words.
    pub why: String,
    /// Name of the built-in rule that found it.
    pub rule: &'static str,
}

/// Risk of running a command, with the reason in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Risk {
    /// Known to do nothing but read inside the workspace.
    None,
    /// Harmless but for a file of the workspace that it writes.
    Writes(String),
    /// Not known to be harmless.
    Runs(String),
    /// To be asked about every time.
    Forced(String),
}

impl Risk {
    pub(super) fn level(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Writes(_) => 1,
            Self::Runs(_) => 2,
            Self::Forced(_) => 3,
        }
    }

    /// Returns the greater of the two.
    pub(super) fn or(self, other: Self) -> Self {
        if other.level() > self.level() { other } else { self }
    }
}

impl AssessedCommand {
    /// Returns an entry for something that is no command of a name.
    pub(super) fn nameless(name: String, risk: Risk, rule: &'static str) -> Self {
        Self {
            prefix: name.clone(),
            name,
            program: None,
            risk,
            rule,
            also: Vec::new(),
            secrets: Vec::new(),
            hidden: Vec::new(),
            tells_secrets: false,
            writes: None,
            overwrites: None,
            forms: Vec::new(),
            own: false,
            relies: None,
            hides: false,
            destroys: false,
            plants: false,
            content: ProjectContent::None,
            changes_repository: false,
            changes_hidden: false,
        }
    }

    /// The same with further risks, each found by a rule.
    pub(super) fn with<const N: usize>(mut self, found: [(Risk, &'static str); N]) -> Self {
        for (risk, rule) in found {
            self.add(risk, rule);
        }
        self
    }

    /// Adds another risk, found by a rule: the gravest counts, and of equals the first.
    pub(super) fn add(&mut self, found: Risk, rule: &'static str) {
        let is_forced = matches!(self.risk, Risk::Forced(_));
        match found {
            Risk::Forced(why) if is_forced => {
                let known = self.also.iter().map(|finding| finding.why.as_str());
                if !known.chain([self.why()]).any(|known| known == why) {
                    self.also.push(Finding { why, rule });
                }
            }
            found if found.level() > self.risk.level() => (self.risk, self.rule) = (found, rule),
            _ => {}
        }
    }

    /// Takes note that it has turned out to be harmless.
    pub(super) fn clear(&mut self) {
        (self.risk, self.rule) = (Risk::None, "read-only");
        (self.also, self.secrets, self.tells_secrets) = Default::default();
    }

    /// Returns `true` if the command can work only outside of the sandbox, because the command changes a git repository or
    /// a file of the hidden home.
    pub(crate) fn must_leave(&self) -> bool {
        self.changes_git() || self.changes_hidden
    }

    /// Returns whether it may change what git keeps.
    pub(crate) fn changes_git(&self) -> bool {
        self.changes_repository || (self.name == "git" && self.risk != Risk::None)
    }

    /// Returns whether it does no more than go somewhere in the workspace.
    pub fn only_goes(&self) -> bool {
        self.name == "cd" && self.risk == Risk::None
    }

    /// Returns whether it does no more than read the workspace, with redirections aside.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.risk, Risk::None | Risk::Writes(_))
    }

    /// Returns the reason why it is asked about.
    pub fn why(&self) -> &str {
        match &self.risk {
            Risk::None => "",
            Risk::Writes(why) | Risk::Runs(why) | Risk::Forced(why) => why,
        }
    }
}
