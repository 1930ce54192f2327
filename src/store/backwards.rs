//! Reads the lines of a file from its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Number of bytes of the first read. Within a long line, each further read is as long as all reads before, so that
/// the line's bytes are not searched and copied too often.
const FIRST_READ_BYTES: usize = 16 << 10;

/// Reader of a file's lines, the last line first.
pub(crate) struct Backwards<'a> {
    file: &'a File,
    /// Bytes that were read and not returned yet; the first is at the offset `start` of the file.
    bytes: Vec<u8>,
    start: u64,
}

/// One line, with its newline if it has one.
pub(crate) struct Line {
    /// Offset of the line in the file.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Line {
    /// Returns `true` if the line was written to its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.bytes.ends_with(b"\n")
    }
}

impl<'a> Backwards<'a> {
    /// Returns a reader that begins at the end of the file's first `end` bytes.
    pub(crate) fn new(file: &'a File, end: u64) -> Self {
        Self { file, bytes: Vec::new(), start: end }
    }

    /// Returns the line before the last returned one; `None` at the beginning of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let body = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
            if let Some(newline) = memchr::memrchr(b'\n', body) {
                let bytes = self.bytes.split_off(newline + 1);
                return Ok(Some(Line { start: self.start + newline as u64 + 1, bytes }));
            }
            if self.start == 0 {
                let bytes = std::mem::take(&mut self.bytes);
                return Ok((!bytes.is_empty()).then_some(Line { start: 0, bytes }));
            }
            self.read_block()?;
        }
    }

    fn read_block(&mut self) -> io::Result<()> {
        let most = self.bytes.len().max(FIRST_READ_BYTES) as u64;
        let size = usize::try_from(most.min(self.start)).unwrap_or(FIRST_READ_BYTES);
        let mut block = vec![0; size];
        self.start -= size as u64;
        self.file.read_exact_at(&mut block, self.start)?;
        block.append(&mut self.bytes);
        self.bytes = block;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_lines_of_a_file_come_from_its_end_whatever_their_length() {
        let mut file = tempfile::tempfile().unwrap();
        let lines =
            ["a\n".to_owned(), "\n".to_owned(), "b".repeat(50_000) + "\n", "torn".to_owned()];
        file.write_all(lines.concat().as_bytes()).unwrap();
        let end = file.metadata().unwrap().len();
        let mut backwards = Backwards::new(&file, end);
        let mut read = Vec::new();
        while let Some(line) = backwards.next().unwrap() {
            assert_eq!(line.is_whole(), line.bytes != b"torn");
            read.push((line.start, String::from_utf8(line.bytes).unwrap()));
        }
        read.reverse();
        let starts = [0, 2, 3, 50_004];
        let expected: Vec<_> = starts.into_iter().zip(lines).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn an_empty_file_has_no_lines() {
        let file = tempfile::tempfile().unwrap();
        assert!(Backwards::new(&file, 0).next().unwrap().is_none());
    }
}
