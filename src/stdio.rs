//! Standard input and output, as an editor or a shell connects them.
//!
//! Pipes are used as non-blocking pipes: a message then wakes the reader without a detour over
//! another thread. They are opened anew through `/proc`, so that the flags of the descriptors
//! that other programs share stay as they are. Anything else goes through tokio's own stdio.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use tokio::io::{Interest, Stdin, Stdout};
use tokio::net::unix::pipe;
use tokio_util::either::Either;

const STDIN: &str = "/proc/self/fd/0";
const STDOUT: &str = "/proc/self/fd/1";

/// How much standard output's pipe holds: what clients read at once, and two full writes. The
/// published client loses a line whose two halves come in two reads; it reads 8 KiB at a time,
/// and so finds only whole lines.
#[cfg(target_os = "linux")]
const READ_AT_ONCE: usize = 2 * crate::rpc::PACKET;

/// Standard input.
pub type Input = Either<pipe::Receiver, Stdin>;

/// Standard output.
pub type Output = Either<pipe::Sender, Stdout>;

/// Standard input, fast if it is a pipe.
pub fn input() -> Input {
    let pipe = is_pipe(io::stdin()).then(|| pipe::OpenOptions::new().open_receiver(STDIN).ok());
    pipe.flatten().map_or_else(|| Either::Right(tokio::io::stdin()), Either::Left)
}

/// Standard output, fast if it is a pipe.
pub fn output() -> Output {
    let Some(pipe) = stdout_pipe() else { return Either::Right(tokio::io::stdout()) };
    #[cfg(target_os = "linux")]
    if let Err(err) = rustix::pipe::fcntl_setpipe_size(&pipe, READ_AT_ONCE) {
        tracing::debug!(%err, "the pipe's size stays as it is");
    }
    Either::Left(pipe)
}

/// Standard output for one who is no such client: the pipe keeps its size.
pub fn plain_output() -> Output {
    stdout_pipe().map_or_else(|| Either::Right(tokio::io::stdout()), Either::Left)
}

/// Waits until nobody can read standard output any more. Only a pipe tells; of anything else
/// only [`nobody_reads`] or a failed write does.
pub async fn reader_gone() {
    if let Some(pipe) = stdout_pipe() {
        while !nobody_reads() {
            if let Err(err) = pipe.ready(Interest::ERROR).await {
                tracing::debug!(%err, "standard output cannot be watched");
                break;
            }
        }
        if nobody_reads() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

fn stdout_pipe() -> Option<pipe::Sender> {
    is_pipe(io::stdout()).then(|| pipe::OpenOptions::new().open_sender(STDOUT).ok()).flatten()
}

/// Asked before anything is opened: to open a terminal or a device anew can have effects.
fn is_pipe(fd: impl AsFd) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Whether nobody can read standard output any more.
pub fn nobody_reads() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
        Err(_) => false,
    }
}
