//! Reader that splits a byte stream into lines, with bounded memory.

use std::io::{self, BufRead as _};
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum number of bytes of one read, and maximum capacity that a reader keeps between lines.
const BUFFER_BYTES: usize = 64 * 1024;

/// Reader of lines. One reader must read the whole stream, because it holds the bytes that were read ahead.
pub(super) struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Range of the bytes in `buffer` that are not handed out yet.
    unread: Range<usize>,
    /// Beginning of a line that did not fit into `buffer`.
    begun: Vec<u8>,
    max_line: usize,
}

/// One line, or a mark in place of a line that is too long.
#[derive(Debug, PartialEq)]
pub(super) enum LineRead<'a> {
    /// A line without its end.
    Whole(&'a [u8]),
    /// Mark for a line that is longer than allowed, and was skipped to its end.
    TooLong,
}

/// Location of the next line.
enum LineLocation {
    Buffered(Range<usize>),
    Begun,
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, max_line: usize) -> Self {
        // Reserved memory costs nothing until bytes are read into it.
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self { input, buffer, unread: 0..0, begun: Vec::new(), max_line }
    }

    /// Returns the maximum size of a line, in bytes.
    pub(super) fn max_line(&self) -> usize {
        self.max_line
    }

    /// Reads the next line; `None` at the end of input. The last line needs no line end.
    pub(super) async fn next(&mut self) -> io::Result<Option<LineRead<'_>>> {
        if self.begun.capacity() > BUFFER_BYTES {
            self.begun = Vec::new();
        }
        self.begun.clear();
        Ok(match self.find().await? {
            LineLocation::Buffered(range) => Some(LineRead::Whole(&self.buffer[range])),
            LineLocation::Begun => Some(LineRead::Whole(&self.begun)),
            LineLocation::TooLong => Some(LineRead::TooLong),
            LineLocation::End => None,
        })
    }

    async fn find(&mut self) -> io::Result<LineLocation> {
        let mut too_long = false;
        loop {
            let start = self.unread.start;
            let end = line_end(&self.buffer[self.unread.clone()]).map(|n| start + n);
            let piece = start..end.unwrap_or(self.unread.end);
            too_long |= self.begun.len() + piece.len() > self.max_line;
            if let Some(end) = end {
                self.unread.start = end + 1;
                return Ok(match (too_long, self.begun.is_empty()) {
                    (true, _) => LineLocation::TooLong,
                    (false, true) => LineLocation::Buffered(piece),
                    (false, false) => {
                        self.begun.extend_from_slice(&self.buffer[piece]);
                        LineLocation::Begun
                    }
                });
            }
            if too_long {
                self.begun = Vec::new();
            } else {
                self.begun.extend_from_slice(&self.buffer[piece]);
            }
            self.buffer.clear();
            let read = self.input.read_buf(&mut self.buffer).await?;
            self.unread = 0..read;
            if read == 0 {
                return Ok(match (too_long, self.begun.is_empty()) {
                    (true, _) => LineLocation::TooLong,
                    (false, true) => LineLocation::End,
                    (false, false) => LineLocation::Begun,
                });
            }
        }
    }
}

/// Returns the index of the first line end, if there is one.
fn line_end(mut bytes: &[u8]) -> Option<usize> {
    // `skip_until` uses the C library's search, which has selected the quickest instructions when the program started.
    // Other searches ask the processor for its features first, which takes a tenth of a millisecond in a virtual
    // machine.
    let all = bytes;
    let len = bytes.skip_until(b'\n').ok()?;
    all[..len].ends_with(b"\n").then(|| len - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: &[&str]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lines = runtime.block_on(async {
            let mut lines = LineReader::new(input, 100_000);
            let mut all = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                all.push(match line {
                    LineRead::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                    LineRead::TooLong => "(too long)".to_owned(),
                });
            }
            assert!(lines.begun.capacity() <= BUFFER_BYTES * 2, "memory is given back");
            all
        });
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_taken_apart() {
        check(b"", &[]);
        check(b"a\nbc\r\n\nd", &["a", "bc\r", "", "d"]);
    }

    #[test]
    fn a_line_that_spans_reads_is_put_together() {
        let long = "x".repeat(BUFFER_BYTES + 10);
        check(format!("{long}\ny\n").as_bytes(), &[&long, "y"]);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_to_its_end() {
        let long = "x".repeat(300_000);
        check(format!("a\n{long}\nb\n").as_bytes(), &["a", "(too long)", "b"]);
        check(long.as_bytes(), &["(too long)"]);
    }
}
