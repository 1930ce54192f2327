//! What every command in the sandbox gives up, whatever its profile is.

use std::fs;
use std::io;

use rustix::process::Resource;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, remove_capability_from_bounding_set,
    set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::sys;
use crate::profile::Limits;

/// Gives up that a program can have more rights than the one that starts it, and sets the limits of
/// a profile.
pub(super) fn forgo_new(limits: Limits) -> io::Result<()> {
    set_no_new_privs(true)?;
    limit(limits)
}

/// Sets the limits of a profile, and forgoes files with a process's memory.
pub(super) fn limit(limits: Limits) -> io::Result<()> {
    sys::limit(Resource::Core, 0)?;
    if let Some(processes) = limits.processes {
        sys::limit(Resource::Nproc, processes)?;
    }
    if let Some(bytes) = limits.memory_bytes {
        // Of the data alone: what a runtime only reserves does not count.
        sys::limit(Resource::Data, bytes)?;
    }
    Ok(())
}

/// Returns the limits of a command whose processes the system counts with all others of its user: those
/// that run now are not the command's.
pub(super) fn beside_others(limits: Limits) -> Limits {
    let processes = limits.processes.map(|most| most.saturating_add(running_threads()));
    Limits { processes, ..limits }
}

/// Returns the number of threads that there are on the machine.
fn running_threads() -> u64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let counts = load.split_whitespace().find_map(|field| field.split_once('/'));
    counts.and_then(|(_, all)| all.parse().ok()).unwrap_or_default()
}

/// Gives up all capabilities, also those that root would have again.
pub(super) fn drop_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // One that this kernel does not know, or that is not this process's to give up.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let root_is_nobody = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    match set_capabilities_secure_bits(root_is_nobody) {
        // An ordinary user without a namespace has no capabilities to lose.
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}
