//! Reader of the keyboard: reads the terminal's bytes, and returns keys and pasted text.
//!
//! This program reads the bytes itself, because the libraries for that wait for ever for the end of a paste, and ignore
//! the keys that xterm reports by modifyOtherKeys.

mod decode;

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Write as _, pipe};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, retry_on_intr};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use self::decode::Decoder;
pub(super) use self::decode::{Code, KeyPress, TerminalInput};
use super::clock::until;

/// Maximum number of bytes read at once.
const MAX_READ_BYTES: usize = 4096;

/// Keyboard of the terminal that is standard input.
pub(super) struct Keyboard {
    keys: KeyStream,
    _reader: KeyReader,
}

/// Stream of keys and pasted text, decoded from bytes as these come in.
struct KeyStream {
    bytes: UnboundedReceiver<Vec<u8>>,
    decoder: Decoder,
    ready: VecDeque<TerminalInput>,
    /// Time at which the decoder stops to wait for the rest of an incomplete input.
    until: Option<Instant>,
    /// Function that returns whether the terminal has bytes that have not been read yet.
    waits: fn() -> bool,
}

/// Thread that reads until this value is dropped, and not a byte longer: later bytes belong to another program.
struct KeyReader {
    /// Pipe whose first byte ends the thread.
    end: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Starts to read the keyboard.
    pub(super) fn listen() -> io::Result<Self> {
        let (ended, end) = pipe()?;
        let (tell, bytes) = unbounded_channel();
        let thread = thread::Builder::new().name("keyboard".to_owned());
        let thread = thread.spawn(move || read_all(&ended, &tell))?;
        let reader = KeyReader { end, thread: Some(thread) };
        Ok(Self { keys: KeyStream::new(bytes, waits), _reader: reader })
    }

    /// Waits for the next key or paste; `None` if the terminal is gone. No key is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Option<TerminalInput> {
        self.keys.next().await
    }
}

impl KeyStream {
    fn new(bytes: UnboundedReceiver<Vec<u8>>, waits: fn() -> bool) -> Self {
        Self { bytes, decoder: Decoder::default(), ready: VecDeque::new(), until: None, waits }
    }

    async fn next(&mut self) -> Option<TerminalInput> {
        loop {
            if let Some(input) = self.ready.pop_front() {
                return Some(input);
            }
            let until = until(self.until);
            tokio::select! {
                biased;
                bytes = self.bytes.recv() => self.ready.extend(self.decoder.feed(&bytes?)),
                // If bytes are waiting, they came in time, but this process did not run meanwhile.
                () = until => if !(self.waits)() {
                    self.ready.extend(self.decoder.expire());
                }
            }
            self.until = self.decoder.patience().map(|patience| Instant::now() + patience);
        }
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        // A byte is written, because closing the pipe would not be enough: a child process that is just being started
        // may still have the pipe open.
        let _ = self.end.write_all(b".");
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Runs the thread: sends the terminal's bytes, until the pipe has a byte, the receiver is dropped or the terminal is
/// gone.
fn read_all(ended: &PipeReader, tell: &UnboundedSender<Vec<u8>>) {
    let terminal = io::stdin();
    loop {
        // The thread polls before each read, so that it never takes bytes after it was told to end.
        let mut fds = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        let polled = retry_on_intr(|| poll(&mut fds, None));
        if polled.is_err() || !fds[1].revents().is_empty() {
            return;
        }
        let mut bytes = vec![0; MAX_READ_BYTES];
        match retry_on_intr(|| read(&terminal, &mut bytes)) {
            Ok(count) if count > 0 => bytes.truncate(count),
            _ => return,
        }
        if tell.send(bytes).is_err() {
            return;
        }
    }
}

/// Returns whether the terminal has bytes to read.
fn waits() -> bool {
    let terminal = io::stdin();
    let mut fds = [PollFd::new(&terminal, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests;
