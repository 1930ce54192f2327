//! Standard input of a command in the background.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, sleep_until};

use super::unfinished_line::UnfinishedLine;

/// Maximum number of bytes that are written at once. It is the size of a pipe, so that a program that has read
/// everything before can be given all of them.
pub const MAX_INPUT_BYTES: usize = 64 << 10;

/// Maximum time of a write. A program that does not read must not hold up the turn.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Standard input of a command.
pub struct InputPipe {
    /// `true` if the command was started with a pipe as its standard input.
    is_pipe: bool,
    /// Open end of the pipe. The lock is held while a text is written, so that texts do not mix.
    pipe: AsyncMutex<Option<ChildStdin>>,
    /// Beginning of the line that was written last, if its end was not written yet.
    unfinished: Mutex<UnfinishedLine>,
}

/// State of a command's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputState {
    /// The command was started without a standard input.
    Missing,
    /// The command can be written to.
    Open,
    /// The standard input is closed, or the command has ended.
    Closed,
}

/// Result of a write to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Number of bytes that the pipe has taken.
    pub bytes: usize,
    /// Reason for the end of the write.
    pub end: WriteEnd,
}

/// Reason for the end of a write to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteEnd {
    /// All bytes are written.
    Complete,
    /// The pipe was full until the write's time was over, as the command does not read.
    NotRead,
    /// The command has closed its standard input or has ended, or the standard input was closed before.
    Closed,
}

impl InputPipe {
    pub(super) fn new(pipe: Option<ChildStdin>) -> Self {
        Self { is_pipe: pipe.is_some(), pipe: AsyncMutex::new(pipe), unfinished: Mutex::default() }
    }

    /// Returns the state of the standard input. Waits for a write that goes on.
    pub async fn state(&self) -> InputState {
        match (self.is_pipe, self.pipe.lock().await.is_some()) {
            (false, _) => InputState::Missing,
            (true, true) => InputState::Open,
            (true, false) => InputState::Closed,
        }
    }

    /// Returns the beginning of the line that the next text continues; empty if the last line has ended. A line end
    /// after a backslash, or in an open quote, ends no line, as for a shell.
    pub fn unfinished_line(&self) -> String {
        String::from_utf8_lossy(self.unfinished.lock().bytes()).into_owned()
    }

    /// Writes bytes until all are written, or the command does not read or has closed its standard input. If the
    /// future is dropped, the bytes that were written until then stay written.
    pub async fn write(&self, bytes: &[u8]) -> WriteOutcome {
        let mut pipe = self.pipe.lock().await;
        let deadline = Instant::now() + WRITE_TIMEOUT;
        let mut rest = bytes;
        let end = loop {
            let Some(open) = pipe.as_mut() else { break WriteEnd::Closed };
            if rest.is_empty() {
                break WriteEnd::Complete;
            }
            tokio::select! {
                written = open.write(rest) => match written {
                    Ok(count) => {
                        self.unfinished.lock().push(&rest[..count], MAX_INPUT_BYTES);
                        rest = &rest[count..];
                    }
                    Err(_) => *pipe = None,
                },
                () = sleep_until(deadline) => break WriteEnd::NotRead,
            }
        };
        WriteOutcome { bytes: bytes.len() - rest.len(), end }
    }

    /// Closes the standard input, so that the command reads its end.
    pub async fn close(&self) {
        *self.pipe.lock().await = None;
    }
}
