//! Orders of the agent to the helper, and of the helper to itself in bubblewrap's sandbox.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::profile::{KnownPath, Limits, Profile};

/// First argument of the helper. No user types it: it begins with a character that no sub-command
/// has.
pub(crate) const HELPER: &str = "+sandbox";

/// Task of the helper. Numbers are those of inherited descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Hold namespaces until the socket is closed: new ones, or beside those of another.
    Hold { socket: RawFd, shared: Option<SharedNumbers>, limits: Limits },
    /// Become the command.
    Run { profile: Box<Profile>, means: Means, variables: Vec<(OsString, OsString)> },
    /// Become the command in a sandbox that another program has made, if it has made the right one; say in
    /// `report` why not. `errors`: the command's standard error.
    Check {
        expected: Vec<Expected>,
        variables: Vec<(OsString, OsString)>,
        report: RawFd,
        errors: RawFd,
    },
}

/// The means by which a command is confined.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Means {
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

/// A file that must be what was judged, in the tree that the program has made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) path: PathBuf,
    /// Its identity; `None` if it is one of the program's own making.
    pub(crate) place: Option<KnownPath>,
}
