//! The lines of one file that match, and the lines around them.

use std::fs::File;
use std::io::{self, Read};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};

use crate::blocking::Deadline;

/// Maximum length of a line in the result, in characters.
const LINE_CHARS: usize = 500;

/// Characters before the first match that a shortened line keeps.
const BEFORE_MATCH: usize = 100;

/// Lines to look for in each file.
#[derive(Clone)]
pub(super) struct LineQuery {
    pub(super) pattern: RegexMatcher,
    /// Pattern of lines that do not count, even if they match `pattern`.
    pub(super) but_not: Option<RegexMatcher>,
    /// Lines to keep around each match.
    pub(super) around: ContextLines,
    /// Maximum number of matches in one file; its search ends then.
    pub(super) max: usize,
    /// Maximum length of a line, in bytes; a longer line ends the search of its file with an error.
    pub(super) max_line: u64,
}

/// Numbers of lines around a match.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContextLines {
    pub(super) before: usize,
    pub(super) after: usize,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileLine {
    pub(super) number: u64,
    /// `true` if the line matches; `false` if the line is only near a line that does.
    pub(super) matches: bool,
    pub(super) text: String,
}

/// Lines found in one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileMatches {
    /// Lines, in their order.
    pub(super) kept: Vec<FileLine>,
    /// Number of lines that match.
    pub(super) matches: usize,
    /// `true` if the file has more matches.
    pub(super) more: bool,
    /// `true` if the file is not text.
    binary: bool,
}

impl FileMatches {
    /// Returns the number of the first line that matches.
    pub(super) fn first_match(&self) -> Option<u64> {
        self.kept.iter().find(|line| line.matches).map(|line| line.number)
    }

    /// Keeps only the first `max` matches and the lines near them.
    pub(super) fn truncate(&mut self, max: usize, around: ContextLines) {
        if self.matches <= max {
            return;
        }
        for line in self.kept.iter_mut().filter(|line| line.matches).skip(max) {
            line.matches = false;
        }
        (self.matches, self.more) = (max, true);
        self.keep_near(around);
    }

    /// Removes the lines that are near no match, or no longer near one.
    fn keep_near(&mut self, ContextLines { before, after }: ContextLines) {
        let matches = self.kept.iter().filter(|line| line.matches).map(|line| line.number);
        let near: Vec<_> = matches
            .map(|at| at.saturating_sub(before as u64)..=at.saturating_add(after as u64))
            .collect();
        let mut next = 0;
        self.kept.retain(|line| {
            next += near[next..].iter().take_while(|range| *range.end() < line.number).count();
            near.get(next).is_some_and(|range| range.contains(&line.number))
        });
    }
}

/// Returns a searcher that can search one file after the other with the same buffers.
pub(super) fn searcher(wanted: &LineQuery) -> Searcher {
    let ContextLines { before, after } = wanted.around;
    SearcherBuilder::new()
        .line_number(true)
        .before_context(before)
        .after_context(after)
        // A binary file has no lines to show, so its search ends at the first zero byte. A line must fit into memory.
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(usize::try_from(wanted.max_line).ok())
        .build()
}

/// Searches a file. The result is empty for a binary file.
pub(super) fn search(
    searcher: &mut Searcher,
    file: File,
    wanted: &LineQuery,
    until: &Deadline,
) -> io::Result<FileMatches> {
    let file = Stoppable { file, until };
    let mut sink = MatchCollector { wanted, found: FileMatches::default(), near_to: None };
    searcher.search_reader(&wanted.pattern, file, &mut sink)?;
    let mut found = sink.found;
    if found.binary {
        return Ok(FileMatches::default());
    }
    // The searcher also gave lines near matches that do not count or exceed the maximum.
    if found.more || wanted.but_not.is_some() {
        found.keep_near(wanted.around);
    }
    Ok(found)
}

/// A file whose reads fail once the search is over, so that the search of a long file ends.
struct Stoppable<'a> {
    file: File,
    until: &'a Deadline,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.until.over() {
            return Err(io::Error::other("the search is over"));
        }
        self.file.read(buffer)
    }
}

struct MatchCollector<'a> {
    wanted: &'a LineQuery,
    found: FileMatches,
    /// Number of the last line that is near the last match which counts.
    near_to: Option<u64>,
}

impl MatchCollector<'_> {
    fn push(&mut self, number: Option<u64>, matches: bool, bytes: &[u8]) {
        let from = if matches { self.wanted.pattern.find(bytes).ok().flatten() } else { None };
        let text = cut(bytes, from.map_or(0, |found| found.start()));
        self.found.kept.push(FileLine { number: number.unwrap_or(0), matches, text });
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let (number, bytes) = (line.line_number(), line.bytes());
        if self.wanted.but_not.as_ref().is_some_and(|not| not.is_match(bytes).unwrap_or(false)) {
            self.push(number, false, bytes);
            return Ok(true);
        }
        if self.found.matches >= self.wanted.max {
            self.found.more = true;
            self.push(number, false, bytes);
            // This match is one too many, but its line may still be near the last match that counts. The search goes on
            // until a match is no longer near the last match that counts.
            return Ok(number <= self.near_to);
        }
        self.near_to = number.map(|number| number.saturating_add(self.wanted.around.after as u64));
        self.found.matches += 1;
        self.push(number, true, bytes);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if *line.kind() != SinkContextKind::Other {
            self.push(line.line_number(), false, line.bytes());
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.found.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Returns a line; of a long line, the part around its byte `at`.
fn cut(line: &[u8], at: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    if text.len() <= LINE_CHARS || text.chars().count() <= LINE_CHARS {
        return text.into_owned();
    }
    // If the line has invalid UTF-8, the position is only roughly that of the match: the conversion changed its length.
    let at = text.floor_char_boundary(at);
    let begin = text[..at].char_indices().rev().nth(BEFORE_MATCH - 1).map_or(0, |(at, _)| at);
    let begin = if text[..at].chars().count() < LINE_CHARS - BEFORE_MATCH { 0 } else { begin };
    let rest = &text[begin..];
    let end = rest.char_indices().nth(LINE_CHARS).map_or(rest.len(), |(at, _)| at);
    let before = if begin > 0 { "[...] " } else { "" };
    let after = if end < rest.len() { "... [truncated]" } else { "" };
    format!("{before}{}{after}", &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::{ContextLines, FileLine, FileMatches, cut};

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let check = |line: &str, at, expected: &str| assert_eq!(cut(line.as_bytes(), at), expected);
        check("short\r\n", 0, "short");
        check("short", 99, "short");
        check(&"ä".repeat(500), 0, &"ä".repeat(500));
        let (a, b) = ("a".repeat(300), "b".repeat(300));
        check(&format!("{a}{b}"), 300, &format!("{a}{}... [truncated]", "b".repeat(200)));
        let (a, b) = ("ä".repeat(1000), "b".repeat(1000));
        check(
            &format!("{a}{b}\n"),
            2000,
            &format!("[...] {}{}... [truncated]", "ä".repeat(100), "b".repeat(400)),
        );
        check(&format!("{a}b"), 2000, &format!("[...] {}b", "ä".repeat(100)));
    }

    fn check(lines: &[(u64, bool)], max: usize, around: ContextLines, expected: &[u64]) {
        let line = |&(number, matches)| FileLine { number, matches, text: String::new() };
        let matches = lines.iter().filter(|line| line.1).count();
        let kept = lines.iter().map(line).collect();
        let mut lines = FileMatches { kept, matches, ..FileMatches::default() };
        lines.truncate(max, around);
        let kept: Vec<_> = lines.kept.iter().map(|line| line.number).collect();
        assert_eq!(kept, expected);
        assert_eq!((lines.matches, lines.more), (matches.min(max), matches > max));
    }

    #[test]
    fn only_so_many_matches_are_kept_and_what_is_near_them() {
        let lines = [(1, false), (2, true), (3, false), (4, false), (5, true), (9, true)];
        let around = |before, after| ContextLines { before, after };
        check(&lines, 9, around(1, 1), &[1, 2, 3, 4, 5, 9]);
        check(&lines, 3, around(0, 0), &[1, 2, 3, 4, 5, 9]);
        check(&lines, 2, around(1, 1), &[1, 2, 3, 4, 5]);
        check(&lines, 2, around(0, 0), &[2, 5]);
        check(&lines, 1, around(1, 1), &[1, 2, 3]);
        check(&lines, 1, around(0, 2), &[2, 3, 4]);
        check(&lines, 0, around(9, 9), &[]);
    }
}
