//! The origin of a setting's value: a file, a variable or a flag.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Origin of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A settings file.
    File {
        /// Layer of the file.
        layer: Layer,
        /// Absolute path of the file.
        path: Arc<Path>,
        /// Line number, from 1.
        line: usize,
    },
    /// An environment variable of this name.
    Variable(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
}

/// Layer of a settings file, by its owner. A later layer counts more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The machine owner's defaults.
    SystemDefaults,
    /// The user's settings for Gemini CLI.
    User,
    /// The user's settings for tandem.
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

    /// Returns `true` for a project's file, even in a folder that the user trusts.
    pub(super) fn of_project(&self) -> bool {
        matches!(self, Self::File { layer: Layer::UnjudgedProject | Layer::Project, .. })
    }

    /// Returns the origin with another line, if it is a file and a line is given; else the same origin.
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
