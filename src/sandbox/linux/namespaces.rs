//! Namespaces of a session: the session has its own processes, network, users and shared memory.
//!
//! A helper process, the holder, is the first process of the process namespace. It waits until the agent closes its end
//! of a socket, and then exits; the kernel thereby kills all processes of the namespace. Each command enters these
//! namespaces and gets a mount namespace of its own.

use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{
    DumpableBehavior, Signal, getegid, geteuid, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::mounts::{self, Part};
use super::plan::temporary_directories;
use super::sys::{
    Fork, continue_in_copy, end, fork, ignore_children, leave_terminal, raise_loopback,
};
use super::{Naming as _, privileges, seccomp};
use crate::mechanism::{NOT_SANDBOXED, PROXY_PORT};
use crate::profile::{Limits, Profile, Temporary};

/// Message that comes with the holder's descriptors if all has worked. Any other message is the reason of a failure.
pub(crate) const READY_MESSAGE: &[u8] = b"ready";

/// Maximum number of descriptors that the holder sends.
pub(crate) const MAX_DESCRIPTORS: usize = 7;

/// Namespaces that all commands of a session share, regardless of their profiles.
pub(crate) struct SharedNamespaces {
    pub(crate) user: OwnedFd,
    pub(crate) network: OwnedFd,
}

/// Namespaces that a command enters.
pub(crate) struct EnteredNamespaces {
    pub(crate) shared: SharedNamespaces,
    pub(crate) ipc: OwnedFd,
    pub(crate) processes: OwnedFd,
    pub(crate) temporary: TemporaryFiles,
}

/// The file system in memory that holds a session's temporary files. It is mounted in a mount namespace of its own, as
/// the kernel copies a mount only from within the namespace where it is mounted.
pub(crate) struct TemporaryFiles {
    pub(crate) files: OwnedFd,
    pub(crate) root: OwnedFd,
}

/// Makes namespaces and starts their holder; `shared` are the session's user and network namespaces, if it has them
/// already. Sends [`READY_MESSAGE`] with descriptors of the user, network, shared memory and process namespaces, in
/// this order. If these are the first namespaces of the session, descriptors of a listening socket in the network and
/// of the [`TemporaryFiles`] follow. On failure, sends the reason instead.
pub(crate) fn hold(socket: &OwnedFd, shared: Option<&SharedNamespaces>, limits: Limits) -> ! {
    let code = match set_up(shared).and_then(|listener| start_holder(socket, listener, limits)) {
        Ok(()) => 0,
        Err(error) => {
            // If the agent has ended, the message has no reader.
            let _ = send(socket, error.to_string().as_bytes(), &[]);
            NOT_SANDBOXED
        }
    };
    end(code)
}

/// Makes the namespaces. The new process namespace takes effect with the next child. Returns a socket that listens in
/// the network namespace, if that is new.
fn set_up(shared: Option<&SharedNamespaces>) -> io::Result<Option<TcpListener>> {
    privileges::forgo_new(Limits::default()).naming("no new privileges")?;
    let own = UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if let Some(shared) = shared {
        enter_shared(shared)?;
        unshare(own)?;
        return Ok(None);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(own | UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    // User and group are mapped to themselves, so that new files belong to the user who runs the agent. The kernel
    // demands this order: `setgroups` must be denied before an unprivileged process may write the map of groups.
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(file, text).naming(file)?;
    }
    raise_loopback().naming("loopback interface")?;
    // The socket listens on every address because loopback is the only interface here. Each command can thus be given a
    // loopback address of its own to connect to.
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PROXY_PORT));
    listener.naming("listening socket").map(Some)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    #[allow(unsafe_code, reason = "a process of one thread, which has opened no files by it")]
    // SAFETY: the flag that unshares the table of descriptors is not among these.
    let result = unsafe { rustix::thread::unshare_unsafe(flags) };
    result.naming("namespaces")
}

/// Starts the holder, which is the first process of the process namespace. The holder makes the mounts that commands
/// will make, so that a failure shows now.
fn start_holder(socket: &OwnedFd, listener: Option<TcpListener>, limits: Limits) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    match fork()? {
        Fork::Child => {
            drop((reader, listener));
            // The report is sent only when the holder is guarded, as commands can enter the namespaces from then on.
            // The holder has its own mount namespace with all files in it.
            let tried = mount_own(&Profile::default(), None).and_then(|()| guard_holder());
            let report = tried.as_ref().err().map(ToString::to_string).unwrap_or_default();
            let sent = io::Write::write_all(&mut &writer, report.as_bytes());
            drop(writer);
            if tried.is_err() || sent.is_err() {
                end(NOT_SANDBOXED);
            }
            wait_for_end(socket)
        }
        Fork::Parent(_) => {
            drop(writer);
            let report = io::read_to_string(reader)?;
            if !report.is_empty() {
                return Err(io::Error::other(report));
            }
            let names = ["user", "net", "ipc", "pid_for_children"];
            let paths = names.map(|name| format!("/proc/self/ns/{name}"));
            let opened =
                paths.iter().map(|path| fs::File::open(path).map(OwnedFd::from).naming(path));
            let mut opened = opened.collect::<io::Result<Vec<_>>>()?;
            if let Some(listener) = listener {
                let TemporaryFiles { files, root } = TemporaryFiles::make(limits)?;
                opened.extend([listener.into(), files, root]);
            }
            send(socket, READY_MESSAGE, &opened)
        }
    }
}

impl TemporaryFiles {
    /// Makes the file system in a new mount namespace, which this process enters.
    fn make(limits: Limits) -> io::Result<Self> {
        unshare(UnshareFlags::NEWNS)?;
        let root = mounts::temporary_files(limits)?;
        Ok(Self { files: own_files()?, root })
    }

    /// Returns copies of the file system, to be mounted in this process's own mount namespace: one for each directory
    /// of temporary files.
    fn copies(&self) -> io::Result<Vec<Part>> {
        let (own, directories) = (own_files()?, temporary_directories());
        enter(&self.files, LinkNameSpaceType::Mount)?;
        let copies = directories.into_iter().map(|path| Ok((mounts::tree(&self.root)?, path)));
        let copies = copies.collect::<io::Result<_>>().naming("temporary files");
        enter(&own, LinkNameSpaceType::Mount)?;
        copies
    }
}

/// Opens the mount namespace of this process.
fn own_files() -> io::Result<OwnedFd> {
    let path = "/proc/self/ns/mnt";
    fs::File::open(path).map(OwnedFd::from).naming(path)
}

/// Protects the holder from the commands, whose process namespace it is in: it cannot be traced and has no
/// capabilities.
fn guard_holder() -> io::Result<()> {
    ignore_children();
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    privileges::drop_capabilities()
}

/// Waits until the agent has ended or has closed the socket because it needs the namespaces no more.
fn wait_for_end(socket: &OwnedFd) -> ! {
    if seccomp::apply_waiting().is_ok() {
        let mut byte = [0];
        while rustix::io::read(socket, &mut byte) == Err(rustix::io::Errno::INTR) {}
    }
    end(0)
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn enter_shared(shared: &SharedNamespaces) -> io::Result<()> {
    // The user namespace must be entered first: it gives the right to enter the others.
    enter(&shared.user, LinkNameSpaceType::User)?;
    enter(&shared.network, LinkNameSpaceType::Network)
}

fn enter(namespace: &OwnedFd, kind: LinkNameSpaceType) -> io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(kind)).naming("the session's namespaces")
}

fn mount_own(profile: &Profile, temporary: Option<&TemporaryFiles>) -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    let temporary = temporary.filter(|_| profile.temporary == Some(Temporary::Memory));
    mounts::build(profile, temporary.map(TemporaryFiles::copies).transpose()?.unwrap_or_default())
}

/// Enters the namespaces of a session and gives up what the profile does not allow. Returns in a new process that is to
/// become the command; the calling process waits for it and ends in the same way.
///
/// 1. Enters the namespaces.
/// 2. Forks, as a process namespace takes effect only for children.
/// 3. Builds the mount namespace.
/// 4. Gives up the terminal, the capabilities and most dangerous system calls. The filter comes last: it denies `mount`
///    and `setns`, which the earlier steps use.
pub(crate) fn confine(profile: &Profile, entered: &EnteredNamespaces) -> io::Result<()> {
    privileges::forgo_new(profile.limits).naming("no new privileges")?;
    enter(&entered.shared.user, LinkNameSpaceType::User)?;
    if !profile.network {
        enter(&entered.shared.network, LinkNameSpaceType::Network)?;
    }
    enter(&entered.ipc, LinkNameSpaceType::InterProcessCommunication)?;
    enter(&entered.processes, LinkNameSpaceType::ProcessID)?;
    // The working directory still belongs to the old file tree. The same path may be another directory in the new tree,
    // or may not exist there.
    let directory = std::env::current_dir().naming("working directory")?;
    continue_in_copy().naming("first process of the sandbox")?;
    // The command must end if the process that waits for it is killed: that process is the one that the agent knows.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    mount_own(profile, Some(&entered.temporary))?;
    std::env::set_current_dir(&directory).naming(directory.to_string_lossy())?;
    leave_terminal();
    privileges::drop_capabilities().naming("capabilities")?;
    seccomp::apply(seccomp::SharedSurroundings::Own).naming("filter of system calls")
}
