//! Runs commands confined by the operating system.
//!
//! The agent starts its own program again as a helper ([`helper`]), with a [`Profile`] in an inherited descriptor. The
//! helper gives up all rights that the profile does not grant, and becomes the command. [`Sandbox`] is the agent's
//! side: it finds out which mechanism works on this system, and makes the command to start. This is the only crate with
//! `unsafe` code; all of it is in `linux/sys.rs` and `launch.rs`.

#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod mechanism;
#[cfg(target_os = "linux")]
mod order;
#[cfg(not(target_os = "linux"))]
mod other;
mod probe;
mod profile;
mod report;
mod seatbelt;

#[cfg(target_os = "linux")]
pub use self::helper::helper;
#[cfg(target_os = "linux")]
pub use self::launch::{Sandbox, end_with_thread, steers_loader};
pub use self::mechanism::{Mechanism, OWN_PROGRAM, PROXY_PORT};
#[cfg(not(target_os = "linux"))]
pub use self::other::{Sandbox, end_with_thread, helper, steers_loader};
pub use self::probe::{Probe, UnusableMechanism, probe};
pub use self::profile::{
    Home, HomeLink, KnownPath, Limits, Profile, RUN_DIRECTORIES, SandboxMode,
    TEMPORARY_DIRECTORIES, Temporary,
};
pub use self::report::Report;
pub use self::seatbelt::seatbelt;
