//! The search for a mechanism that works on this machine.

use std::path::Path;

#[cfg(target_os = "linux")]
use crate::launch::Sandbox;
use crate::mechanism::Mechanism;
#[cfg(not(target_os = "linux"))]
use crate::other::Sandbox;
use crate::profile::Limits;

/// Result of the search for a mechanism that works on this machine.
pub struct Probe {
    /// The sandbox with the best mechanism that works; `None` if no mechanism works.
    pub sandbox: Option<Sandbox>,
    /// Mechanisms that were tried before and do not work.
    pub passed_over: Vec<UnusableMechanism>,
}

/// A mechanism that does not work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableMechanism {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The reason.
    pub why: String,
}

/// Tries a mechanism, or all in order until one works, and makes the sandbox. Blocks for some milliseconds. `helper`: a
/// program whose first action is to call [`helper`](crate::helper), mostly [`OWN_PROGRAM`](crate::OWN_PROGRAM).
/// `limits`: those of the session.
pub fn probe(helper: &Path, mechanism: Option<Mechanism>, limits: Limits) -> Probe {
    let mut passed_over = Vec::new();
    for mechanism in mechanism.as_ref().map_or(Mechanism::ALL, std::slice::from_ref) {
        match Sandbox::with_mechanism(*mechanism, helper, limits) {
            Ok(sandbox) => return Probe { sandbox: Some(sandbox), passed_over },
            Err(why) => passed_over.push(UnusableMechanism { mechanism: *mechanism, why }),
        }
    }
    Probe { sandbox: None, passed_over }
}
