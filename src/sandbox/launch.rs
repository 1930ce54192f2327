//! The agent's side of the sandbox: it finds out which mechanism works on this machine, and makes the commands to
//! start.
#![allow(unsafe_code, reason = "a descriptor is left open for one child alone")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, IoSliceMut, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::linux::namespaces::{MAX_DESCRIPTORS, READY_MESSAGE};
use crate::linux::{Naming as _, bubblewrap, landlock};
use crate::mechanism::Mechanism;
use crate::order::{HELPER_ARGUMENT, MechanismSetup, Order, SharedNumbers};
use crate::profile::{Limits, Profile};
use crate::report::Report;

/// Maximum time in which a holder must report that it is ready.
const HOLDER_READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The sandbox of one session. When it is dropped, all processes in its namespaces end.
pub struct Sandbox {
    kind: Kind,
    /// Path of the program that is started as the helper.
    helper: PathBuf,
}

enum Kind {
    /// Namespaces of the session. The lock is also held while a holder starts, so that commands of one kind share one.
    Namespaces(Box<Mutex<Namespaces>>),
    Bubblewrap(PathBuf),
    Landlock,
}

/// The namespaces of one session.
struct Namespaces {
    user: OwnedFd,
    network: OwnedFd,
    /// Socket in the network namespace that listens on [`PROXY_PORT`](crate::PROXY_PORT).
    listener: TcpListener,
    /// The mount namespace in which the file system of temporary files is mounted, and the root directory of that file
    /// system.
    files: OwnedFd,
    temporary: OwnedFd,
    read_only: Option<NamespaceHolder>,
    workspace_write: Option<NamespaceHolder>,
    apart: Option<NamespaceHolder>,
}

/// Process and shared memory namespaces for the commands of one kind: commands that may not write the roots cannot
/// reach processes that may.
struct NamespaceHolder {
    ipc: OwnedFd,
    processes: OwnedFd,
    /// Socket to the holder. When it is closed, the holder ends, and with it all processes of the namespaces.
    socket: OwnedFd,
}

impl Sandbox {
    /// Makes a sandbox with a mechanism; the error says why it does not work here. `helper`: see
    /// [`probe`](crate::probe).
    pub fn with_mechanism(
        mechanism: Mechanism,
        helper: &Path,
        limits: Limits,
    ) -> Result<Self, String> {
        let kind = match mechanism {
            Mechanism::Namespaces => {
                let first = start(helper, None, limits).map_err(|error| error.to_string())?;
                let namespaces = Namespaces::new(first).map_err(|error| error.to_string())?;
                Kind::Namespaces(Box::new(Mutex::new(namespaces)))
            }
            Mechanism::Bubblewrap => Kind::Bubblewrap(bubblewrap::program()?),
            Mechanism::Landlock => landlock::unavailable().map_or(Ok(Kind::Landlock), Err)?,
            Mechanism::Seatbelt => return Err("this is not macOS".to_owned()),
        };
        Ok(Self { kind, helper: helper.to_owned() })
    }

    /// Returns the mechanism.
    pub fn mechanism(&self) -> Mechanism {
        match &self.kind {
            Kind::Namespaces(_) => Mechanism::Namespaces,
            Kind::Bubblewrap(_) => Mechanism::Bubblewrap,
            Kind::Landlock => Mechanism::Landlock,
        }
    }

    /// Returns a socket to which only the commands of the session can connect. It listens on
    /// [`PROXY_PORT`](crate::PROXY_PORT) of every loopback address in their network namespace. `None` if the mechanism
    /// has no network namespace that all commands share.
    pub fn listener(&self) -> Option<io::Result<TcpListener>> {
        match &self.kind {
            Kind::Namespaces(namespaces) => Some(namespaces.lock().listener.try_clone()),
            Kind::Bubblewrap(_) | Kind::Landlock => None,
        }
    }

    /// Returns the root directory of the session's temporary files, if they are in a file system in memory. That file
    /// system ends with the sandbox.
    pub fn temporary(&self) -> Option<io::Result<OwnedFd>> {
        match &self.kind {
            Kind::Namespaces(namespaces) => Some(namespaces.lock().temporary.try_clone()),
            Kind::Bubblewrap(_) | Kind::Landlock => None,
        }
    }

    /// Returns `true` if processes of the session that can write the roots are still running; `None` if the
    /// mechanism cannot tell. Reads `/proc`.
    pub fn has_writers(&self) -> Option<bool> {
        match &self.kind {
            Kind::Namespaces(namespaces) => {
                let namespaces = namespaces.lock();
                let mut holders =
                    [&namespaces.workspace_write, &namespaces.apart].into_iter().flatten();
                Some(holders.any(NamespaceHolder::has_others))
            }
            // All processes that a command has started end with the command.
            Kind::Bubblewrap(_) => Some(false),
            Kind::Landlock => None,
        }
    }

    /// Returns a command that runs a program with these arguments in the sandbox, and the report on it. The caller sets
    /// working directory, environment and standard streams, and must start the command only once. Blocks for some
    /// milliseconds if the command is the first of its kind.
    pub fn command(
        &self,
        profile: &Profile,
        program: &OsStr,
        arguments: &[OsString],
    ) -> io::Result<(Command, Report)> {
        if profile.roots.iter().any(|root| root.path() == Path::new("/")) {
            return Err(io::Error::other("all files of the machine are the workspace"));
        }
        let mut open = Vec::new();
        let means = match &self.kind {
            Kind::Namespaces(namespaces) => {
                namespaces.lock().mechanism_setup(&self.helper, profile, &mut open)?
            }
            Kind::Bubblewrap(program) => MechanismSetup::Bubblewrap { program: program.clone() },
            Kind::Landlock => MechanismSetup::Landlock,
        };
        let variables: Vec<_> = env::vars_os().filter(|(name, _)| steers_loader(name)).collect();
        let order =
            Order::Run { profile: Box::new(profile.clone()), means, variables: variables.clone() };
        let (mut command, report) = helper_command(&self.helper, &order, open)?;
        for (name, _) in variables {
            command.env_remove(name);
        }
        command.arg(program).args(arguments);
        Ok((command, Report::new(report)))
    }
}

/// Makes the kernel end a command by SIGKILL when the thread that starts the command ends. To be started by the main
/// thread, which ends with the program: a thread of a runtime may end earlier. With Landlock only the command itself ends,
/// because the kernel knows no group of the processes that the command has started.
pub fn end_with_thread(command: &mut Command) {
    let set = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// Returns whether an environment variable can make a program load other code. Such variables are withheld from the
/// helper, which is not confined when it starts: the directories that they name may be in the workspace.
pub fn steers_loader(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"LD_") || name == "GCONV_PATH" || name == "GLIBC_TUNABLES"
}

impl Namespaces {
    fn new(StartedHolder { holder, user, network, first }: StartedHolder) -> io::Result<Self> {
        let missing = || io::Error::other("the helper has sent too little");
        let SharedDescriptors { listener, files, temporary } = first.ok_or_else(missing)?;
        let (listener, read_only) = (TcpListener::from(listener), Some(holder));
        let (workspace_write, apart) = (None, None);
        Ok(Self { user, network, listener, files, temporary, read_only, workspace_write, apart })
    }

    /// Returns the means for a command, and appends the descriptors that it needs to `open`.
    fn mechanism_setup(
        &mut self,
        helper: &Path,
        profile: &Profile,
        open: &mut Vec<OwnedFd>,
    ) -> io::Result<MechanismSetup> {
        let holder = match profile {
            Profile { apart: true, .. } => &mut self.apart,
            Profile { writes_roots: true, .. } => &mut self.workspace_write,
            _ => &mut self.read_only,
        };
        // A holder that has been killed is replaced: its namespaces cannot be entered any more.
        if holder.as_ref().is_none_or(NamespaceHolder::has_ended) {
            let shared = Some((&self.user, &self.network));
            *holder = Some(start(helper, shared, profile.limits)?.holder);
        }
        let Some(holder) = holder else { return Err(io::ErrorKind::NotFound.into()) };
        let mut number = |descriptor: &OwnedFd| -> io::Result<RawFd> {
            open.push(descriptor.try_clone()?);
            Ok(open.last().map_or(-1, OwnedFd::as_raw_fd))
        };
        Ok(MechanismSetup::Namespaces {
            shared: SharedNumbers { user: number(&self.user)?, network: number(&self.network)? },
            ipc: number(&holder.ipc)?,
            processes: number(&holder.processes)?,
            files: number(&self.files)?,
            temporary: number(&self.temporary)?,
        })
    }
}

impl NamespaceHolder {
    fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        // The holder sends nothing after its first message, so the socket is readable only when the holder has ended.
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl NamespaceHolder {
    /// Returns `true` if the process namespace has processes other than the holder, which is its first process, or
    /// if that is unknown.
    fn has_others(&self) -> bool {
        let Ok(own) = fstat(&self.processes) else { return true };
        let is_other = |process: &Path| {
            let namespace = fs::metadata(process.join("ns/pid"));
            namespace.is_ok_and(|it| (it.dev(), it.ino()) == (own.st_dev, own.st_ino))
                && !is_first(process)
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|process| is_other(&process))
    }
}

/// Returns whether a process has the number 1 in its process namespace, as a holder has.
fn is_first(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().last() == Some("1"))
}

/// A holder that has reported that it is ready, with the namespaces that it has made.
struct StartedHolder {
    holder: NamespaceHolder,
    user: OwnedFd,
    network: OwnedFd,
    /// Descriptors that only the first holder of the session sends.
    first: Option<SharedDescriptors>,
}

/// Descriptors that the first holder of a session makes for all commands.
struct SharedDescriptors {
    listener: OwnedFd,
    files: OwnedFd,
    temporary: OwnedFd,
}

/// Starts a holder. `shared`: the user and network namespaces of an earlier holder, to be used instead of new
/// namespaces.
fn start(
    helper: &Path,
    shared: Option<(&OwnedFd, &OwnedFd)>,
    limits: Limits,
) -> io::Result<StartedHolder> {
    let (socket, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(HOLDER_READY_TIMEOUT))?;
    let mut open = Vec::new();
    let mut number = |descriptor: OwnedFd| {
        let number = descriptor.as_raw_fd();
        open.push(descriptor);
        number
    };
    let shared = match shared {
        Some((user, network)) => Some(SharedNumbers {
            user: number(user.try_clone()?),
            network: number(network.try_clone()?),
        }),
        None => None,
    };
    let order = Order::Hold { socket: number(theirs), shared, limits };
    let (mut command, _) = helper_command(helper, &order, open)?;
    command.env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().naming("the helper of the sandbox")?;
    // The command holds the holder's end of the socket open. It is dropped so that the end of the holder can be
    // noticed.
    drop(command);
    let received = receive(&socket);
    // The holder is a child of this process, which has nothing more to do and exits.
    child.wait()?;
    let mut received = received?.into_iter();
    let mut next = || received.next().ok_or(io::ErrorKind::UnexpectedEof);
    let (user, network, ipc, processes) = (next()?, next()?, next()?, next()?);
    let first = match (received.next(), received.next(), received.next()) {
        (Some(listener), Some(files), Some(temporary)) => {
            Some(SharedDescriptors { listener, files, temporary })
        }
        _ => None,
    };
    Ok(StartedHolder { holder: NamespaceHolder { ipc, processes, socket }, user, network, first })
}

/// Receives the descriptors of a holder that is ready; the error is the reason that the holder has sent.
fn receive(socket: &OwnedFd) -> io::Result<Vec<OwnedFd>> {
    let mut text = [0; 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    // The call is repeated after a signal, such as that of a child's end: the kernel does not restart it by itself on a
    // socket with a timeout.
    let message = retry_on_intr(|| {
        let text = &mut [IoSliceMut::new(&mut text)];
        recvmsg(socket, text, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let text = &text[..message.bytes];
    if text != READY_MESSAGE {
        let why = String::from_utf8_lossy(text).into_owned();
        return Err(io::Error::other(if why.is_empty() {
            "the helper ended".to_owned()
        } else {
            why
        }));
    }
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().collect())
}

/// Returns the command that starts the helper with an order, and the file of the order, which becomes the report. The
/// command holds the descriptors of `open`, and its child inherits them.
fn helper_command(
    helper: &Path,
    order: &Order,
    mut open: Vec<OwnedFd>,
) -> io::Result<(Command, File)> {
    let mut file = File::from(memfd_create("order", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(order)?)?;
    file.rewind()?;
    let mut command = Command::new(helper);
    command.arg0("tandem").arg(HELPER_ARGUMENT).arg(file.as_raw_fd().to_string());
    let report = file.try_clone()?;
    open.push(OwnedFd::from(file));
    // SAFETY: the closure runs in the child of a fork; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            for descriptor in &open {
                fcntl_setfd(descriptor, FdFlags::empty())?;
            }
            Ok(())
        });
    }
    Ok((command, report))
}
