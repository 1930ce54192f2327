//! Mechanisms by which operating systems confine a command.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Exit code of a command that could not be started in the sandbox.
pub(crate) const NOT_SANDBOXED: i32 = 125;

/// Port on which a proxy can listen, on the loopback addresses of a session's network namespace.
pub const PROXY_PORT: u16 = 3128;

/// Path that leads to this running program, even if its file was moved or removed.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// A mechanism that confines a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Linux: namespaces of the session's own, made without another program.
    Namespaces,
    /// Linux: namespaces made by the program `bwrap`, anew for each command.
    Bubblewrap,
    /// Linux: Landlock's rules for files, and a filter of system calls. Protected files inside writable directories can
    /// be written, so the caller has to check them after each command.
    Landlock,
    /// macOS: a profile of `sandbox-exec`.
    Seatbelt,
}

impl Mechanism {
    /// All mechanisms that this operating system could have, the best first.
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

    /// Returns whether the mechanism keeps commands from writing protected files.
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
