//! Approval modes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Approval mode: the calls that run without a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Reading runs without a question, except of secrets.
    #[default]
    Default,
    /// Changes of files of the workspace also run, except of files that other programs run or obey by themselves.
    AutoEdit,
    /// Every call runs without a question.
    Yolo,
    /// Reading runs without a question, except of secrets. Calls that would change something are denied.
    Plan,
}

impl Mode {
    /// All modes, each with the name that users give it.
    pub const ALL: [(&'static str, Self); 4] = [
        ("default", Self::Default),
        ("auto_edit", Self::AutoEdit),
        ("yolo", Self::Yolo),
        ("plan", Self::Plan),
    ];

    /// Returns whether the mode allows every call without a question that another allows.
    pub(super) fn allows_as_much_as(self, other: Self) -> bool {
        let level = |mode| match mode {
            Self::Plan => 0,
            Self::Default => 1,
            Self::AutoEdit => 2,
            Self::Yolo => 3,
        };
        level(self) >= level(other)
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, mode)| *mode).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}
