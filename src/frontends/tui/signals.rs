//! Signals that a terminal sends to the processes in it.

use anyhow::Context as _;
use rustix::process::{
    Signal as Number, getpgid, getpgrp, getppid, getsid, kill_current_process_group,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receivers of the terminal's signals.
pub(super) struct TerminalSignals {
    stop: Signal,
    interrupt: Signal,
    quit: Signal,
    resize: Signal,
}

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminalSignal {
    /// The process must stop (SIGTSTP).
    Stop,
    /// The process must end; the number of the signal.
    End(i32),
    /// The terminal has another size.
    Resized,
}

impl TerminalSignals {
    /// Begins to listen. Signals that came before are not reported.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            stop: listen(SignalKind::from_raw(Number::TSTP.as_raw()))?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            resize: listen(SignalKind::window_change())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> TerminalSignal {
        tokio::select! {
            _ = self.stop.recv() => TerminalSignal::Stop,
            _ = self.interrupt.recv() => TerminalSignal::End(SignalKind::interrupt().as_raw_value()),
            _ = self.quit.recv() => TerminalSignal::End(SignalKind::quit().as_raw_value()),
            _ = self.resize.recv() => TerminalSignal::Resized,
        }
    }
}

/// Returns whether this process's group can be continued after a stop: its parent is in the same session but in another
/// group, as a shell with job control is. Without such a parent, a stopped group would stay stopped.
pub(super) fn can_stop() -> bool {
    let Some(parent) = getppid() else { return false };
    let same_session = getsid(Some(parent)).ok() == getsid(None).ok();
    same_session && getpgid(Some(parent)).is_ok_and(|job| job != getpgrp())
}

/// Stops the whole process group, as the terminal itself would; returns when the group is continued.
pub(super) fn stop() {
    if can_stop() {
        let _ = kill_current_process_group(Number::STOP);
    }
}
