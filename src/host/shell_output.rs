//! Output of a command in bounded memory: its beginning and its end are stored.

use std::collections::VecDeque;

use tandem_content::plain::plain;

/// Number of bytes that are examined to distinguish text from binary output.
const SNIFFED_BYTES: usize = 4096;

/// Number of bytes of the end to show while a command runs.
const LIVE_BYTES: usize = 16 * 1024;

/// Beginning and end of the output of a command; the middle is left out of long output.
pub struct OutputBuffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    /// Maximum size of each of the two parts, in bytes.
    half: usize,
}

impl OutputBuffer {
    /// Returns an empty buffer of at most `max_bytes` bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), total: 0, half: max_bytes / 2 }
    }

    /// Returns the output so far in a buffer of this size, or a smaller one.
    pub(super) fn shrunk(mut self, max_bytes: usize) -> Self {
        let mut shrunk = Self::new(max_bytes.min(2 * self.half));
        shrunk.push(&self.head);
        shrunk.push(self.tail.make_contiguous());
        shrunk.total = self.total;
        shrunk
    }

    /// Appends output. Bytes in the middle are dropped when the buffer is full.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Returns the output as plain text, with a line that says how many bytes were left out.
    pub fn text(&self) -> String {
        if self.is_binary() {
            return format!("[binary output, {} bytes]", self.total);
        }
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        let (a, b) = self.tail.as_slices();
        if left_out == 0 {
            return plain(&[&self.head, a, b].concat());
        }
        let tail = plain(&[a, b].concat());
        format!("{}\n[... {left_out} bytes left out ...]\n{tail}", plain(&self.head))
    }

    /// Returns the output as [`Self::text`] does, and empties the buffer. An incomplete character at the end stays, as
    /// its other bytes may follow.
    pub(super) fn take(&mut self) -> String {
        let end = self.pop_incomplete();
        let text = self.text();
        *self = Self::new(2 * self.half);
        self.push(&end);
        text
    }

    /// Returns whether the buffer has no complete character.
    pub(super) fn is_empty(&self) -> bool {
        let bytes = self.head.len() + self.tail.len();
        bytes == self.incomplete_bytes()
    }

    /// Returns the number of bytes at the end that begin a character of UTF-8 without ending it.
    fn incomplete_bytes(&self) -> usize {
        let mut seen = 0;
        for byte in self.tail.iter().rev().chain(self.head.iter().rev()).take(3) {
            seen += 1;
            let length = match byte {
                0x80..0xc0 => continue,
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0..0xf8 => 4,
                _ => 1,
            };
            return if length > seen { seen } else { 0 };
        }
        0
    }

    /// Removes an incomplete character from the end, and returns its bytes.
    fn pop_incomplete(&mut self) -> Vec<u8> {
        let mut end = Vec::new();
        for _ in 0..self.incomplete_bytes() {
            end.extend(self.tail.pop_back().or_else(|| self.head.pop()));
        }
        self.total -= end.len() as u64;
        end.reverse();
        end
    }

    /// Returns the last lines, to be shown while the output grows.
    pub fn live(&self) -> String {
        if self.is_binary() {
            return format!("[Receiving binary output... {} MB]", self.total.div_ceil(1 << 20));
        }
        let kept = self.head.iter().chain(&self.tail);
        let skip = (self.head.len() + self.tail.len()).saturating_sub(LIVE_BYTES);
        let bytes: Vec<u8> = kept.skip(skip).copied().collect();
        let whole_lines = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if skip > 0 => &bytes[end + 1..],
            _ => &bytes[..],
        };
        let mark =
            if (whole_lines.len() as u64) < self.total { "[... earlier output ...]\n" } else { "" };
        format!("{mark}{}", plain(whole_lines))
    }

    fn is_binary(&self) -> bool {
        memchr::memchr(0, &self.head[..self.head.len().min(SNIFFED_BYTES)]).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(max_bytes: usize, pieces: &[&[u8]], expected: &str) {
        let mut output = OutputBuffer::new(max_bytes);
        for piece in pieces {
            output.push(piece);
        }
        assert_eq!(output.text(), expected);
    }

    #[test]
    fn output_that_fits_is_kept_whole() {
        check(100, &[], "");
        check(100, &[b"one\n", b"two\n"], "one\ntwo\n");
        check(8, &[b"1234", b"5678"], "12345678");
    }

    #[test]
    fn of_more_the_beginning_and_the_end_are_kept() {
        check(8, &[b"123456789"], "1234\n[... 1 bytes left out ...]\n6789");
        check(8, &[b"12", b"3456", b"7", b"89abcdef"], "1234\n[... 7 bytes left out ...]\ncdef");
        check(8, &[b"1234", &[b'x'; 1000], b"tail"], "1234\n[... 1000 bytes left out ...]\ntail");
    }

    #[test]
    fn a_smaller_buffer_has_the_beginning_and_the_end_of_all_that_was_written() {
        let mut output = OutputBuffer::new(16);
        output.push(b"12345678--------abcdefgh");
        let mut shrunk = output.shrunk(8);
        assert_eq!(shrunk.text(), "1234\n[... 16 bytes left out ...]\nefgh");
        shrunk.push(b"ij");
        assert_eq!(shrunk.text(), "1234\n[... 18 bytes left out ...]\nghij");
    }

    #[test]
    fn what_was_taken_is_not_returned_again_and_no_character_is_torn() {
        let mut output = OutputBuffer::new(8);
        output.push("one\u{20ac}".as_bytes());
        assert_eq!(output.take(), "one\u{20ac}");
        assert!(output.is_empty());
        output.push(b"a\xe2\x82");
        assert_eq!(output.take(), "a");
        assert!(output.is_empty());
        output.push(b"\xac23456789");
        assert_eq!(output.take(), "\u{20ac}2\n[... 3 bytes left out ...]\n6789");
        // Bytes that begin no character are not kept back.
        output.push(b"x\x82\x82\x82\x82");
        assert_eq!(output.take(), "x\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(output.take(), "");
    }

    #[test]
    fn what_is_no_text_is_only_counted() {
        check(100, &[b"\x7fELF\0\0\0", b"text"], "[binary output, 11 bytes]");
    }

    #[test]
    fn the_last_lines_are_shown_live() {
        let mut output = OutputBuffer::new(1 << 20);
        output.push(b"first\n");
        assert_eq!(output.live(), "first\n");
        output.push("x\n".repeat(10_000).as_bytes());
        let live = output.live();
        assert!(live.starts_with("[... earlier output ...]\nx\n") && live.len() < LIVE_BYTES + 30);
    }
}
