//! The keyboard: the terminal's bytes are read here, and told as keys and pasted text.
//!
//! The bytes are read by this program itself: libraries for it wait for the end of a paste for ever,
//! and pass over the keys that xterm tells by modifyOtherKeys.

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

/// Number of bytes read at once.
const PIECE: usize = 4096;

/// The keyboard of the terminal that is standard input.
pub(super) struct Keyboard {
    keys: KeyStream,
    _reader: KeyReader,
}

/// Keys and pasted text, made of bytes as these come in.
struct KeyStream {
    bytes: UnboundedReceiver<Vec<u8>>,
    decoder: Decoder,
    ready: VecDeque<TerminalInput>,
    /// Time from which on the rest of what has begun is no longer waited for.
    until: Option<Instant>,
    /// Returns whether there are bytes that have not been read yet.
    waits: fn() -> bool,
}

/// A thread that reads until this is dropped, and not a byte longer: what comes then is for somebody
/// else.
struct KeyReader {
    /// Tells the thread to end.
    end: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        let (ended, end) = pipe()?;
        let (tell, bytes) = unbounded_channel();
        let thread = thread::Builder::new().name("keyboard".to_owned());
        let thread = thread.spawn(move || read_all(&ended, &tell))?;
        let reader = KeyReader { end, thread: Some(thread) };
        Ok(Self { keys: KeyStream::new(bytes, waits), _reader: reader })
    }

    /// Returns what was done at it next; nothing if the terminal is gone. No key is lost if this is
    /// dropped while it waits.
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
                // What has waited while this program did not run has come in time.
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
        // To close it would not do: a program that is being started may have it open for a moment.
        let _ = self.end.write_all(b".");
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads until nobody wants more, or there is no more.
fn read_all(ended: &PipeReader, tell: &UnboundedSender<Vec<u8>>) {
    let terminal = io::stdin();
    loop {
        let mut fds = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        let polled = retry_on_intr(|| poll(&mut fds, None));
        if polled.is_err() || !fds[1].revents().is_empty() {
            return;
        }
        let mut bytes = vec![0; PIECE];
        match retry_on_intr(|| read(&terminal, &mut bytes)) {
            Ok(count) if count > 0 => bytes.truncate(count),
            _ => return,
        }
        if tell.send(bytes).is_err() {
            return;
        }
    }
}

/// Returns whether bytes wait to be read.
fn waits() -> bool {
    let terminal = io::stdin();
    let mut fds = [PollFd::new(&terminal, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests;
