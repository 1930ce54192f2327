//! Which commands and files are harmless, and which must always be asked for.

use std::path::{Path, PathBuf};

/// One command of a command line, judged.
pub struct Part {
    /// The command's name, for people: `git`.
    pub name: String,
    /// What "always" would remember: `git commit`.
    pub prefix: String,
    /// What it may do.
    pub risk: Risk,
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

impl Part {
    /// Why it is asked about.
    pub fn why(&self) -> String {
        match &self.risk {
            Risk::None => String::new(),
            Risk::Writes(why) | Risk::Runs(why) | Risk::Forced(why) => why.clone(),
        }
    }
}

/// What each command of a line may do; or why that cannot be said.
pub fn judge(line: &str, directory: &Path, roots: &[PathBuf]) -> Result<Vec<Part>, String> {
    let _ = (directory, roots);
    Err(format!("{line} cannot be read"))
}

/// Why a change of this file is always asked about.
pub fn sensitive(path: &Path) -> Option<&'static str> {
    let _ = path;
    None
}
