//! Systems other than Linux.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use crate::mechanism::Mechanism;
use crate::profile::{Limits, Profile};
use crate::report::Report;
use crate::seatbelt::seatbelt;

/// The system's program that runs a command in a profile.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// A way to run commands fenced in, for one session.
pub struct Sandbox(());

impl Sandbox {
    /// Makes a sandbox of one kind; the error says why that does not work here. `helper`: see
    /// [`probe`](crate::probe).
    pub fn of(mechanism: Mechanism, _helper: &Path, _limits: Limits) -> Result<Self, String> {
        if mechanism != Mechanism::Seatbelt || !cfg!(target_os = "macos") {
            return Err(format!("this system has no {mechanism}"));
        }
        if !Path::new(SANDBOX_EXEC).exists() {
            return Err(format!("{SANDBOX_EXEC} is missing"));
        }
        Ok(Self(()))
    }

    /// Returns the mechanism.
    pub fn mechanism(&self) -> Mechanism {
        Mechanism::Seatbelt
    }

    /// Returns a socket that only the commands of the session can connect to: there is none.
    pub fn listener(&self) -> Option<io::Result<TcpListener>> {
        None
    }

    /// Returns the root directory of temporary files in memory: there is none.
    pub fn temporary(&self) -> Option<io::Result<OwnedFd>> {
        None
    }

    /// Returns whether processes of the session are left that can write the roots: that cannot be told.
    pub fn has_writers(&self) -> Option<bool> {
        None
    }

    /// Returns a command that runs a program with these arguments in the sandbox, and the report on it, which
    /// says nothing. Its working directory, environment and standard streams are the caller's to set.
    pub fn command(
        &self,
        profile: &Profile,
        program: &OsStr,
        arguments: &[OsString],
    ) -> io::Result<(Command, Report)> {
        let mut command = Command::new(SANDBOX_EXEC);
        command.arg("-p").arg(seatbelt(profile)?).arg("--").arg(program).args(arguments);
        Ok((command, Report::default()))
    }
}

/// Does nothing: no helper is needed.
pub fn helper() {}

/// Returns whether an environment variable can make a program load other code: `sandbox-exec` is not
/// steered by any.
pub fn steers_loader(_name: &OsStr) -> bool {
    false
}
