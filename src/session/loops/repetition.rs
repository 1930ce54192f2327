//! A text that says the same again and again, found while it streams in.
//!
//! Only prose counts: lists, tables, headings, quotes and code repeat themselves for good reason.

use memchr::memmem;

/// Bytes that come again.
const CHUNK: usize = 50;

/// How often they come before it counts as a loop.
const TIMES: usize = 10;

/// Bytes from one time to the next, at most.
const APART: usize = 250;

/// Bytes in which all of that is.
const WINDOW: usize = TIMES * APART + CHUNK;

/// Bytes of a line that tell what it is.
const BEGINNING: usize = 24;

/// What has been said so far, as far as that matters.
#[derive(Default)]
pub(super) struct Repetition {
    /// The prose since there was something else.
    prose: String,
    /// Bytes of it that have come since it was last looked at.
    new: usize,
    /// The beginning of the line at hand, until it is known what it is.
    line: String,
    /// What the line at hand is.
    kind: Option<Kind>,
    /// What ends the code at hand.
    fence: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prose,
    Other,
}

impl Repetition {
    /// Whether the text, with this much more, says the same again and again.
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

    fn take(&mut self, kind: Kind, part: &str) -> bool {
        if kind == Kind::Other {
            self.prose.clear();
            self.new = 0;
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
                self.new = 0;
                if self.comes_again() {
                    return true;
                }
            }
        }
        false
    }

    /// Whether the last bytes have come often, and not with something new each time in between.
    fn comes_again(&mut self) -> bool {
        let old = self.prose.len().saturating_sub(WINDOW);
        if old > 4 * WINDOW {
            self.prose.drain(..self.prose.floor_char_boundary(old));
        }
        let text = &self.prose.as_bytes()[self.prose.len().saturating_sub(WINDOW)..];
        let Some(chunk) = text.len().checked_sub(CHUNK).map(|at| &text[at..]) else { return false };
        let at: Vec<_> = memmem::find_iter(text, chunk).collect();
        if at.len() < TIMES {
            return false;
        }
        let mut between: Vec<_> = at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        between.sort_unstable();
        between.dedup();
        between.len() <= TIMES / 2
    }

    fn kind_of(&mut self, line: &str) -> Kind {
        let text = line.trim();
        let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence));
        if let Some(open) = self.fence {
            if fence == Some(open) {
                self.fence = None;
            }
            return Kind::Other;
        }
        self.fence = fence;
        let is_code = fence.is_some() || line.starts_with("    ") || line.starts_with('\t');
        if is_code || begins_block(text) { Kind::Other } else { Kind::Prose }
    }
}

/// Whether a line begins, or is in, something that is no prose.
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

    /// Whether a text is a loop; however it is cut into pieces.
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
        check(&"the ".repeat(300), true);
        check(&"a".repeat(1000), true);
        check(&"\n".repeat(1000), true);
        check(&"もう一度ファイルを見て、何があるか確かめてみましょう。".repeat(40), true);
        let paragraph = "I will now fix the test. First I read it, then I see why it fails, and then I \
                         change what has to be changed so that it passes, as it should.\n";
        check(&paragraph.repeat(15), true);
        let before = "A beginning with many different words in it, which is no loop at all. ";
        check(&format!("{before}{}", paragraph.repeat(15)), true);
        check(&format!("{}{before}", "word ".repeat(400)), true);
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
