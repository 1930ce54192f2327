//! The part of a text that a model is given in one answer.

use std::path::Path;

use memchr::memchr_iter;

use crate::line_numbers::numbered;
use tandem_content::shorten::first_chars;
use tandem_host::ToolLimits;
use tandem_host::preimages::ContentId;
use tandem_host::seen_files::SeenFiles;

/// Mark at the end of a line that was cut.
const CUT_MARK: &str = "... [truncated]";

/// Range of lines, counted from 1; the last line is included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpan {
    pub(crate) first: usize,
    /// Last line; `None` for the end of the text.
    pub(crate) last: Option<usize>,
}

impl LineSpan {
    pub(crate) const WHOLE_FILE: Self = Self { first: 1, last: None };
}

/// Choice whether the model is given lines with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineNumbers {
    /// With numbers, so that the model can refer to lines.
    Shown,
    /// Without numbers: the text is part of a prompt.
    Hidden,
}

/// Some lines of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    text: String,
    /// Number of the first line of the excerpt, counted from 1.
    pub(crate) first: usize,
    /// Number of the last line of the excerpt; less than `first` if the excerpt is empty.
    pub(crate) last: usize,
    /// Number of lines of the whole text.
    pub(crate) total: usize,
    /// Number of lines whose end was cut off.
    pub(crate) cut: usize,
    /// `true` if lines at the end of the wanted range are missing.
    is_short: bool,
}

impl Excerpt {
    /// Returns the wanted lines, as far as the limits allow and as long as they have together at most `max_chars`
    /// characters.
    pub(crate) fn new(text: &str, lines: LineSpan, limits: &ToolLimits, max_chars: usize) -> Self {
        let first = lines.first.max(1);
        let (last, total) = (first - 1, count(text));
        let mut excerpt = Self { text: String::new(), first, last, total, cut: 0, is_short: false };
        let end = lines.last.unwrap_or(usize::MAX).min(first.saturating_add(limits.read_lines) - 1);
        let mut left = max_chars;
        for line in text.split_inclusive('\n').skip(first - 1) {
            if excerpt.last >= end {
                break;
            }
            let body = line.strip_suffix('\n').unwrap_or(line);
            let kept = first_chars(body, limits.line_chars);
            let Some(rest) = left.checked_sub(kept.chars().count() + 1) else { break };
            left = rest;
            excerpt.last += 1;
            if kept.len() == body.len() {
                excerpt.text.push_str(line);
                continue;
            }
            excerpt.cut += 1;
            excerpt.text.push_str(kept);
            excerpt.text.push_str(CUT_MARK);
            excerpt.text.push_str(&line[body.len()..]);
        }
        excerpt.is_short = excerpt.last < lines.last.unwrap_or(usize::MAX).min(excerpt.total);
        excerpt
    }

    /// Returns whether the excerpt is the whole text.
    pub(crate) fn is_whole(&self) -> bool {
        self.first == 1 && self.last == self.total && self.cut == 0
    }

    /// Records which lines of a file the model is shown. A line whose end was cut off counts as shown.
    pub(crate) fn note_seen(&self, path: &Path, content: &[u8], seen: &SeenFiles) {
        seen.note_lines(path, ContentId::hash(content), self.first..=self.last, self.total);
    }

    /// Returns the lines with their numbers.
    pub(crate) fn numbered(&self) -> String {
        let lines = self.text.split_inclusive('\n').zip(self.first..);
        lines.map(|(line, number)| numbered(number, line).to_string()).collect()
    }

    /// Returns the lines, with their numbers or without. If lines of the file are missing, a heading says which lines
    /// follow and, if wanted lines are missing, how to read on.
    pub(crate) fn into_text(self, limits: &ToolLimits, numbers: LineNumbers) -> String {
        let is_whole = self.is_whole();
        let lines = match numbers {
            LineNumbers::Shown => self.numbered(),
            LineNumbers::Hidden => self.text,
        };
        if is_whole {
            return lines;
        }
        let Self { first, last, total, cut, is_short, .. } = self;
        let go_on = if is_short {
            format!(" To read on, call read_file with offset {}.", last + 1)
        } else {
            String::new()
        };
        let search = match cut {
            0 => String::new(),
            _ => format!(
                " Lines of more than {} characters ({cut} here) end in `{CUT_MARK}`; to see what is in \
                 the rest of them, search the file with grep_search.",
                limits.line_chars
            ),
        };
        format!("[Lines {first}-{last} of {total}.{go_on}{search}]\n\n{lines}")
    }
}

fn count(text: &str) -> usize {
    let ends = memchr_iter(b'\n', text.as_bytes()).count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, LineSpan};
    use tandem_host::ToolLimits;

    fn check(text: &str, lines: (usize, Option<usize>), expected: (&str, usize, usize, usize)) {
        let limits = ToolLimits { read_lines: 3, line_chars: 4, ..ToolLimits::default() };
        let (first, last) = lines;
        let found = Excerpt::new(text, LineSpan { first, last }, &limits, 12);
        assert_eq!((&*found.text, found.first, found.last, found.total), expected);
    }

    #[test]
    fn a_text_that_fits_is_whole() {
        check("", (1, None), ("", 1, 0, 0));
        check("\n", (1, None), ("\n", 1, 1, 1));
        check("a", (1, None), ("a", 1, 1, 1));
        check("a\n\nb", (1, None), ("a\n\nb", 1, 3, 3));
        check("a\r\nb\r\n", (1, None), ("a\r\nb\r\n", 1, 2, 2));
    }

    #[test]
    fn no_more_lines_than_are_wanted() {
        check("a\nb\nc\n", (2, Some(2)), ("b\n", 2, 2, 3));
        check("a\nb\nc\n", (2, None), ("b\nc\n", 2, 3, 3));
        check("a\nb\nc", (3, Some(9)), ("c", 3, 3, 3));
        check("a\nb\n", (4, None), ("", 4, 3, 2));
        check("a\nb\n", (usize::MAX, Some(usize::MAX)), ("", usize::MAX, usize::MAX - 1, 2));
    }

    #[test]
    fn no_more_lines_than_are_allowed() {
        check("a\nb\nc\nd\n", (1, None), ("a\nb\nc\n", 1, 3, 4));
        check("a\nb\nc\nd\ne", (2, Some(5)), ("b\nc\nd\n", 2, 4, 5));
    }

    #[test]
    fn no_more_characters_than_are_allowed() {
        check("1234\n1234\n1234\n", (1, None), ("1234\n1234\n", 1, 2, 3));
        check("äöüß\näöüß\nä\n", (1, None), ("äöüß\näöüß\nä\n", 1, 3, 3));
    }

    #[test]
    fn a_long_line_is_cut() {
        check("12345\nb\n", (1, None), ("1234... [truncated]\nb\n", 1, 2, 2));
        check("äöüßx", (1, None), ("äöüß... [truncated]", 1, 1, 1));
        check("1234", (1, None), ("1234", 1, 1, 1));
    }
}
