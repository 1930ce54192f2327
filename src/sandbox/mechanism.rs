//! Ways in which operating systems fence a command in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Exit code of a command that could not be started in the sandbox.
pub const NOT_SANDBOXED: i32 = 125;

/// Port of the loopback addresses of a session's network namespace that a proxy can listen on.
pub const PROXY_PORT: u16 = 3128;

/// The path of this program, whatever has become of its file.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// A way to fence a command in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Linux: namespaces of the session's own, made without any other program.
    Namespaces,
    /// Linux: the same made by the program `bwrap`, for each command anew.
    Bubblewrap,
    /// Linux: Landlock's rules for files, and a filter of system calls. What is protected can be
    /// written, and has to be looked after.
    Landlock,
    /// macOS: a profile of `sandbox-exec`.
    Seatbelt,
}

impl Mechanism {
    /// All that this system could have, the best first.
    pub const ALL: &'static [Self] = if cfg!(target_os = "linux") {
        &[Self::Namespaces, Self::Bubblewrap, Self::Landlock]
    } else if cfg!(target_os = "macos") {
        &[Self::Seatbelt]
    } else {
        &[]
    };

    /// Returns the name that settings and people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
        }
    }

    /// Returns whether what is protected cannot be written.
    pub fn protects(self) -> bool {
        self != Self::Landlock
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Namespaces, Self::Bubblewrap, Self::Landlock, Self::Seatbelt];
        let named = all.into_iter().find(|mechanism| mechanism.name() == name);
        named.ok_or_else(|| format!("`{name}` is not one of: {}", all.map(Self::name).join(", ")))
    }
}
