//! Privileges that every command in the sandbox gives up, regardless of its profile.

use std::fs;
use std::io;

use rustix::process::Resource;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, remove_capability_from_bounding_set,
    set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::sys;
use crate::profile::Limits;

/// Sets `no_new_privs`, so that no program can gain more rights than its parent has, and sets the limits of a profile.
pub(super) fn forgo_new(limits: Limits) -> io::Result<()> {
    set_no_new_privs(true)?;
    limit(limits)
}

/// Sets the limits of a profile, and disables core dumps.
pub(super) fn limit(limits: Limits) -> io::Result<()> {
    sys::limit(Resource::Core, 0)?;
    if let Some(processes) = limits.processes {
        sys::limit(Resource::Nproc, processes)?;
    }
    if let Some(bytes) = limits.memory_bytes {
        // The limit is on data and not on address space, as runtimes reserve far more addresses than they use.
        sys::limit(Resource::Data, bytes)?;
    }
    Ok(())
}

/// Raises the process limit of a command by the number of threads that run now. The kernel counts the command's
/// processes together with all others of its user, and those that run already are not the command's.
pub(super) fn beside_others(limits: Limits) -> Limits {
    let processes = limits.processes.map(|most| most.saturating_add(running_threads()));
    Limits { processes, ..limits }
}

/// Returns the number of threads on the machine; 0 if it cannot be read.
fn running_threads() -> u64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let counts = load.split_whitespace().find_map(|field| field.split_once('/'));
    counts.and_then(|(_, all)| all.parse().ok()).unwrap_or_default()
}

/// Gives up all capabilities, and prevents root from regaining them when it runs a program.
pub(super) fn drop_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // This kernel does not know the capability, or this process may not drop it.
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
        // An ordinary user without a user namespace may not set these bits, but has no capabilities to lose either.
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}
