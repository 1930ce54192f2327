//! Queue of the lines to write to a peer. A single task writes them.
//!
//! Messages are serialised straight into the buffer that is written. Every `write` holds whole lines: up to
//! [`PACKET_BYTES`] bytes of queued lines, which a pipe takes in one piece, or a single longer line.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, watch};

use parking_lot::Mutex;

/// Number of bytes that a pipe takes in one piece (`PIPE_BUF`).
pub const PACKET_BYTES: usize = 4096;

/// Maximum capacity of the write buffer after its lines are written, in bytes.
const MAX_IDLE_CAPACITY: usize = 256 * 1024;

/// Function that is called with each line, without its end, when the line is read or written.
pub type Tap = Arc<dyn Fn(LineDirection, &[u8]) + Send + Sync>;

/// Direction of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineDirection {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// Queue of lines to write.
#[derive(Default)]
pub(super) struct Outbox {
    /// Whole lines that the writer has not taken yet.
    waiting: Mutex<Waiting>,
    /// Notification that wakes the writer, which is the only task that waits for it.
    more: Notify,
    backlog: watch::Sender<Backlog>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Size of the answers among `lines`, in bytes.
    answers: usize,
    closed: bool,
}

/// Size of the lines that are not written yet, in bytes.
#[derive(Default)]
struct Backlog {
    all: usize,
    /// Size of the answers. The answers of a batch count until the whole batch is written.
    answers: usize,
    /// Number of writes so far.
    written: u64,
}

impl Outbox {
    /// Queues one line. `line` writes the line without its end.
    pub(super) fn push(&self, line: impl FnOnce(&mut Vec<u8>)) {
        self.queue(line, false);
    }

    /// Queues one line that answers the peer.
    pub(super) fn push_answer(&self, line: impl FnOnce(&mut Vec<u8>)) {
        self.queue(line, true);
    }

    fn queue(&self, line: impl FnOnce(&mut Vec<u8>), answers: bool) {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return;
        }
        let before = waiting.lines.len();
        line(&mut waiting.lines);
        waiting.lines.push(b'\n');
        let added = waiting.lines.len() - before;
        let answers = if answers { added } else { 0 };
        waiting.answers += answers;
        // The backlog grows while `waiting` is locked: otherwise the writer could take the line and subtract its size
        // first. No task is woken, because none waits for the backlog to grow.
        self.backlog.send_if_modified(|backlog| {
            backlog.all += added;
            backlog.answers += answers;
            false
        });
        drop(waiting);
        self.more.notify_one();
    }

    /// Returns the number of bytes that are not written yet.
    pub(super) fn backlog(&self) -> usize {
        self.backlog.borrow().all
    }

    /// Returns the number of bytes of answers that are not written yet.
    pub(super) fn answers(&self) -> usize {
        self.backlog.borrow().answers
    }

    /// Returns the number of writes so far: it grows while the peer reads.
    pub(super) fn written(&self) -> u64 {
        self.backlog.borrow().written
    }

    /// Waits until at most `bytes` bytes are unwritten.
    pub(super) async fn wait_backlog_below(&self, bytes: usize) {
        if self.backlog() > bytes {
            // No error is possible: the sender lives as long as `self`.
            let _ = self.backlog.subscribe().wait_for(|backlog| backlog.all <= bytes).await;
        }
    }

    /// Waits until at most `bytes` bytes of answers are unwritten.
    pub(super) async fn room_for_answers(&self, bytes: usize) {
        let _ = self.backlog.subscribe().wait_for(|backlog| backlog.answers <= bytes).await;
    }

    /// Closes the queue: no more lines are queued, and the writer ends once the queued lines are written.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.more.notify_one();
    }

    /// Waits for queued lines, swaps them for an empty `batch`, and returns the number of bytes of answers among them;
    /// `None` when the queue is closed and drained.
    async fn take_batch(&self, batch: &mut Vec<u8>) -> Option<usize> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if !waiting.lines.is_empty() {
                    std::mem::swap(&mut waiting.lines, batch);
                    return Some(std::mem::take(&mut waiting.answers));
                }
                if waiting.closed {
                    return None;
                }
            }
            self.more.notified().await;
        }
    }

    /// Writes the queued lines until the queue is closed and drained. An error means that the peer no longer reads.
    pub(super) async fn write_to(
        &self,
        mut output: impl AsyncWrite + Unpin,
        tap: Option<&Tap>,
    ) -> io::Result<()> {
        let mut batch = Vec::new();
        while let Some(answers) = self.take_batch(&mut batch).await {
            let mut rest = &batch[..];
            while !rest.is_empty() {
                let (packet, after) = rest.split_at(packet(rest));
                output.write_all(packet).await?;
                if let Some(tap) = tap {
                    let lines = packet.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                    lines.for_each(|line| tap(LineDirection::Out, line));
                }
                self.backlog.send_modify(|backlog| {
                    backlog.all -= packet.len();
                    backlog.written += 1;
                });
                rest = after;
            }
            self.backlog.send_modify(|backlog| backlog.answers -= answers);
            output.flush().await?;
            batch.clear();
            batch.shrink_to(MAX_IDLE_CAPACITY);
        }
        Ok(())
    }
}

/// Returns the size of the next write: as many of the whole `lines` as fit into [`PACKET_BYTES`] bytes, but at least
/// one line.
fn packet(lines: &[u8]) -> usize {
    if lines.len() <= PACKET_BYTES {
        return lines.len();
    }
    let last = memchr::memrchr(b'\n', &lines[..PACKET_BYTES]);
    let end = last.or_else(|| memchr::memchr(b'\n', lines));
    end.map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[usize], expected: &[usize]) {
        let mut bytes = Vec::new();
        for len in lines {
            bytes.resize(bytes.len() + len - 1, b'x');
            bytes.push(b'\n');
        }
        let mut rest = &bytes[..];
        let mut packets = Vec::new();
        while !rest.is_empty() {
            packets.push(packet(rest));
            rest = &rest[packets[packets.len() - 1]..];
        }
        assert_eq!(packets, expected);
    }

    #[test]
    fn whole_lines_are_packed_and_long_ones_go_alone() {
        check(&[10], &[10]);
        check(&[2000, 2000, 96, 1], &[4096, 1]);
        check(&[4096, 4097, 3], &[4096, 4097, 3]);
        check(&[1, 5000, 1, 1], &[1, 5000, 2]);
    }
}
