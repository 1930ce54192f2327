//! Reader of a server's output that cuts lines that are too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use memchr::memchr;
use tokio::io::{AsyncRead, ReadBuf};

/// A reader that limits the length of lines. Of a line that is too long, it passes on at most the beginning, and the
/// newline.
pub(super) struct Capped<R> {
    input: R,
    /// Maximum length of a line in bytes.
    most: usize,
    /// Length of the current line so far, in bytes.
    length: usize,
    /// `true` while the rest of a line that is too long is left out.
    skipping: bool,
    /// Function that is called once for each line that is too long.
    too_long: Box<dyn Fn() + Send>,
}

impl<R> Capped<R> {
    pub(super) fn new(input: R, most: usize, too_long: impl Fn() + Send + 'static) -> Self {
        Self { input, most, length: 0, skipping: false, too_long: Box::new(too_long) }
    }

    /// Moves the bytes to pass on to the front of the buffer; returns their number.
    fn filter_bytes(&mut self, bytes: &mut [u8]) -> usize {
        let (mut from, mut kept) = (0, 0);
        while from < bytes.len() {
            let line_end = memchr(b'\n', &bytes[from..]).map(|at| from + at + 1);
            let to = line_end.unwrap_or(bytes.len());
            if !self.skipping && self.length + (to - from) > self.most {
                self.skipping = true;
                (self.too_long)();
            }
            if !self.skipping {
                bytes.copy_within(from..to, kept);
                kept += to - from;
            } else if line_end.is_some() {
                bytes[kept] = b'\n';
                kept += 1;
            }
            self.length = if line_end.is_some() { 0 } else { self.length + (to - from) };
            self.skipping &= line_end.is_none();
            from = to;
        }
        kept
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Capped<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        loop {
            ready!(Pin::new(&mut self.input).poll_read(cx, buffer))?;
            if buffer.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            let kept = self.filter_bytes(&mut buffer.filled_mut()[before..]);
            buffer.set_filled(before + kept);
            // Returning no bytes would signal the end of the input.
            if kept > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::Capped;

    /// Reads `said` in pieces of every size. In `expected`, a line that ends in `*` matches any beginning of it.
    async fn check(said: &str, most: usize, expected: &[&str], too_long: usize) {
        for piece in 1..=said.len() {
            let (mut server, input) = tokio::io::duplex(piece);
            let count = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&count);
            let mut capped = Capped::new(input, most, move || {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let mut read = String::new();
            let write = async {
                server.write_all(said.as_bytes()).await.unwrap();
                drop(server);
            };
            let ((), done) = tokio::join!(write, capped.read_to_string(&mut read));
            done.unwrap();
            let lines: Vec<_> = read.lines().collect();
            assert_eq!(lines.len(), expected.len(), "{piece}: {lines:?}");
            for (line, expected) in lines.iter().zip(expected) {
                match expected.strip_suffix('*') {
                    Some(begins) => assert!(begins.starts_with(line), "{piece}: {lines:?}"),
                    None => assert_eq!(line, expected, "{piece}"),
                }
            }
            assert_eq!(count.load(Ordering::Relaxed), too_long, "{piece}");
        }
    }

    #[tokio::test]
    async fn lines_that_fit_are_passed_on() {
        check("a\nbc\n\nlast", 5, &["a", "bc", "", "last"], 0).await;
        check("12345\n12345", 6, &["12345", "12345"], 0).await;
    }

    #[tokio::test]
    async fn of_a_line_that_is_too_long_only_its_beginning_may_be_passed_on() {
        check("a\n0123456789\nb\n", 4, &["a", "0123*", "b"], 1).await;
        check("0123456789\n0123456789\n", 4, &["0123*", "0123*"], 2).await;
    }
}
