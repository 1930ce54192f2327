//! Ends of a run: by a signal, by the end of the input, or because the reader of the output is gone.

use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use tandem_agent::sessions::Sessions;
use tandem_wire::stdio;

/// Maximum time for each of the last steps of a run, such as last answers. A cancelled call may take a second.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(2);

/// Exit code of a run with wrong input or wrong flags.
pub(crate) const BAD_INPUT: i32 = 42;

/// Interval of the checks whether standard output still has a reader.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Makes a write beyond the limit of file sizes fail, like a write to a full disk. Without this call, the signal
/// `SIGXFSZ` would end the process. The programs that the agent starts are still ended by the signal, because a new
/// program does not inherit a handler. Must be called within the runtime.
pub(crate) fn outlive_size_limit() {
    // The handler itself is the purpose, so the stream of signals is dropped. An error is ignored: it does harm only if
    // such a limit is reached.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The work is done. For an editor: the editor hung up, and all its requests are answered.
    Done,
    /// The editor hung up, and its open requests were not answered in time.
    TimedOut,
    /// Standard output has no reader any more.
    Unread,
    /// A signal with this number ended the run.
    Signal(i32),
    /// The run failed with this exit code.
    Failed(i32),
}

/// Waits until the events of all sessions are stored, at most [`LAST_WORDS`]. The sessions must be closed.
pub(super) async fn wait_all_stored(sessions: &Sessions) {
    if tokio::time::timeout(LAST_WORDS, sessions.wait_all_stored()).await.is_err() {
        tracing::warn!("not all of the conversation could be stored in time");
    }
}

/// Waits for the end of the input, and then until `timeout` is over or the reader of the output is gone.
pub(super) async fn drained(input_ended: &CancellationToken, timeout: Duration) -> ExitReason {
    input_ended.cancelled().await;
    if tokio::time::timeout(timeout, unread()).await.is_ok() {
        return ExitReason::Unread;
    }
    tracing::warn!("standard input ended {timeout:?} ago, and what it asked for has not");
    ExitReason::TimedOut
}

/// Waits until standard output has no reader any more.
pub(super) async fn unread() {
    while !stdio::nobody_reads() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Listeners for the signals that end the process.
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

    /// Waits for the first of the signals, and returns its number.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }

    /// Waits for the first of the signals except the interrupt, and returns its number.
    pub(super) async fn end(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }
}
