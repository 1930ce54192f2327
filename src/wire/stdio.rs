//! Standard input and output, as an editor or a shell connects them.
//!
//! Pipes, sockets and terminals are read and written without blocking, because the system reports when they are ready:
//! a message then wakes the reader directly, without a detour over another thread. The descriptors may be blocking or
//! non-blocking, and their flags are not changed, because other programs share them. A non-blocking descriptor that is
//! not ready is not taken for one that has ended. Files go through tokio's own stdio.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::PIPE_BUF;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Stdin, Stdout};
use tokio_util::either::Either;

const STDIN_PATH: &str = "/proc/self/fd/0";
const STDOUT_PATH: &str = "/proc/self/fd/1";

/// Size of standard output's pipe, in bytes: the size of two full writes. The published ACP client loses a line whose
/// two halves come in two reads. It reads 8 KiB at a time, so each read empties a pipe of this size, and gets whole
/// lines only.
#[cfg(target_os = "linux")]
const READ_AT_ONCE: usize = 2 * crate::rpc::PACKET_BYTES;

/// Maximum number of bytes of one read.
const BUFFER_BYTES: usize = 64 * 1024;

/// Standard input.
pub type Input = Either<StandardInput, Stdin>;

/// Standard output.
pub type Output = Either<StandardOutput, Stdout>;

/// Returns standard input.
pub fn input() -> Input {
    let source = Descriptor::open(io::stdin().as_fd(), STDIN_PATH, OFlags::RDONLY);
    match source.and_then(|source| source.watched(Interest::READABLE)) {
        Ok(source) => Either::Left(StandardInput {
            source,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            handed_out: 0,
        }),
        Err(err) => {
            tracing::debug!(%err, "standard input is read on another thread");
            Either::Right(tokio::io::stdin())
        }
    }
}

/// Returns standard output for an ACP client. A pipe is made small, so that each read of the client gets whole lines.
pub fn output() -> Output {
    let output = plain_output();
    #[cfg(target_os = "linux")]
    if let Either::Left(writer) = &output
        && writer.0.get_ref().kind == DescriptorKind::Pipe
        && let Err(err) = rustix::pipe::fcntl_setpipe_size(writer.0.get_ref(), READ_AT_ONCE)
    {
        tracing::debug!(%err, "the pipe's size stays as it is");
    }
    output
}

/// Returns standard output for a reader that is no ACP client. A pipe keeps its size.
pub fn plain_output() -> Output {
    let source = Descriptor::open(io::stdout().as_fd(), STDOUT_PATH, OFlags::WRONLY);
    match source.and_then(|source| source.watched(Interest::WRITABLE)) {
        Ok(source) => Either::Left(StandardOutput(source)),
        Err(err) => {
            tracing::debug!(%err, "standard output is written on another thread");
            Either::Right(tokio::io::stdout())
        }
    }
}

/// Waits until no process can read standard output any more. Only a pipe reports that. With any other kind of output
/// this waits forever, and the caller learns it only from [`nobody_reads`] or from a failed write.
pub async fn reader_gone() {
    let source = Descriptor::open(io::stdout().as_fd(), STDOUT_PATH, OFlags::WRONLY);
    if let Ok(pipe) = source
        && pipe.kind == DescriptorKind::Pipe
        && let Ok(pipe) = pipe.watched(Interest::ERROR)
    {
        while !nobody_reads() {
            match pipe.ready(Interest::ERROR).await {
                Ok(mut ready) => ready.clear_ready(),
                Err(err) => {
                    tracing::debug!(%err, "standard output cannot be watched");
                    break;
                }
            }
        }
        if nobody_reads() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Returns `true` if no process can read standard output any more.
pub fn nobody_reads() -> bool {
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    state(io::stdout().as_fd(), PollFlags::OUT).intersects(gone)
}

/// Standard input, of a kind for which the system reports when it is ready.
pub struct StandardInput {
    source: AsyncFd<Descriptor>,
    /// Bytes that were read last.
    buffer: Vec<u8>,
    /// Number of bytes at the start of `buffer` that are handed out.
    handed_out: usize,
}

/// Standard output, of a kind for which the system reports when it is ready.
pub struct StandardOutput(AsyncFd<Descriptor>);

/// A descriptor that is read or written without blocking.
struct Descriptor {
    fd: OwnedFd,
    kind: DescriptorKind,
    /// `true` if this program has opened the descriptor itself, as non-blocking.
    own: bool,
}

/// Kind of file behind a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DescriptorKind {
    Pipe,
    Socket,
    /// A terminal, or another kind of file.
    Device,
}

impl Descriptor {
    /// Opens the pipe or terminal behind a descriptor again, so that its flags are not shared with other programs.
    /// Any other descriptor, or a descriptor that cannot be opened again, is duplicated; the duplicate shares the
    /// flags.
    fn open(fd: BorrowedFd<'_>, path: &str, access: OFlags) -> io::Result<Self> {
        let kind = match FileType::from_raw_mode(fstat(fd)?.st_mode) {
            FileType::Fifo => DescriptorKind::Pipe,
            FileType::Socket => DescriptorKind::Socket,
            _ => DescriptorKind::Device,
        };
        // Other devices are not opened again, because opening a device can have side effects.
        if kind == DescriptorKind::Pipe || fd.is_terminal() {
            let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match open(path, flags, Mode::empty()) {
                Ok(fd) => return Ok(Self { fd, kind, own: true }),
                Err(err) => tracing::debug!(%err, path, "cannot be opened anew"),
            }
        }
        Ok(Self { fd: fd.try_clone_to_owned()?, kind, own: false })
    }

    /// Registers the descriptor for events of the system that report when it is ready. Fails for regular files, which
    /// have no such events.
    #[expect(
        deprecated,
        reason = "what it is to be replaced by is unsafe to call; our descriptor is \
        owned, and stays open and the same"
    )]
    fn watched(self, interest: Interest) -> io::Result<AsyncFd<Self>> {
        AsyncFd::with_interest(self, interest)
    }

    /// Reads the available bytes into an empty buffer, without blocking.
    fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let read = retry_on_intr(|| match self.kind {
            DescriptorKind::Socket => {
                recv(&self.fd, spare_capacity(buffer), RecvFlags::DONTWAIT).map(|it| it.0)
            }
            _ if self.own || self.is(PollFlags::IN) => {
                rustix::io::read(&self.fd, spare_capacity(buffer))
            }
            _ => Err(Errno::AGAIN),
        });
        Ok(read?)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = retry_on_intr(|| match self.kind {
            DescriptorKind::Socket => send(&self.fd, bytes, SendFlags::DONTWAIT),
            _ if self.own => rustix::io::write(&self.fd, bytes),
            // A descriptor that is ready takes `PIPE_BUF` bytes without blocking.
            _ if self.is(PollFlags::OUT) => {
                rustix::io::write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])
            }
            _ => Err(Errno::AGAIN),
        });
        Ok(written?)
    }

    /// Returns `true` if the descriptor is in this state, or in a state in which reading or writing fails at once.
    fn is(&self, flags: PollFlags) -> bool {
        !state(self.fd.as_fd(), flags).is_empty()
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl std::os::fd::AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

/// Returns the flags that are set now, among the given flags and the error flags.
fn state(fd: BorrowedFd<'_>, flags: PollFlags) -> PollFlags {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

impl AsyncRead for StandardInput {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { source, buffer, handed_out } = self.get_mut();
        while *handed_out == buffer.len() {
            let mut ready = ready!(source.poll_read_ready(cx))?;
            buffer.clear();
            *handed_out = 0;
            let Ok(read) = ready.try_io(|source| source.get_ref().read(buffer)) else { continue };
            let read = read?;
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            // A short read has emptied a pipe, so another read would only find nothing. This does not hold for a
            // terminal, which gives one line at a time.
            if read < BUFFER_BYTES && source.get_ref().kind == DescriptorKind::Pipe {
                ready.clear_ready();
            }
        }
        let unread = &buffer[*handed_out..];
        let piece = &unread[..unread.len().min(into.remaining())];
        into.put_slice(piece);
        *handed_out += piece.len();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StandardOutput {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            if let Ok(written) = ready.try_io(|source| source.get_ref().write(bytes)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
