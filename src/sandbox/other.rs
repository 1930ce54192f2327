//! The agent's side of the sandbox on systems other than Linux.

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

/// Path of the system's program that runs a command with a profile.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// The sandbox of one session.
pub struct Sandbox(());

impl Sandbox {
    /// Makes a sandbox with a mechanism; the error says why it does not work here. `helper`: see
    /// [`probe`](crate::probe).
    pub fn with_mechanism(
        mechanism: Mechanism,
        _helper: &Path,
        _limits: Limits,
    ) -> Result<Self, String> {
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

    /// Returns a socket to which only the commands of the session can connect. There is none on these systems.
    pub fn listener(&self) -> Option<io::Result<TcpListener>> {
        None
    }

    /// Returns the root directory of temporary files in memory. There is none on these systems.
    pub fn temporary(&self) -> Option<io::Result<OwnedFd>> {
        None
    }

    /// Returns `None`, because these systems cannot tell whether processes of the session are still running that can
    /// write the roots.
    pub fn has_writers(&self) -> Option<bool> {
        None
    }

    /// Returns a command that runs a program with these arguments in the sandbox, and a report that is always empty.
    /// The caller sets working directory, environment and standard streams.
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

/// Does nothing: these systems need no helper.
pub fn helper() {}

/// Does nothing: this system ends no command with the program that has started the command.
pub fn end_with_thread(_command: &mut Command) {}

/// Returns whether an environment variable can make the program that starts the sandbox load other code. No variable
/// has this effect on `sandbox-exec`.
pub fn steers_loader(_name: &OsStr) -> bool {
    false
}
