//! Ways in which a run ends: signals, input that ends, nobody who reads.

use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use tandem_agent::sessions::Sessions;
use tandem_wire::stdio;

/// Maximum time for the last answers when the end has come: a cancelled call may take a second.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(2);

/// Exit code of a run that cannot be done as asked for.
pub(crate) const BAD_INPUT: i32 = 42;

/// Time between two checks whether anybody reads, where nothing tells.
const LOOK: Duration = Duration::from_millis(100);

/// Has a write beyond the limit of a file's size fail like one to a full disk, instead of ending the
/// process. Programs that are started from here are ended by it as ever: a handler isn't inherited.
/// Needs the runtime.
pub(crate) fn outlive_size_limit() {
    // That it is handled is all: nobody waits for it. If it cannot be, only such a limit does harm.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The editor hung up, and all that it asked for is answered.
    Done,
    /// The editor hung up, and what it asked for took too long.
    TimedOut,
    /// Nobody reads the answers.
    Unread,
    /// A signal; its number.
    Signal(i32),
    /// The prompt of a run without a person came to nothing; the exit code.
    Failed(i32),
}

/// Waits until all of the sessions, which are closed, is stored; for some time.
pub(super) async fn saved(sessions: &Sessions) {
    if tokio::time::timeout(LAST_WORDS, sessions.saved()).await.is_err() {
        tracing::warn!("not all of the conversation could be stored in time");
    }
}

/// Waits until the input has ended and the time for what was asked for is up too.
pub(super) async fn drained(input_ended: &CancellationToken, timeout: Duration) -> ExitReason {
    input_ended.cancelled().await;
    if tokio::time::timeout(timeout, unread()).await.is_ok() {
        return ExitReason::Unread;
    }
    tracing::warn!("standard input ended {timeout:?} ago, and what it asked for has not");
    ExitReason::TimedOut
}

/// Waits until nobody can read standard output any more.
pub(super) async fn unread() {
    while !stdio::nobody_reads() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The signals that end the process.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignals {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The number of the first that comes.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }

    /// The number of the first that is no interrupt.
    pub(super) async fn end(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }
}
