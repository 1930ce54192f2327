//! The helper: this program, started again by the agent to become a command in the sandbox.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::linux::beneath::drop_replaced;
use crate::linux::bubblewrap::{self, CommandParts};
use crate::linux::namespaces::{self, EnteredNamespaces, SharedNamespaces, TemporaryFiles};
use crate::linux::{landlock, sys};
use crate::mechanism::NOT_SANDBOXED;
use crate::order::{HELPER_ARGUMENT, MechanismSetup, Order, SharedNumbers};
use crate::profile::Profile;
use crate::report;

/// Value of `oom_score_adj` for a command, of 1000. When memory runs short, the kernel treats the command as if it used
/// half of the machine's memory more than it does, and so ends it before other processes.
const SPARED_LAST: &str = "500";

/// Becomes a command in the sandbox if this program was started as the helper; otherwise does nothing. Must be called
/// before anything else, in a process of one thread.
pub fn helper() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != HELPER_ARGUMENT) {
        return;
    }
    let mut report = None;
    let error = match run(arguments, &mut report) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    if let Some(report) = report {
        // If the report cannot be written, only the reason is lost: the exit code still tells the agent of the failure.
        let _ = report::fail(&report, &error);
    }
    #[allow(clippy::print_stderr, reason = "the command's own, whose place this takes")]
    {
        eprintln!("tandem: the command was not run, as the sandbox failed: {error}");
    }
    sys::end(NOT_SANDBOXED)
}

/// Result of a function that does not return if it succeeds.
enum Never {}

/// Carries out the order in the inherited descriptor. `report` is set to the file for failures as soon as that is open.
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
            let shared = shared.map(take_descriptors).transpose()?;
            namespaces::hold(&sys::inherited(socket)?, shared.as_ref(), limits)
        }
        Order::Run { mut profile, means, variables } => {
            prefer_when_memory_is_short();
            // Other commands of the session could otherwise trace this process, and take its open descriptors, before
            // it is confined.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            drop_replaced(&mut profile)?;
            become_command(&profile, means, &words, variables, own)
        }
        Order::Check { expected, variables, report: whole, errors } => {
            // This second helper reports into the file of the first helper, which is the file that the agent reads.
            let whole = &*report.insert(File::from(sys::inherited(whole)?));
            bubblewrap::check(&expected)?;
            report::add_started(whole)?;
            // Standard error was a file for the messages of `bwrap`, as `bwrap` may be started again. The command gets
            // the real standard error.
            rustix::stdio::dup2_stderr(sys::inherited(errors)?)?;
            become_program(&words, &variables)
        }
    }
}

/// Makes the kernel end this process and its children before the agent when memory runs short. Must be called while
/// `/proc` still shows this process's own files.
fn prefer_when_memory_is_short() {
    // The write fails only if the present value is higher, and then the process is ended first already.
    let _ = std::fs::write("/proc/self/oom_score_adj", SPARED_LAST);
}

/// Confines this process and becomes the command. `variables`: environment variables of the command that must not be
/// set when this program starts.
fn become_command(
    profile: &Profile,
    means: MechanismSetup,
    words: &[OsString],
    variables: Vec<(OsString, OsString)>,
    report: &File,
) -> io::Result<Never> {
    match means {
        MechanismSetup::Bubblewrap { program } => {
            let messages = bubblewrap::confine(profile, report)?;
            sys::close_others_at_exec()?;
            let parts = CommandParts { words, variables, report, messages: &messages };
            let (command, _open) = bubblewrap::command(&program, profile, parts)?;
            return replace_by(command);
        }
        MechanismSetup::Namespaces { shared, ipc, processes, files, temporary } => {
            let (ipc, processes) = (sys::inherited(ipc)?, sys::inherited(processes)?);
            let (files, temporary) = (sys::inherited(files)?, sys::inherited(temporary)?);
            let temporary = TemporaryFiles { files, root: temporary };
            let entered =
                EnteredNamespaces { shared: take_descriptors(shared)?, ipc, processes, temporary };
            namespaces::confine(profile, &entered)?;
        }
        MechanismSetup::Landlock => landlock::confine(profile)?,
    }
    become_program(words, &variables)
}

/// Becomes the command, in a sandbox that is complete.
fn become_program(words: &[OsString], variables: &[(OsString, OsString)]) -> io::Result<Never> {
    let (first, others) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    sys::close_others_at_exec()?;
    let mut command = Command::new(first);
    command.args(others).envs(variables.iter().map(|(name, value)| (name, value)));
    replace_by(command)
}

/// Replaces this process by a command. Returns only on failure.
fn replace_by(mut command: Command) -> io::Result<Never> {
    let error = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    Err(io::Error::new(error.kind(), format!("{program}: {error}")))
}

fn take_descriptors(numbers: SharedNumbers) -> io::Result<SharedNamespaces> {
    let (user, network) = (sys::inherited(numbers.user)?, sys::inherited(numbers.network)?);
    Ok(SharedNamespaces { user, network })
}
