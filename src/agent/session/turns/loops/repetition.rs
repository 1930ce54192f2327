//! Detection of a text that repeats itself, while it streams in.
//!
//! Only exact repetition counts, and not the look of the text: the end of the text is one piece, over and over. Pieces
//! that differ by a byte each time are no repetition.

use memchr::memmem;

/// Longest piece that counts as repeated, in bytes.
const MAX_PERIOD: usize = 500;

/// Number of repetitions of a piece that count as a loop, within the two limits below.
const MIN_REPETITIONS: usize = 30;

/// Least number of repeated bytes that count as a loop. Harmless text has fewer: a rule of dashes, a bar of dots.
const MIN_REPEATED: usize = 1024;

/// Number of repeated bytes that always count as a loop, however long the piece is.
const MAX_REPEATED: usize = 4096;

/// Bytes of new text between two searches for a repetition. A search costs far more than adding a byte.
const LOOK_INTERVAL: usize = 256;

/// Length, in bytes, of the end of the text that is searched for in the text just before it. More bytes are compared
/// only where this end is found.
const PROBE_BYTES: usize = 16;

/// End of the text so far, as much of it as a search needs.
#[derive(Default)]
pub(super) struct Repetition {
    end: Vec<u8>,
    /// Bytes that were added since the last search.
    new: usize,
}

impl Repetition {
    /// Adds to the text. Returns `true` if the text now repeats itself.
    pub(super) fn add(&mut self, more: &str) -> bool {
        // Searches come at fixed places in the text, whatever the chunks are, so that chunks of any size give the same
        // result.
        let mut rest = more.as_bytes();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(LOOK_INTERVAL - self.new));
            rest = after;
            self.end.extend_from_slice(piece);
            self.new += piece.len();
            if self.new == LOOK_INTERVAL {
                self.new = 0;
                if self.repeats() {
                    return true;
                }
                self.forget();
            }
        }
        false
    }

    /// Removes the beginning of the text, which no search needs any more.
    fn forget(&mut self) {
        let old = self.end.len().saturating_sub(MAX_REPEATED + MAX_PERIOD);
        // A removal moves all bytes that follow, so it is done once for several searches.
        if old > MAX_REPEATED {
            self.end.drain(..old);
        }
    }

    /// Returns `true` if the text ends in one piece, over and over.
    fn repeats(&self) -> bool {
        let text = &self.end[..];
        let Some(last) = text.len().checked_sub(PROBE_BYTES) else { return false };
        let probe = &text[last..];
        let near = &text[last.saturating_sub(MAX_PERIOD)..text.len() - 1];
        let begin = last - last.saturating_sub(MAX_PERIOD);
        memmem::find_iter(near, probe).map(|at| begin - at).any(|period| {
            let needed = (MIN_REPETITIONS * period).clamp(MIN_REPEATED, MAX_REPEATED);
            text.len() >= needed && has_period(&text[text.len() - needed..], period)
        })
    }
}

/// Returns `true` if each byte of a text equals the byte `period` bytes before it.
fn has_period(text: &[u8], period: usize) -> bool {
    period < text.len() && text[period..] == text[..text.len() - period]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks if a text is found to be a loop, for chunks of several sizes.
    #[track_caller]
    fn check(text: &str, expected: bool) {
        for size in [1, 7, 64, 1000, usize::MAX] {
            let mut repetition = Repetition::default();
            let chars: Vec<char> = text.chars().collect();
            let mut pieces = chars.chunks(size.min(chars.len()).max(1));
            let found = pieces.any(|piece| repetition.add(&piece.iter().collect::<String>()));
            let shown: String = text.chars().take(80).collect();
            assert_eq!(found, expected, "in pieces of {size}: {shown}");
            assert!(repetition.end.len() <= 3 * MAX_REPEATED);
        }
    }

    /// Returns a text that is a piece over and over, of at least `MAX_REPEATED` bytes and one interval between
    /// searches.
    fn over_and_over(piece: &str) -> String {
        piece.repeat((MAX_REPEATED + LOOK_INTERVAL).div_ceil(piece.len()))
    }

    #[test]
    fn the_same_piece_again_and_again_is_a_loop_within_4_kb_in_any_kind_of_line() {
        for piece in [
            "Let me look at the file again to see what is in there. ",
            "Wait, that is not right. Let me think about it again.\n\n",
            "- [ ] Check the edge cases of the parser\n",
            "| yes  | it is as it should be, nothing to do |\n",
            "    assert_eq!(parse(input), expected);\n",
            "I will now fix the test. First I read it, then I see why it fails, and then I change what has to be \
             changed so that it passes, as it should, and then I run all of the tests once more to see.\n\n",
            "もう一度ファイルを見て、何があるか確かめてみましょう。",
            "the ",
        ] {
            check(&over_and_over(piece), true);
        }
        let code = format!("```rust\n{}", over_and_over("assert_eq!(f(1), 1);\n"));
        check(&code, true);
        let after = format!("A beginning with other words in it. {}", over_and_over("no\n"));
        check(&after, true);
    }

    #[test]
    fn thirty_times_is_a_loop_and_twenty_is_none() {
        let sentence = "Let me look at the file again to see what is in there. ";
        check(&sentence.repeat(30 + LOOK_INTERVAL / sentence.len() + 1), true);
        check(&sentence.repeat(20), false);
    }

    #[test]
    fn rules_bars_and_short_lists_are_none() {
        for text in [
            "=".repeat(200),
            "Waiting".to_owned() + &".".repeat(900),
            "Result: ".to_owned() + &"A".repeat(900) + "==",
            "\u{2500}".repeat(300),
            "- yes\n".repeat(100),
            "|------|------|\n| yes  | it is as it should be |\n".repeat(20),
            "0000 0000 0000 0000 0000 0000 0000 0000\n".repeat(20),
            "assert_eq!(f(1), \"it is as it should be\");\n".repeat(20),
            "NaN ".repeat(200),
            "✅ ✅ ✅ ✅ ✅ ✅ ✅ ✅\n".repeat(20),
            String::new(),
        ] {
            check(&text, false);
        }
    }

    #[test]
    fn pieces_that_differ_by_a_number_are_none_however_many_there_are() {
        for line in [
            "src/file{n}.rs: it is as it should be, and nothing has to be changed in it.\n",
            "Step {n} of 400 is done, and I go on with the next one of them without a break.\n\n",
            "| {n} | yes | it is as it should be |\n",
            "- [x] Item {n}\n",
            "{n}. Done.\n",
            "let x{n} = x.wrapping_mul({n});\n",
            "<li>Entry {n}</li>\n",
            "0x{n}, ",
            "INFO request {n} took 3 ms\n",
            "\"key{n}\": null,\n",
            "{n},0,0,0,0,0,0,0\n",
            "assert_eq!(square({n}), {n} * {n});\n",
            "CREATE TABLE t{n} (id INTEGER PRIMARY KEY);\n",
            "Verse {n}.\nAnd all of them sang the same old song, again and again.\n",
            "#define CODE_{n} {n}\n",
            "case {n}: return \"{n}\";\n",
            "{n}\n",
            "ACGTTGCA{n}ACGTTGCA\n",
            "{n}\t{n}\t{n}\n",
        ] {
            let text: String = (0..400).map(|n| line.replace("{n}", &n.to_string())).collect();
            check(&text, false);
        }
    }

    #[test]
    fn long_pieces_count_by_their_length() {
        let piece = (0..90).map(|n| n.to_string()).collect::<Vec<_>>().join(" and ");
        assert!(piece.len() > MAX_PERIOD, "too long to be a piece");
        check(&piece.repeat(20), false);
        let piece = &piece[..400];
        check(&piece.repeat(12), true);
        check(&piece.repeat(9), false);
    }
}
