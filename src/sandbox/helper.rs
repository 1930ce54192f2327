//! The program started again, to become a command in the sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::linux::beneath::drop_replaced;
use crate::linux::bubblewrap::{self, CommandParts};
use crate::linux::namespaces::{self, Entered, Shared, TemporaryFiles};
use crate::linux::{landlock, sys};
use crate::mechanism::NOT_SANDBOXED;
use crate::order::{HELPER, Means, Order, SharedNumbers};
use crate::profile::Profile;
use crate::report;

/// Advantage of the machine's other processes over a command when memory runs short: half of the memory.
const SPARED_LAST: &str = "500";

/// Becomes a command in the sandbox, if that is what this program was started for: to be called
/// before anything else, in a process of one thread. Otherwise nothing happens.
pub fn helper() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != HELPER) {
        return;
    }
    let mut report = None;
    let error = match run(arguments, &mut report) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    if let Some(report) = report {
        // A report that cannot be written loses only the reason: the exit code tells the agent of the failure.
        let _ = report::fail(&report, &error);
    }
    #[allow(clippy::print_stderr, reason = "the command's own, whose place this takes")]
    {
        eprintln!("tandem: the command was not run, as the sandbox failed: {error}");
    }
    sys::end(NOT_SANDBOXED)
}

/// Nothing comes back.
enum Never {}

/// `report`: the file that failures are written into, once there is one.
fn run(
    mut arguments: impl Iterator<Item = OsString>,
    report: &mut Option<File>,
) -> io::Result<Never> {
    let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let mut file = File::from(sys::inherited(number.ok_or(io::ErrorKind::InvalidInput)?)?);
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    report::begin(&file)?;
    let own = &*report.insert(file);
    let order: Order = serde_json::from_slice(&text)?;
    let words: Vec<OsString> = arguments.collect();
    match order {
        Order::Hold { socket, shared, limits } => {
            let shared = shared.map(take).transpose()?;
            namespaces::hold(&sys::inherited(socket)?, shared.as_ref(), limits)
        }
        Order::Run { mut profile, means, variables } => {
            prefer_when_memory_is_short();
            // Other commands see this process before it has become one, with what it has open.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            drop_replaced(&mut profile)?;
            become_command(&profile, means, &words, variables, own)
        }
        Order::Check { expected, variables, report: whole, errors } => {
            // This second helper reports into the file of the first, which is the one that the agent reads.
            let whole = &*report.insert(File::from(sys::inherited(whole)?));
            bubblewrap::check(&expected)?;
            report::add_started(whole)?;
            // Standard error was a file for bubblewrap's messages, as bubblewrap may be started again. The command gets
            // the real one.
            rustix::stdio::dup2_stderr(sys::inherited(errors)?)?;
            become_program(&words, &variables)
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
    variables: Vec<(OsString, OsString)>,
    report: &File,
) -> io::Result<Never> {
    match means {
        Means::Bubblewrap { program } => {
            let messages = bubblewrap::confine(profile, report)?;
            sys::close_others_at_exec()?;
            let parts = CommandParts { words, variables, report, messages: &messages };
            let (command, _open) = bubblewrap::command(&program, profile, parts)?;
            return replace_by(command);
        }
        Means::Namespaces { shared, ipc, processes, files, temporary } => {
            let (ipc, processes) = (sys::inherited(ipc)?, sys::inherited(processes)?);
            let (files, temporary) = (sys::inherited(files)?, sys::inherited(temporary)?);
            let temporary = TemporaryFiles { files, root: temporary };
            let entered = Entered { shared: take(shared)?, ipc, processes, temporary };
            namespaces::confine(profile, &entered)?;
        }
        Means::Landlock => landlock::confine(profile)?,
    }
    become_program(words, &variables)
}

/// Becomes the command in a sandbox that is whole.
fn become_program(words: &[OsString], variables: &[(OsString, OsString)]) -> io::Result<Never> {
    let (first, others) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    sys::close_others_at_exec()?;
    let mut command = Command::new(first);
    command.args(others).envs(variables.iter().map(|(name, value)| (name, value)));
    replace_by(command)
}

/// Returns only if it fails.
fn replace_by(mut command: Command) -> io::Result<Never> {
    let error = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    Err(io::Error::new(error.kind(), format!("{program}: {error}")))
}

fn take(numbers: SharedNumbers) -> io::Result<Shared> {
    let (user, network) = (sys::inherited(numbers.user)?, sys::inherited(numbers.network)?);
    Ok(Shared { user, network })
}
