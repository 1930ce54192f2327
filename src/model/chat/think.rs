//! Splits reasoning off an answer that begins with `<think>`, where a server leaves it if it does not know the
//! model's format.

use std::mem;

const OPENING_TAG: &str = "<think>";
const CLOSING_TAG: &str = "</think>";
/// Maximum white space before the mark, in bytes.
const MAX_LEAD_BYTES: usize = 64;

/// A piece of text or of reasoning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SplitPiece {
    Text(String),
    Thought(String),
}

/// State of the splitter.
#[derive(Debug, Default)]
enum SplitterState {
    /// The text so far is white space, and perhaps the beginning of the mark.
    #[default]
    Beginning,
    Inside,
    /// The reasoning has ended, and only white space has followed.
    After,
    Outside,
}

/// A splitter of a text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    state: SplitterState,
    /// Text that may be the beginning of a mark, and is held until this is certain.
    held: String,
}

impl Splitter {
    /// Splits the next part of the text.
    pub(super) fn split(&mut self, more: String) -> Vec<SplitPiece> {
        if matches!(self.state, SplitterState::Outside) {
            return text(more).into_iter().collect();
        }
        self.held.push_str(&more);
        let mut pieces = Vec::new();
        loop {
            let held = mem::take(&mut self.held);
            match self.state {
                SplitterState::Beginning => {
                    let begins = held.trim_start();
                    if let Some(rest) = begins.strip_prefix(OPENING_TAG) {
                        self.state = SplitterState::Inside;
                        rest.clone_into(&mut self.held);
                        continue;
                    }
                    if OPENING_TAG.starts_with(begins) && held.len() <= MAX_LEAD_BYTES {
                        self.held = held;
                    } else {
                        self.state = SplitterState::Outside;
                        pieces.extend(text(held));
                    }
                }
                SplitterState::Inside => {
                    if let Some((thought, rest)) = held.split_once(CLOSING_TAG) {
                        self.state = SplitterState::After;
                        pieces.extend(self::thought(thought));
                        rest.clone_into(&mut self.held);
                        continue;
                    }
                    let kept = overlap(&held, CLOSING_TAG);
                    pieces.extend(thought(&held[..held.len() - kept]));
                    held[held.len() - kept..].clone_into(&mut self.held);
                }
                SplitterState::After => {
                    let rest = held.trim_start();
                    if !rest.is_empty() {
                        self.state = SplitterState::Outside;
                        pieces.extend(text(rest.to_owned()));
                    }
                }
                SplitterState::Outside => pieces.extend(text(held)),
            }
            return pieces;
        }
    }

    /// Returns the held text at the end of the answer.
    pub(super) fn end(&mut self) -> Option<SplitPiece> {
        let held = mem::take(&mut self.held);
        match self.state {
            SplitterState::Inside => thought(&held),
            SplitterState::Beginning | SplitterState::After | SplitterState::Outside => text(held),
        }
    }
}

/// Returns the number of bytes at the end of `text` that may be the beginning of `mark`.
fn overlap(text: &str, mark: &str) -> usize {
    let longest = mark.len().saturating_sub(1).min(text.len());
    (1..=longest).rev().find(|n| text.ends_with(&mark[..*n])).unwrap_or_default()
}

fn text(text: String) -> Option<SplitPiece> {
    (!text.is_empty()).then_some(SplitPiece::Text(text))
}

fn thought(thought: &str) -> Option<SplitPiece> {
    (!thought.is_empty()).then(|| SplitPiece::Thought(thought.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the result is the same however the text is cut.
    #[track_caller]
    fn check(input: &str, thoughts: &str, rest: &str) {
        for size in 1..=input.chars().count().max(1) {
            let mut splitter = Splitter::default();
            let (mut thought, mut said) = (String::new(), String::new());
            let letters: Vec<char> = input.chars().collect();
            let pieces = letters.chunks(size).map(String::from_iter);
            let mut all: Vec<_> = pieces.flat_map(|piece| splitter.split(piece)).collect();
            all.extend(splitter.end());
            for piece in all {
                match piece {
                    SplitPiece::Text(text) => said.push_str(&text),
                    SplitPiece::Thought(text) => thought.push_str(&text),
                }
            }
            assert_eq!((thought.as_str(), said.as_str()), (thoughts, rest), "{input} by {size}");
        }
    }

    #[test]
    fn what_is_marked_at_the_beginning_is_a_thought() {
        check("<think>hm</think>\n\nHello", "hm", "Hello");
        check("\n<think>\nh<m </thin k\n</think>Hello", "\nh<m </thin k\n", "Hello");
        check("<think></think>Hello", "", "Hello");
        check("<think>日本</think>日", "日本", "日");
    }

    #[test]
    fn reasoning_that_does_not_end_is_a_thought() {
        check("<think>hm", "hm", "");
        check("<think>hm</thi", "hm</thi", "");
        check("<think>hm</think>\n", "hm", "");
    }

    #[test]
    fn a_mark_anywhere_else_is_text() {
        check("Use <think>x</think>", "", "Use <think>x</think>");
        check("<thinking>x", "", "<thinking>x");
        check("<thin", "", "<thin");
        check("  hi", "", "  hi");
        let blank = "\n".repeat(100);
        check(&blank, "", &blank);
        check("<think>a</think>b<think>c</think>", "a", "b<think>c</think>");
    }
}
