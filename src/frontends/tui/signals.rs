//! The signals that a terminal sends to the programs in it.

use anyhow::Context as _;
use rustix::process::{
    Signal as Number, getpgid, getpgrp, getppid, getsid, kill_current_process_group,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that are listened for.
pub(super) struct TerminalSignals {
    stop: Signal,
    interrupt: Signal,
    quit: Signal,
    resize: Signal,
}

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// The job is to stop.
    Stop,
    /// The program is to end; the signal's number.
    End(i32),
    /// The terminal has another size.
    Resized,
}

impl TerminalSignals {
    /// Listens. What has come before is forgotten.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            stop: listen(SignalKind::from_raw(Number::TSTP.as_raw()))?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            resize: listen(SignalKind::window_change())?,
        })
    }

    /// The first that comes.
    pub(super) async fn next(&mut self) -> Came {
        tokio::select! {
            _ = self.stop.recv() => Came::Stop,
            _ = self.interrupt.recv() => Came::End(SignalKind::interrupt().as_raw_value()),
            _ = self.quit.recv() => Came::End(SignalKind::quit().as_raw_value()),
            _ = self.resize.recv() => Came::Resized,
        }
    }
}

/// Returns whether somebody could let the job go on if it stopped: a shell, in a job of its own.
pub(super) fn can_stop() -> bool {
    let Some(parent) = getppid() else { return false };
    let same_session = getsid(Some(parent)).ok() == getsid(None).ok();
    same_session && getpgid(Some(parent)).is_ok_and(|job| job != getpgrp())
}

/// Stops the whole job, as the terminal itself would; returns when it goes on.
pub(super) fn stop() {
    if can_stop() {
        let _ = kill_current_process_group(Number::STOP);
    }
}
