//! A command in a process group of its own: what it sends to its group does not reach this program, and
//! signals that are meant for it are passed on.

use std::future::poll_fn;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::task::Poll;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals that a terminal or another program sends, and that are for the command.
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

/// Runs a command to its end.
///
/// It needs no terminal to be handed over: in the sandbox it has no controlling terminal, and so reads from
/// one without being in the foreground.
pub(super) async fn run(mut command: Command) -> anyhow::Result<ExitStatus> {
    // Before the start: afterwards a signal could end this program and leave the command.
    let mut signals = Signals::listen()?;
    command.process_group(0);
    let mut child = tokio::process::Command::from(command)
        .spawn()
        .context("the command could not be started")?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status.context("the command's end is not known"),
            signal = signals.next() => pass_on(group, signal),
        }
    }
}

/// Sends a signal to the command; stops this program if the command is to be stopped.
fn pass_on(group: Option<Pid>, signal: Signal) {
    // It fails if the command has ended, which is noticed next.
    let _ = group.map(|group| kill_process_group(group, signal));
    if signal == Signal::TSTP {
        // The shell that has started both waits for that.
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

/// Signals that arrive.
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
