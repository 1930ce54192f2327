//! Queue of log lines, and the thread that writes them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of waiting lines.
const MAX_WAITING_LINES: usize = 1024;

/// Maximum number of waiting bytes.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// Maximum time that the end of the program waits for unwritten lines.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval of the checks for unwritten lines.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

type Output = Box<dyn Write + Send>;

/// Queue that takes one line with each write. A write never waits: if the queue is full, the line is dropped and
/// counted.
#[derive(Clone)]
pub(super) struct Queue(Arc<QueueShared>);

struct QueueShared {
    /// State of the thread that writes. The lock makes sure that only the first line starts the thread.
    thread: Mutex<Thread>,
    state: Arc<QueueState>,
    /// Function that makes the line in place of a number of dropped lines.
    lost: fn(usize) -> String,
}

/// State of the thread that writes: the output before the start, the channel to the thread after it. The thread starts
/// with the first line, so that a run without log lines has no such thread.
enum Thread {
    Ready(Output),
    Running(SyncSender<Vec<u8>>),
    /// Thread that could not be started.
    Failed,
}

#[derive(Default)]
struct QueueState {
    /// Number of bytes that are not written yet.
    waiting: AtomicUsize,
    /// Number of lines that were dropped since the last written line.
    dropped: AtomicUsize,
}

impl Queue {
    /// Makes the queue. The thread that writes starts with the first line.
    pub(super) fn new(output: Output, lost: fn(usize) -> String) -> Self {
        let thread = Mutex::new(Thread::Ready(output));
        Self(Arc::new(QueueShared { thread, state: Arc::default(), lost }))
    }

    fn push(&self, line: &[u8]) {
        let QueueShared { thread, state, lost } = &*self.0;
        let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.start(state, *lost);
        let size = line.len();
        let room = state.waiting.fetch_add(size, Ordering::Relaxed) + size <= MAX_WAITING_BYTES;
        let sent = match &*thread {
            Thread::Running(lines) if room => lines.try_send(line.to_owned()).is_ok(),
            _ => false,
        };
        if !sent {
            state.waiting.fetch_sub(size, Ordering::Relaxed);
            state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, at most [`SHUTDOWN_TIMEOUT`].
    pub(super) fn finish(&self) {
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.0.state.waiting.load(Ordering::Acquire) > 0 && Instant::now() < until {
            thread::sleep(CHECK_INTERVAL);
        }
    }
}

impl Thread {
    fn start(&mut self, state: &Arc<QueueState>, lost: fn(usize) -> String) {
        if !matches!(self, Self::Ready(_)) {
            return;
        }
        let (sender, lines) = sync_channel(MAX_WAITING_LINES);
        if let Self::Ready(output) = std::mem::replace(self, Self::Running(sender)) {
            let state = Arc::clone(state);
            let thread = thread::Builder::new().name("log".to_owned());
            if thread.spawn(move || write(output, &lines, &state, lost)).is_err() {
                *self = Self::Failed;
            }
        }
    }
}

fn write(
    mut output: Output,
    lines: &Receiver<Vec<u8>>,
    state: &QueueState,
    lost: fn(usize) -> String,
) {
    for line in lines {
        // An error is ignored: without the log there is no place to report it.
        let _ = output.write_all(&line);
        let dropped = state.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = output.write_all(lost(dropped).as_bytes());
        }
        let _ = output.flush();
        // Counted down only after the flush: for `finish`, a count of 0 means that all lines are written.
        state.waiting.fetch_sub(line.len(), Ordering::Release);
    }
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Output whose writes wait until the test allows them.
    struct Slow(Receiver<()>, Sender<String>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.send(String::from_utf8_lossy(line).into_owned()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nobody_waits() {
        let (go, told) = channel();
        let (written, lines) = channel();
        let queue = Queue::new(Box::new(Slow(told, written)), |lines| format!("({lines} lines)"));
        for n in 0..MAX_WAITING_LINES + 100 {
            queue.push(format!("{n}\n").as_bytes());
        }
        drop(go);
        while queue.0.state.waiting.load(Ordering::Acquire) > 0 {
            thread::sleep(CHECK_INTERVAL);
        }
        let lines: Vec<String> = lines.try_iter().collect();
        assert_eq!(lines[0], "0\n");
        // The thread had taken one line or none when the queue was full.
        assert!(lines[1].starts_with("(99 lines") || lines[1].starts_with("(100 lines"));
        assert!(lines.len() > MAX_WAITING_LINES, "{}", lines.len());
    }

    #[test]
    fn memory_is_bounded() {
        let (_go, told) = channel();
        let (written, _lines) = channel();
        let queue = Queue::new(Box::new(Slow(told, written)), |_| String::new());
        for _ in 0..20 {
            queue.push(&vec![b'x'; 1 << 20]);
        }
        assert_eq!(queue.0.state.waiting.load(Ordering::Relaxed), MAX_WAITING_BYTES);
        assert_eq!(queue.0.state.dropped.load(Ordering::Relaxed), 16);
    }
}
