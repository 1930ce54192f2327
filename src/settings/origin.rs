//! Origin of a value: a file, a variable or a flag.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A settings file.
    File {
        /// Layer of the file.
        layer: Layer,
        /// Absolute.
        path: Arc<Path>,
        /// From 1.
        line: usize,
    },
    /// An environment variable of this name.
    Variable(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
}

/// Owner of a settings file; a later one counts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The machine owner's defaults.
    SystemDefaults,
    /// The user's, for Gemini CLI.
    User,
    /// The user's, for this program.
    Own,
    /// A project in a folder that the user has not judged.
    UnjudgedProject,
    /// A project in a folder that the user trusts.
    Project,
    /// The machine owner's decisions.
    System,
}

impl SettingOrigin {
    /// Returns `true` for a project's file in a folder that the user has not judged.
    pub fn unjudged(&self) -> bool {
        matches!(self, Self::File { layer: Layer::UnjudgedProject, .. })
    }

    /// Returns `true` for a project's file, whatever the user thinks of its folder.
    pub(super) fn of_project(&self) -> bool {
        matches!(self, Self::File { layer: Layer::UnjudgedProject | Layer::Project, .. })
    }

    /// The same file, in another line.
    pub(super) fn at_line(&self, line: Option<usize>) -> Self {
        match (self, line) {
            (Self::File { layer, path, .. }, Some(line)) => {
                Self::File { layer: *layer, path: Arc::clone(path), line }
            }
            _ => self.clone(),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "{name} in the environment"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}
