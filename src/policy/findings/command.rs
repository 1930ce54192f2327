//! One command of a line, with its risk.

use std::path::PathBuf;

use tandem_shell::Word;

use super::project::ProjectContent;
use tandem_host::workspace::OutsideFile;

/// One command of a command line, with its risk and the facts that the policy decides by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one command")]
pub struct AssessedCommand {
    /// The command's name, for people: `git`.
    pub name: String,
    /// Prefix that an "always" would remember: `git commit`.
    pub prefix: String,
    /// Program that an "always" for every command of the program would remember: `git`. `None` for a program that runs
    /// others, because the "always" would then allow any program.
    pub program: Option<String>,
    /// Risk of running the command.
    pub risk: Risk,
    /// Name of the built-in rule that found the risk.
    pub rule: &'static str,
    /// Further reasons to ask about the command every time, besides the one in `risk`.
    pub also: Vec<Finding>,
    /// Files with secrets that the command names, as real paths.
    pub secrets: Vec<PathBuf>,
    /// Files of the hidden home that the command names and reads.
    pub hidden: Vec<OutsideFile>,
    /// `true` if the command certainly reads or changes secrets; `false` if the command at most may do so.
    pub tells_secrets: bool,
    /// Description for people of the first redirection that writes an ordinary file of the workspace.
    pub writes: Option<String>,
    /// Executable files that redirections overwrite, as written. An "always" remembers the names, and does not cover
    /// other executable files.
    pub overwrites: Option<String>,
    /// Forms of the command that rules are compared with: first the normalized form (git without those of its own
    /// options that change nothing), then the form as written, the commands that it may run, and its wrappers.
    pub forms: Vec<Vec<Word>>,
    /// `true` if the name stands for a program of the workspace. An "always" for the whole line does not cover the
    /// command then, because that "always" may have been given for another program of the same name.
    pub own: bool,
    /// Sentence on the program that the command may start although it only reads, unless the line is given the
    /// variables of `Environment::of_reading`.
    pub relies: Option<String>,
    /// `true` if the command runs other commands that the assessment cannot see, from a script, a text or its input.
    pub hides: bool,
    /// `true` if the command may remove files of the workspace for good.
    pub destroys: bool,
    /// `true` if the command changes a file that takes effect without a person running it, and that the sandbox lets
    /// programs write: `package.json`.
    pub plants: bool,
    /// Content of the files of a project that decide what the command runs.
    pub content: ProjectContent,
    /// `true` if the command calls git by a path (`/usr/bin/git`), and is not known to only read.
    pub changes_repository: bool,
    /// `true` if the command changes or deletes a file of the hidden home that it names. The sandbox would not let it.
    pub changes_hidden: bool,
}

/// A reason to ask about a command every time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Reason in a few words.
    pub why: String,
    /// Name of the built-in rule that found the reason.
    pub rule: &'static str,
}

/// Risk of running a command, with the reason in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Risk {
    /// Known to do nothing but read inside the workspace.
    None,
    /// Harmless, except that a redirection writes an ordinary file of the workspace.
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
}

impl AssessedCommand {
    /// Returns an entry for a part of a line that is no ordinary command: an assignment, a redirection, a function, a
    /// lone wrapper.
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

    /// Returns the command with further risks that `rule` found.
    pub(super) fn with(
        mut self,
        found: impl IntoIterator<Item = Risk>,
        rule: &'static str,
    ) -> Self {
        found.into_iter().for_each(|risk| self.add(risk, rule));
        self
    }

    /// Adds a risk that `rule` found. The gravest risk counts, and of equal ones the first; further reasons to ask
    /// every time are collected in `also`.
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

    /// Marks the command as harmless: removes its risk, its further reasons and its secrets.
    pub(super) fn clear(&mut self) {
        (self.risk, self.rule) = (Risk::None, "read-only");
        (self.also, self.secrets, self.tells_secrets) = Default::default();
    }

    /// Returns `true` if the command can work only outside of the sandbox, because it changes a git repository or a
    /// file of the hidden home.
    pub(crate) fn must_leave(&self) -> bool {
        self.changes_git() || self.changes_hidden
    }

    /// Returns whether the command may change a git repository.
    pub(crate) fn changes_git(&self) -> bool {
        self.changes_repository || (self.name == "git" && !self.only_reads())
    }

    /// Returns whether the command is a `cd` within the workspace.
    pub fn only_goes(&self) -> bool {
        self.name == "cd" && self.risk == Risk::None
    }

    /// Returns whether the command only reads the workspace, except for redirections that write ordinary files.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.risk, Risk::None | Risk::Writes(_))
    }

    /// Returns the reason to ask about the command; empty if there is none.
    pub fn why(&self) -> &str {
        match &self.risk {
            Risk::None => "",
            Risk::Writes(why) | Risk::Runs(why) | Risk::Forced(why) => why,
        }
    }
}
