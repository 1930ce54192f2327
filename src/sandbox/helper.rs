//! The program started again, to become a command in the sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde::{Deserialize, Serialize};

use crate::linux::namespaces::{self, Entered, Shared};
use crate::linux::{bubblewrap, hide_sockets, landlock, sys};
use crate::mechanism::NOT_SANDBOXED;
use crate::profile::Profile;

/// First argument of the helper. No user types it: it begins with a character that no sub-command
/// has.
pub(crate) const HELPER: &str = "+sandbox";

/// Advantage of the machine's other processes over a command when memory runs short: half of the memory.
const SPARED_LAST: &str = "500";

/// What the helper is to do. Numbers are those of inherited descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Hold namespaces until the socket is closed.
    Hold { socket: RawFd, shared: Option<SharedNumbers> },
    /// Become the command.
    Run { profile: Box<Profile>, means: Means, variables: Vec<(OsString, OsString)> },
}

/// The means by which a command is confined.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Means {
    Namespaces { shared: SharedNumbers, ipc: RawFd, processes: RawFd },
    Bubblewrap { program: PathBuf },
    Landlock,
}

/// Descriptors of the namespaces that all commands of a session share.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SharedNumbers {
    pub(crate) user: RawFd,
    pub(crate) network: RawFd,
}

/// Becomes a command in the sandbox, if that is what this program was started for: to be called
/// before anything else, in a process of one thread. Otherwise nothing happens.
pub fn helper() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != HELPER) {
        return;
    }
    let error = match run(arguments) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    #[allow(clippy::print_stderr, reason = "the command's own, whose place this takes")]
    {
        eprintln!("tandem: the command was not run, as the sandbox failed: {error}");
    }
    sys::end(NOT_SANDBOXED)
}

/// Nothing comes back.
enum Never {}

fn run(mut arguments: impl Iterator<Item = OsString>) -> io::Result<Never> {
    let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let order = sys::inherited(number.ok_or(io::ErrorKind::InvalidInput)?)?;
    let mut text = Vec::new();
    File::from(order).read_to_end(&mut text)?;
    let order: Order = serde_json::from_slice(&text)?;
    let words: Vec<OsString> = arguments.collect();
    match order {
        Order::Hold { socket, shared } => {
            let shared = shared.map(take).transpose()?;
            namespaces::hold(&sys::inherited(socket)?, shared.as_ref())
        }
        Order::Run { mut profile, means, variables } => {
            prefer_when_memory_is_short();
            // Other commands see this process before it has become one, with what it has open.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            if !matches!(means, Means::Landlock) {
                hide_sockets(&mut profile);
            }
            become_command(&profile, means, &words, &variables)
        }
    }
}

/// Has the system end this process, and what it starts, rather than the agent when memory runs short.
/// To be called while the process's files in `/proc` are its own.
fn prefer_when_memory_is_short() {
    // What cannot be written is preferred even more already.
    let _ = std::fs::write("/proc/self/oom_score_adj", SPARED_LAST);
}

/// `variables`: those of the command that this program must not be started with itself.
fn become_command(
    profile: &Profile,
    means: Means,
    words: &[OsString],
    variables: &[(OsString, OsString)],
) -> io::Result<Never> {
    let (first, others) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (mut command, _open): (_, Vec<OwnedFd>) = match means {
        Means::Bubblewrap { program } => {
            bubblewrap::confine(profile)?;
            sys::close_others_at_exec()?;
            bubblewrap::command(&program, profile, words, variables)?
        }
        means => {
            match means {
                Means::Namespaces { shared, ipc, processes } => {
                    let (ipc, processes) = (sys::inherited(ipc)?, sys::inherited(processes)?);
                    let entered = Entered { shared: take(shared)?, ipc, processes };
                    namespaces::confine(profile, &entered)?;
                }
                _ => landlock::confine(profile)?,
            }
            sys::close_others_at_exec()?;
            let mut command = Command::new(first);
            command.args(others).envs(variables.iter().map(|(name, value)| (name, value)));
            (command, Vec::new())
        }
    };
    // Returns only if it fails.
    let error = command.exec();
    Err(io::Error::new(error.kind(), format!("{}: {error}", first.to_string_lossy())))
}

fn take(numbers: SharedNumbers) -> io::Result<Shared> {
    let (user, network) = (sys::inherited(numbers.user)?, sys::inherited(numbers.network)?);
    Ok(Shared { user, network })
}
