//! Standard input and output, as an editor or a shell connects them.
//!
//! Whatever the system can tell the state of (pipes, sockets, terminals) is used without waiting:
//! a message then wakes the reader without a detour over another thread. The flags of the
//! descriptors stay as they are, because other programs share them, and may be either way: a
//! descriptor that is non-blocking is no ended one. Files go through tokio's own stdio.

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

const STDIN: &str = "/proc/self/fd/0";
const STDOUT: &str = "/proc/self/fd/1";

/// Size of standard output's pipe in bytes: two full writes, which clients read at once. The
/// published client loses a line whose two halves come in two reads; it reads 8 KiB at a time,
/// and so gets only whole lines.
#[cfg(target_os = "linux")]
const READ_AT_ONCE: usize = 2 * crate::rpc::PACKET;

/// Number of bytes read at once.
const BUFFER: usize = 64 * 1024;

/// Standard input.
pub type Input = Either<StandardInput, Stdin>;

/// Standard output.
pub type Output = Either<StandardOutput, Stdout>;

/// Returns standard input.
pub fn input() -> Input {
    let source = Descriptor::open(io::stdin().as_fd(), STDIN, OFlags::RDONLY);
    match source.and_then(|source| source.watched(Interest::READABLE)) {
        Ok(source) => Either::Left(StandardInput {
            source,
            buffer: Vec::with_capacity(BUFFER),
            handed_out: 0,
        }),
        Err(err) => {
            tracing::debug!(%err, "standard input is read on another thread");
            Either::Right(tokio::io::stdin())
        }
    }
}

/// Returns standard output; a pipe is made small.
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

/// Returns standard output for one who is no such client: a pipe keeps its size.
pub fn plain_output() -> Output {
    let source = Descriptor::open(io::stdout().as_fd(), STDOUT, OFlags::WRONLY);
    match source.and_then(|source| source.watched(Interest::WRITABLE)) {
        Ok(source) => Either::Left(StandardOutput(source)),
        Err(err) => {
            tracing::debug!(%err, "standard output is written on another thread");
            Either::Right(tokio::io::stdout())
        }
    }
}

/// Waits until nobody can read standard output any more. Only a pipe tells; of anything else
/// only [`nobody_reads`] or a failed write does.
pub async fn reader_gone() {
    let source = Descriptor::open(io::stdout().as_fd(), STDOUT, OFlags::WRONLY);
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

/// Returns whether nobody can read standard output any more.
pub fn nobody_reads() -> bool {
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    state(io::stdout().as_fd(), PollFlags::OUT).intersects(gone)
}

/// Standard input whose state the system can tell.
pub struct StandardInput {
    source: AsyncFd<Descriptor>,
    /// Bytes that were read last.
    buffer: Vec<u8>,
    /// Number of those bytes that are handed out.
    handed_out: usize,
}

/// Standard output whose state the system can tell.
pub struct StandardOutput(AsyncFd<Descriptor>);

/// A descriptor that is read or written without waiting.
struct Descriptor {
    fd: OwnedFd,
    kind: DescriptorKind,
    /// `true` if the descriptor is our own and non-blocking.
    own: bool,
}

/// Kind of file that a descriptor leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DescriptorKind {
    Pipe,
    Socket,
    /// A terminal, or anything else.
    Device,
}

impl Descriptor {
    /// Opens what a descriptor leads to anew, so that the flags are our own; what cannot be opened
    /// anew is used as it is.
    fn open(fd: BorrowedFd<'_>, path: &str, access: OFlags) -> io::Result<Self> {
        let kind = match FileType::from_raw_mode(fstat(fd)?.st_mode) {
            FileType::Fifo => DescriptorKind::Pipe,
            FileType::Socket => DescriptorKind::Socket,
            _ => DescriptorKind::Device,
        };
        // To open another device anew can have effects.
        if kind == DescriptorKind::Pipe || fd.is_terminal() {
            let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match open(path, flags, Mode::empty()) {
                Ok(fd) => return Ok(Self { fd, kind, own: true }),
                Err(err) => tracing::debug!(%err, path, "cannot be opened anew"),
            }
        }
        Ok(Self { fd: fd.try_clone_to_owned()?, kind, own: false })
    }

    /// Fails for files, of which nobody tells when they can be read.
    #[expect(
        deprecated,
        reason = "what it is to be replaced by is unsafe to call; our descriptor is \
        owned, and stays open and the same"
    )]
    fn watched(self, interest: Interest) -> io::Result<AsyncFd<Self>> {
        AsyncFd::with_interest(self, interest)
    }

    /// Reads what there is into an empty buffer.
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
            // So much is taken at once where anything is.
            _ if self.is(PollFlags::OUT) => {
                rustix::io::write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])
            }
            _ => Err(Errno::AGAIN),
        });
        Ok(written?)
    }

    /// Returns whether the descriptor is in this state, or in one in which to read or write fails
    /// at once.
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

/// Returns the flags that are set now, among these and the error flags.
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
            // That was all: to ask again would tell so. A terminal gives a line at a time.
            if read < BUFFER && source.get_ref().kind == DescriptorKind::Pipe {
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
