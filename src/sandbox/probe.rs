//! The look at what works on this machine.

use std::path::Path;

#[cfg(target_os = "linux")]
use crate::launch::Sandbox;
use crate::mechanism::Mechanism;
#[cfg(not(target_os = "linux"))]
use crate::other::Sandbox;
use crate::profile::Limits;

/// Result of the look at what works on this machine.
pub struct Probe {
    /// The best sandbox that works, if any does.
    pub sandbox: Option<Sandbox>,
    /// The better mechanisms, each with the reason why it does not work.
    pub passed_over: Vec<PassedOver>,
}

/// A mechanism that does not work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The reason.
    pub why: String,
}

/// Finds out what works: one mechanism, or the best of all. Takes some milliseconds, and blocks.
/// `helper`: a program that calls [`helper`](crate::helper) first of all, mostly
/// [`OWN_PROGRAM`](crate::OWN_PROGRAM). `limits`: those of the session.
pub fn probe(helper: &Path, mechanism: Option<Mechanism>, limits: Limits) -> Probe {
    let mut passed_over = Vec::new();
    for mechanism in mechanism.as_ref().map_or(Mechanism::ALL, std::slice::from_ref) {
        match Sandbox::of(*mechanism, helper, limits) {
            Ok(sandbox) => return Probe { sandbox: Some(sandbox), passed_over },
            Err(why) => passed_over.push(PassedOver { mechanism: *mechanism, why }),
        }
    }
    Probe { sandbox: None, passed_over }
}
