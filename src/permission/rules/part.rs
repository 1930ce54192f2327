//! What is said of one command of a line.

use crate::shell::Word;

/// One command of a command line, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The command's name, for people: `git`.
    pub name: String,
    /// What "always" would remember: `git commit`.
    pub prefix: String,
    /// What it would remember of the whole program: `git`. None where that is to say "anything".
    pub program: Option<String>,
    /// What it may do.
    pub risk: Risk,
    /// Which of the rules here says so.
    pub rule: &'static str,
    /// That it writes files of the workspace by redirections, whatever else it does.
    pub writes: Option<String>,
    /// Which of these can be run already, as written: an "always" for others does not cover them.
    pub overwrites: Option<String>,
    /// The command as rules know it: first without what does not matter, then as it was written,
    /// then what it is wrapped in.
    pub forms: Vec<Vec<Word>>,
    /// Whether it runs commands that are not seen here.
    pub hides: bool,
}

/// What a command may do. Each says why, in a few words.
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

    /// The greater of the two.
    pub(super) fn or(self, other: Self) -> Self {
        if other.level() > self.level() { other } else { self }
    }
}

impl Part {
    /// What is no command of a name.
    pub(super) fn nameless(name: String, risk: Risk, rule: &'static str) -> Self {
        Self {
            prefix: name.clone(),
            name,
            program: None,
            risk,
            rule,
            writes: None,
            overwrites: None,
            forms: Vec::new(),
            hides: false,
        }
    }

    /// Whether it does no more than go somewhere in the workspace.
    pub fn only_goes(&self) -> bool {
        self.name == "cd" && self.risk == Risk::None
    }

    /// Why it is asked about.
    pub fn why(&self) -> &str {
        match &self.risk {
            Risk::None => "",
            Risk::Writes(why) | Risk::Runs(why) | Risk::Forced(why) => why,
        }
    }
}
