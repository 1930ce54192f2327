//! A text that says the same again and again, found while it streams in.
//!
//! Only prose counts at once: lists, tables, headings, quotes and code repeat themselves for good
//! reason, and so do dots, digits and equal lines of a log, of which a good deal is let through.

use std::collections::HashSet;

use memchr::memmem;

/// Bytes that come again.
const CHUNK: usize = 50;

/// Number of repetitions that count as a loop.
const TIMES: usize = 10;

/// Bytes from one time to the next, at most.
const APART: usize = 250;

/// Bytes in which all of that is.
const WINDOW: usize = TIMES * APART + CHUNK;

/// Repeated bytes that are let through where what is repeated is no prose: a bar of dots, Base64 of
/// zeros, equal log lines.
const LET_THROUGH: usize = 8 * 1024;

/// Distinct words of a sentence, at least.
const WORDS: usize = 3;

/// Bytes of a line that tell what it is.
const BEGINNING: usize = 24;

/// The end of the text so far, as far as repetitions are looked for in it.
#[derive(Default)]
pub(super) struct Repetition {
    /// The prose since there was something else.
    prose: String,
    /// Bytes of it that have come since it was last looked at.
    new: usize,
    /// Bytes that have repeated, without a break, something that is no prose.
    let_through: usize,
    /// The beginning of the line at hand, until it is known what it is.
    line: String,
    /// Kind of the current line.
    kind: Option<LineKind>,
    /// Mark that ends the current code block.
    fence: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Prose,
    Other,
}

impl Repetition {
    /// Adds to the text, and returns whether it now repeats itself.
    pub(super) fn add(&mut self, more: &str) -> bool {
        more.split_inclusive('\n').any(|part| self.add_to_line(part))
    }

    /// The same for what has no line end in it, but perhaps one at the end.
    fn add_to_line(&mut self, part: &str) -> bool {
        let ends = part.ends_with('\n');
        let known = self.kind;
        if known.is_none() {
            self.line.push_str(part);
            if !ends && self.line.len() < BEGINNING {
                return false;
            }
        }
        let line = std::mem::take(&mut self.line);
        let kind = known.unwrap_or_else(|| self.kind_of(&line));
        self.kind = Some(kind).filter(|_| !ends);
        self.take(kind, if known.is_some() { part } else { &line })
    }

    fn take(&mut self, kind: LineKind, part: &str) -> bool {
        if kind == LineKind::Other {
            self.prose.clear();
            (self.new, self.let_through) = (0, 0);
            return false;
        }
        // A piece at a time, so that what comes at once is found as what streams in is.
        let mut rest = part;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(CHUNK));
            rest = after;
            self.prose.push_str(piece);
            self.new += piece.len();
            if self.new >= CHUNK {
                let new = std::mem::take(&mut self.new);
                let is_prose = self.repeated().map(is_prose);
                self.let_through = if is_prose == Some(false) { self.let_through + new } else { 0 };
                if is_prose == Some(true) || self.let_through > LET_THROUGH {
                    return true;
                }
            }
        }
        false
    }

    /// Returns the text from one occurrence of the last bytes to the next, if these bytes have come
    /// often, and not with something new each time in between.
    fn repeated(&mut self) -> Option<&str> {
        let old = self.prose.len().saturating_sub(WINDOW);
        if old > 4 * WINDOW {
            self.prose.drain(..self.prose.floor_char_boundary(old));
        }
        let begin = self.prose.ceil_char_boundary(self.prose.len().saturating_sub(WINDOW));
        let text = &self.prose.as_bytes()[begin..];
        let chunk = &text[text.len().checked_sub(CHUNK)?..];
        let at: Vec<_> = memmem::find_iter(text, chunk).collect();
        if at.len() < TIMES {
            return None;
        }
        let mut between: Vec<_> = at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        between.sort_unstable();
        between.dedup();
        if between.len() > TIMES / 2 {
            return None;
        }
        let [first, second, ..] = at[..] else { return None };
        let boundary = |at: usize| self.prose.floor_char_boundary(begin + at);
        Some(&self.prose[boundary(first)..boundary(second)])
    }

    fn kind_of(&mut self, line: &str) -> LineKind {
        let text = line.trim();
        let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence));
        if let Some(open) = self.fence {
            if fence == Some(open) {
                self.fence = None;
            }
            return LineKind::Other;
        }
        self.fence = fence;
        let is_code = fence.is_some() || line.starts_with("    ") || line.starts_with('\t');
        if is_code || begins_block(text) { LineKind::Other } else { LineKind::Prose }
    }
}

/// Returns whether what is repeated consists of sentences.
fn is_prose(repeated: &str) -> bool {
    // Where it begins is chance: words and lines are whole only inside two of them in a row.
    let twice = repeated.repeat(2);
    let has_letter = |word: &&str| word.chars().any(char::is_alphabetic);
    let words: HashSet<_> = whole(twice.split_whitespace()).filter(has_letter).collect();
    // Chinese and Japanese have no spaces between words.
    let foreign: HashSet<_> =
        repeated.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).collect();
    let has_words = words.len() >= WORDS || foreign.len() >= 2 * WORDS;
    has_words && whole(twice.split('\n')).all(is_sentence)
}

/// Returns the parts without the first and the last, which may be cut.
fn whole<'a>(parts: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut parts = parts.skip(1).peekable();
    std::iter::from_fn(move || parts.next().filter(|_| parts.peek().is_some()))
}

/// Returns whether a line is a sentence (or empty) rather than a line of a log, a list or a table.
fn is_sentence(line: &str) -> bool {
    let line = line.trim();
    let Some(word) = line.split_whitespace().next() else { return true };
    let is_level = word.chars().filter(|c| c.is_alphabetic()).all(char::is_uppercase)
        && word.chars().count() > 1;
    let begins = word.starts_with(|c: char| c.is_uppercase() || !c.is_ascii()) && !is_level;
    begins && line.ends_with(['.', '!', '?', '。', '！', '？']) && !line.ends_with("...")
}

/// Returns whether a line begins, or is in, a block that is not prose.
fn begins_block(text: &str) -> bool {
    let marked = |marks: &[char]| {
        text.strip_prefix(marks).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < text.len() && number.starts_with(['.', ')', ':']);
    let is_rule = text.len() >= 3 && !text.contains(|c: char| c.is_alphanumeric());
    marked(&['-', '*', '+', '•'])
        || is_numbered
        || is_rule
        || text.starts_with(['|', '>', '#', '<', '{', '}', '[', ']'])
        || text.contains(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether a text is a loop, in whatever pieces it comes.
    #[track_caller]
    fn check(text: &str, expected: bool) {
        for size in [1, 7, 64, 1000, usize::MAX] {
            let mut repetition = Repetition::default();
            let chars: Vec<char> = text.chars().collect();
            let mut pieces = chars.chunks(size.min(chars.len()).max(1));
            let found = pieces.any(|piece| repetition.add(&piece.iter().collect::<String>()));
            assert_eq!(found, expected, "in pieces of {size}: {text}");
            assert!(repetition.prose.len() <= 6 * WINDOW);
        }
    }

    #[test]
    fn the_same_words_again_and_again_are_a_loop() {
        check(&"Let me look at the file again to see what is in there. ".repeat(15), true);
        check(&"Wait, that is not right. Let me think about it again.\n\n".repeat(15), true);
        check(&"Wait, that is not right. Let me think about it again.\n".repeat(15), true);
        check(&"the ".repeat(3000), true);
        check(&"a".repeat(12_000), true);
        check(&"\n".repeat(12_000), true);
        check(&"もう一度ファイルを見て、何があるか確かめてみましょう。".repeat(40), true);
        let paragraph = "I will now fix the test. First I read it, then I see why it fails, and then I \
                         change what has to be changed so that it passes, as it should.\n";
        check(&paragraph.repeat(15), true);
        let before = "A beginning with many different words in it, which is no loop at all. ";
        check(&format!("{before}{}", paragraph.repeat(15)), true);
        check(&format!("{}{before}", "word ".repeat(2000)), true);
    }

    #[test]
    fn what_comes_a_few_times_or_far_apart_is_none() {
        check("", false);
        check(&"Let me look at the file again to see what is in there. ".repeat(9), false);
        let paragraph = (0..60).map(|n| n.to_string()).collect::<Vec<_>>().join(" and then ");
        check(&paragraph.repeat(12), false);
    }

    #[test]
    fn lists_tables_headings_quotes_and_code_are_none() {
        for begin in ["- ", "* ", "+ ", "1. ", "12) ", "> ", "## ", "| ", "    ", "\t", "  - "] {
            check(
                &format!("{begin}It is as it should be, and nothing has to be done.\n").repeat(30),
                false,
            );
        }
        check(&"name | it is as it should be | nothing has to be done here\n".repeat(30), false);
        check(
            &"|------|------|\n| yes  | it is as it should be, nothing to do |\n".repeat(30),
            false,
        );
        check(
            &format!(
                "```rust\n{}```\n",
                "assert_eq!(f(1), \"it is as it should be\");\n".repeat(40)
            ),
            false,
        );
        check(
            &format!(
                "~~~\n```\n{}~~~\n",
                "It is as it should be, and nothing is to do.\n".repeat(40)
            ),
            false,
        );
        check(&"<li>It is as it should be, and nothing has to be done.</li>\n".repeat(40), false);
        check(&format!("{}\n", "=".repeat(60)).repeat(30), false);
    }

    #[test]
    fn what_programs_print_is_none() {
        for text in [
            "Waiting".to_owned() + &".".repeat(600),
            "Waiting ".to_owned() + &". ".repeat(600),
            "Result: ".to_owned() + &"A".repeat(3000) + "==",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n".repeat(60),
            "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7".repeat(40),
            "INFO connection to the database was refused, retrying\n".repeat(60),
            "Connection to the database was refused, retrying...\n".repeat(60),
            "2026-01-01T00:00:00Z WARN cache: the entry was not found\n".repeat(60),
            "warning: unused variable: `x` in src/main.rs\n".repeat(60),
            "npm warn deprecated a package that nobody maintains any more.\n".repeat(60),
            "test result: ok. 5 passed; 0 failed; 0 ignored\n".repeat(60),
            "PASS  src/components/button.test.js (0.1 s)\n".repeat(60),
            "GET /health HTTP/1.1 200 OK by the load balancer\n".repeat(60),
            "name      type      value     comment\n".repeat(60),
            "alpha\tbeta\tgamma\tdelta\tepsilon\n".repeat(60),
            "alice,admin,true,the first one,2026\n".repeat(60),
            "0000 0000 0000 0000 0000 0000 0000 0000\n".repeat(60),
            "00000010: 0000 0000 0000 0000 0000 0000  ................\n".repeat(60),
            "0.0, 0.0, 0.0, 0.0, ".repeat(150),
            "ACGT".repeat(500),
            "01".repeat(1500),
            "NaN ".repeat(500),
            "ha".repeat(500),
            "✅ ✅ ✅ ✅ ✅ ✅ ✅ ✅\n".repeat(60),
            "Progress: 50% [=====     ] done with the first half\n".repeat(60),
            "INSERT INTO users VALUES (NULL, 'somebody', 'else');\n".repeat(60),
            "\u{2500}".repeat(600),
            "x".to_owned() + &"-".repeat(600),
            "Compiling the library of the program\n".repeat(60),
        ] {
            check(&text, false);
        }
    }

    #[test]
    fn after_code_prose_counts_again() {
        let prose = "Let me look at the file again to see what is in there. ".repeat(15);
        check(&format!("```\nx\n```\n{prose}"), true);
        check(&format!("```\nx\n{prose}\n```\n"), false);
    }

    #[test]
    fn lines_that_differ_a_little_are_none() {
        let line = |n: u32| {
            format!("src/file{n}.rs: it is as it should be, and nothing has to be changed in it.\n")
        };
        check(&(0..40).map(line).collect::<String>(), false);
        let step = |n: u32| {
            format!(
                "Step {n} of 40 is done, and I go on with the next one of them without a break.\n\n"
            )
        };
        check(&(0..40).map(step).collect::<String>(), false);
        let refrain = |n: u32| {
            format!(
                "Verse {n} goes {}.\nAnd all of them sang the same old song, again and again.\n",
                n * 77
            )
        };
        check(&(0..20).map(refrain).collect::<String>(), false);
    }
}
