//! System calls for which no dependency has a safe function.
#![allow(unsafe_code, reason = "each function says why its call is sound")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::process::exit;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use crate::mechanism::NOT_SANDBOXED;
use crate::profile::Limits;

/// Size of a page of memory, in bytes.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Result of [`fork`].
pub(crate) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks this process, which must have one thread.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the helper has one thread, so no other thread holds a lock in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent)),
    }
}

/// Signals that end a process by default and that other processes send.
const ENDING_SIGNALS: [c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// Forks this process, which must have one thread, and returns in the copy. The original process waits for the copy and
/// ends in the same way.
pub(crate) fn continue_in_copy() -> io::Result<()> {
    continue_in_copies(|| false)
}

/// Does the same as `continue_in_copy`, but forks once more if the copy has exited by itself and `is_tried_again`
/// returns `true`.
pub(crate) fn continue_in_copies(mut is_tried_again: impl FnMut() -> bool) -> io::Result<()> {
    loop {
        // Signals are blocked until this process ignores them: a signal that came earlier would end this process and
        // not the copy.
        hold_signals(true);
        let forked = fork();
        let Ok(Fork::Parent(child)) = forked else {
            hold_signals(false);
            return forked.map(|_| ());
        };
        let status = wait_for(child);
        if status.exited() && is_tried_again() {
            continue;
        }
        end_like(status);
    }
}

/// Blocks the signals that end a process, or unblocks them.
fn hold_signals(hold: bool) {
    let how = if hold { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is filled before it is used, and each pointer lives during its call.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in ENDING_SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Waits for a child. Meanwhile this process ignores the signals that end a process: the child is in the same process
/// group, gets them too, and decides. Signals that were blocked are let through.
fn wait_for(child: Pid) -> WaitStatus {
    let before = ENDING_SIGNALS.map(|signal| (signal, set_signal(signal, libc::SIG_IGN)));
    hold_signals(false);
    let status = loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => end(NOT_SANDBOXED),
        }
    };
    for (signal, action) in before {
        set_signal(signal, action);
    }
    status
}

/// Ends this process in the way its child has ended: by the same signal or with the same exit code.
fn end_like(status: WaitStatus) -> ! {
    if let Some(signal) = status.terminating_signal() {
        set_signal(signal, libc::SIG_DFL);
        // SAFETY: the call takes a number, and ends this process or does nothing.
        unsafe { libc::raise(signal) };
        end(128 + signal);
    }
    end(status.exit_status().unwrap_or(NOT_SANDBOXED))
}

/// Sets the action of a signal. Returns the previous action.
fn set_signal(signal: c_int, action: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the action is `SIG_IGN` or `SIG_DFL`, which are no functions.
    unsafe { libc::signal(signal, action) }
}

/// Lets the kernel reap the children of this process, and the orphans that the first process of a namespace inherits.
pub(crate) fn ignore_children() {
    set_signal(libc::SIGCHLD, libc::SIG_IGN);
}

/// Exits with a code.
#[allow(clippy::exit, reason = "a helper has nothing to give back")]
pub(crate) fn end(code: i32) -> ! {
    exit(code)
}

/// Takes ownership of a descriptor that the agent has left open for this process.
pub(crate) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call only looks whether the descriptor is open.
    if fd < 3 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the descriptor is open, and no other part of this program knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Marks all descriptors except the three standard descriptors as closed on `exec`.
pub(crate) fn close_others_at_exec() -> io::Result<()> {
    // SAFETY: the call changes flags of descriptors only.
    checked(unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    })
}

/// Forbids device files and set-user-id programs on a mount and on all mounts below it, and writes too if `read_only`.
pub(crate) fn restrict(mount: impl AsFd, read_only: bool) -> io::Result<()> {
    let read_only = if read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
    set_attributes(
        mount,
        libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID | read_only,
        libc::AT_RECURSIVE,
    )
}

/// Makes a mount read-only, but not the mounts below it.
pub(crate) fn make_read_only(mount: impl AsFd) -> io::Result<()> {
    set_attributes(mount, libc::MOUNT_ATTR_RDONLY, 0)
}

fn set_attributes(mount: impl AsFd, attr_set: u64, flags: c_int) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: both pointers live during the call, and the size is that of the structure.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}

/// Brings the loopback interface up.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zero is a value of every field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed() as libc::c_char;
    request.ifr_name[1] = b'o'.cast_signed() as libc::c_char;
    #[allow(clippy::cast_possible_truncation, reason = "two low bits")]
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: the structure lives during the call and is the one that this request takes.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    checked(result.into())
}

/// Gives up the controlling terminal, which is the agent's. The process cannot get it back: only the leader of a
/// session acquires a terminal, and only one that no session has.
pub(crate) fn leave_terminal() {
    if let Ok(terminal) = std::fs::File::open("/dev/tty") {
        // SAFETY: the request takes no argument. It fails only for a file that is not the controlling terminal.
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) };
    }
}

/// Sets the soft and the hard limit of a resource to `value`, or to the present hard limit if that is lower.
pub(crate) fn limit(resource: rustix::process::Resource, value: u64) -> io::Result<()> {
    use rustix::process::{Rlimit, getrlimit, setrlimit};
    let value = getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    Ok(setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })?)
}

/// Returns the size of a file system in memory that commands can fill, in bytes: the limit, or half of the machine's
/// memory if that is less.
pub(crate) fn bounded_memory_bytes(limits: Limits) -> u64 {
    // SAFETY: the call takes and returns numbers.
    let pages = u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or_default();
    let half = pages.saturating_mul(PAGE_BYTES) / 2;
    // At least a page: a size of 0 means "no limit" to tmpfs.
    limits.temporary_bytes.unwrap_or(u64::MAX).min(half).max(PAGE_BYTES)
}

/// Returns the version of Landlock in this kernel; 0 if it has none.
pub(crate) fn landlock_version() -> i64 {
    const VERSION_FLAG: u32 = 1;
    // SAFETY: with this flag the call takes no structure.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION_FLAG)
    };
    version.max(0)
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
