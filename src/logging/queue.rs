//! Lines that wait for the thread that writes them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of waiting lines.
const LINES: usize = 1024;

/// Maximum number of waiting bytes.
const BYTES: usize = 4 << 20;

/// Maximum time that the end waits for unwritten lines.
const LAST: Duration = Duration::from_millis(200);

/// Interval of looking.
const LOOK: Duration = Duration::from_millis(1);

type Output = Box<dyn Write + Send>;

/// Takes one line a write and never waits: a line that finds no room is dropped and counted.
#[derive(Clone)]
pub(super) struct Queue(Arc<QueueShared>);

struct QueueShared {
    /// Channel to the thread, or the output that the thread will write to.
    thread: Mutex<Thread>,
    state: Arc<QueueState>,
    /// Makes the line in place of so many that found no room.
    lost: fn(usize) -> String,
}

/// Started with the first line, so that whoever logs nothing pays nothing.
enum Thread {
    Ready(Output),
    Running(SyncSender<Vec<u8>>),
    /// Thread that could not be started.
    Failed,
}

#[derive(Default)]
struct QueueState {
    /// Bytes that are not written yet.
    waiting: AtomicUsize,
    /// Lines that found no room since the last one that was written.
    dropped: AtomicUsize,
}

impl Queue {
    /// Nothing is done before the first line.
    pub(super) fn new(output: Output, lost: fn(usize) -> String) -> Self {
        let thread = Mutex::new(Thread::Ready(output));
        Self(Arc::new(QueueShared { thread, state: Arc::default(), lost }))
    }

    fn push(&self, line: &[u8]) {
        let QueueShared { thread, state, lost } = &*self.0;
        let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.start(state, *lost);
        let size = line.len();
        let room = state.waiting.fetch_add(size, Ordering::Relaxed) + size <= BYTES;
        let sent = match &*thread {
            Thread::Running(lines) if room => lines.try_send(line.to_owned()).is_ok(),
            _ => false,
        };
        if !sent {
            state.waiting.fetch_sub(size, Ordering::Relaxed);
            state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a moment for what is not written yet.
    pub(super) fn finish(&self) {
        let until = Instant::now() + LAST;
        while self.0.state.waiting.load(Ordering::Acquire) > 0 && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}

impl Thread {
    fn start(&mut self, state: &Arc<QueueState>, lost: fn(usize) -> String) {
        if !matches!(self, Self::Ready(_)) {
            return;
        }
        let (sender, lines) = sync_channel(LINES);
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
        // If nobody reads it there is nobody to tell.
        let _ = output.write_all(&line);
        let dropped = state.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = output.write_all(lost(dropped).as_bytes());
        }
        let _ = output.flush();
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

    /// Takes a write when it is told to.
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
        for n in 0..LINES + 100 {
            queue.push(format!("{n}\n").as_bytes());
        }
        drop(go);
        while queue.0.state.waiting.load(Ordering::Acquire) > 0 {
            thread::sleep(LOOK);
        }
        let lines: Vec<String> = lines.try_iter().collect();
        assert_eq!(lines[0], "0\n");
        // The thread had taken one line or none when the queue was full.
        assert!(lines[1].starts_with("(99 lines") || lines[1].starts_with("(100 lines"));
        assert!(lines.len() > LINES, "{}", lines.len());
    }

    #[test]
    fn memory_is_bounded() {
        let (_go, told) = channel();
        let (written, _lines) = channel();
        let queue = Queue::new(Box::new(Slow(told, written)), |_| String::new());
        for _ in 0..20 {
            queue.push(&vec![b'x'; 1 << 20]);
        }
        assert_eq!(queue.0.state.waiting.load(Ordering::Relaxed), BYTES);
        assert_eq!(queue.0.state.dropped.load(Ordering::Relaxed), 16);
    }
}
