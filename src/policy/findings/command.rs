//! One command of a line, with its findings.

use std::path::PathBuf;

use tandem_shell::Word;

use super::fact::{Fact, Finding};
use super::project::ProjectContent;
use tandem_host::workspace::OutsideFile;

/// One command of a command line, with the facts that the policy decides by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssessedCommand {
    /// The command's name, for people: `git`.
    pub name: String,
    /// Forms of the command that rules are compared with: first the normalized form (git without those of its own
    /// options that change nothing), then the form as written, the commands that it may run, and its wrappers.
    pub forms: Vec<Vec<Word>>,
    /// `true` if the command runs other commands that the assessment cannot see, from a script, a text or its input.
    pub hides: bool,
    /// Properties of the command that are saved if the user answers a question with "always".
    pub remembered: Remembered,
    /// Findings, in the order in which they were found; empty if the command is harmless.
    pub findings: Vec<Finding>,
    /// Files with secrets that the command names, as real paths.
    pub secrets: Vec<PathBuf>,
    /// Files of the hidden home that the command names and reads.
    pub hidden: Vec<OutsideFile>,
}

/// Properties of a command that are saved if the user answers a question with "always".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Beginning of the command: `git commit`.
    pub prefix: String,
    /// Program that an "always" for every command of the program would remember: `git`. `None` for a program that runs
    /// others, because the "always" would then allow any program.
    pub program: Option<String>,
    /// Executable files that redirections overwrite, as written. An "always" does not cover other executable files.
    pub overwrites: Option<String>,
    /// `true` if the name means a program of the workspace. An "always" for the whole line does not cover the
    /// command then, because that "always" may have been given for another program of the same name.
    pub own: bool,
    /// Content of the files of a project that decide what the command runs.
    pub content: ProjectContent,
}

impl AssessedCommand {
    /// Returns an entry for a part of a line that is no ordinary command: an assignment, a redirection, a function, or
    /// a wrapper such as `sudo` without a command.
    pub(super) fn nameless(name: String, findings: Vec<Finding>) -> Self {
        Self {
            remembered: Remembered { prefix: name.clone(), ..Remembered::default() },
            name,
            forms: Vec::new(),
            hides: false,
            findings,
            secrets: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Returns the first finding of a fact.
    pub(crate) fn first_finding(&self, fact: Fact) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.fact == fact)
    }

    /// Returns whether the command is a `cd` within the workspace.
    pub fn only_goes(&self) -> bool {
        self.name == "cd" && self.findings.is_empty()
    }

    /// Returns whether the command only reads the workspace, except for redirections that write ordinary files.
    pub(crate) fn only_reads(&self) -> bool {
        self.findings.iter().all(|finding| finding.fact == Fact::WritesFile)
    }
}
