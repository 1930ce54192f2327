//! Execution of a command in a process group of its own. A signal that the command sends to its group does not reach
//! this program. This program passes on the signals that are meant for the command.

use std::future::poll_fn;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::task::Poll;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals from a terminal or another program that are passed on to the command.
const PASSED_ON: [Signal; 9] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// Signals of [`PASSED_ON`] that end a command, unless the command handles them.
const ENDING_SIGNALS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Runs a command, and waits for its end. After a signal that ends commands, no process of the command's group is left.
///
/// The command is not made the foreground group of the terminal. In the sandbox it has no controlling terminal, and
/// so it can read from the terminal without being in the foreground.
pub(super) async fn run(mut command: Command) -> anyhow::Result<ExitStatus> {
    // Listens before the command starts. Otherwise a signal right after the start could end this program, and the
    // command would go on running.
    let mut signals = Signals::listen()?;
    command.process_group(0);
    let mut child = tokio::process::Command::from(command)
        .spawn()
        .context("the command could not be started")?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let mut is_ending = false;
    let status = loop {
        tokio::select! {
            // The command's end comes first, so that no signal is sent to the group of a command that has ended.
            biased;
            status = child.wait() => break status,
            signal = signals.next() => {
                is_ending |= ENDING_SIGNALS.contains(&signal);
                pass_on(group, signal);
            }
        }
    };
    if is_ending && let Some(group) = group {
        // The first process of a sandbox that is still being made ignores the signal, because it is process 1 of a
        // new namespace. It would wait for ever for the process that made it, which has ended. An error says that no
        // process is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    status.context("the command's end is not known")
}

/// Sends a signal to the command's group. If the signal is a stop from the terminal, stops this program, too.
fn pass_on(group: Option<Pid>, signal: Signal) {
    // Sending fails if the command has ended. The loop in `run` notices the end next.
    let _ = group.map(|group| kill_process_group(group, signal));
    if signal == Signal::TSTP {
        // The shell that started this program waits until this program stops.
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

/// Listeners for the signals in [`PASSED_ON`].
struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind: Signal| {
            let arriving = signal(SignalKind::from_raw(kind.as_raw()));
            Ok((kind, arriving.context("cannot listen for signals")?))
        };
        PASSED_ON.into_iter().map(listen).collect::<anyhow::Result<_>>().map(Self)
    }

    async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (kind, arriving) in &mut self.0 {
                if arriving.poll_recv(cx).is_ready() {
                    return Poll::Ready(*kind);
                }
            }
            Poll::Pending
        })
        .await
    }
}
