//! Orders that the agent gives to the helper, and that the helper gives to itself inside bubblewrap's sandbox.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::profile::{KnownPath, Limits, Profile};

/// First argument of the helper. No user types it by accident: no sub-command begins with this character.
pub(crate) const HELPER_ARGUMENT: &str = "+sandbox";

/// Task of the helper. Each `RawFd` is the number of an inherited descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Hold namespaces until the agent closes the socket. `shared`: the user and network namespaces to use instead
    /// of new namespaces.
    Hold { socket: RawFd, shared: Option<SharedNumbers>, limits: Limits },
    /// Confine this process by `means`, and become the command. `variables`: environment variables of the command that
    /// the helper must not be started with.
    Run { profile: Box<Profile>, means: MechanismSetup, variables: Vec<(OsString, OsString)> },
    /// Become the command in a sandbox that bubblewrap has made, if all `expected` files are in their places; otherwise
    /// write the reason into `report`. `errors`: the command's standard error.
    Check {
        expected: Vec<Expected>,
        variables: Vec<(OsString, OsString)>,
        report: RawFd,
        errors: RawFd,
    },
}

/// Mechanism by which a command is confined, with the descriptors that it needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MechanismSetup {
    Namespaces {
        shared: SharedNumbers,
        ipc: RawFd,
        processes: RawFd,
        files: RawFd,
        temporary: RawFd,
    },
    Bubblewrap {
        program: PathBuf,
    },
    Landlock,
}

/// Descriptors of the namespaces that all commands of a session share.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SharedNumbers {
    pub(crate) user: RawFd,
    pub(crate) network: RawFd,
}

/// A path of the new file tree, with the file that it must lead to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) path: PathBuf,
    /// Identity of the file that the agent has judged; `None` if bubblewrap makes the file itself.
    pub(crate) place: Option<KnownPath>,
}
