//! Conversion of terminal output to plain text.

use std::sync::LazyLock;

use regex::Regex;

/// ECMA-48 control sequences: CSI, OSC, the other strings, and two-byte escapes.
static ESCAPE_SEQUENCES: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r"\x1b\[[0-?]*[ -/]*[@-~]",
        r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?",
        r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?",
        r"|\x1b[ -/]*[0-~]",
    );
    Regex::new(pattern).expect("the pattern is fixed")
});

/// Returns terminal output without escape sequences and control characters. Text that a carriage return overwrote is
/// removed, as on a screen.
pub fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = ESCAPE_SEQUENCES.replace_all(&text, "");
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let line = line.trim_end_matches('\r');
        let shown = line.rsplit('\r').next().unwrap_or(line);
        plain.extend(shown.chars().filter(|c| *c == '\t' || !c.is_control()));
        plain.push_str(end);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[track_caller]
    fn check(written: &str, expected: &str) {
        assert_eq!(plain(written.as_bytes()), expected);
    }

    #[test]
    fn colours_titles_and_cursor_movements_go() {
        check("\x1b[1;32mok\x1b[0m done", "ok done");
        check("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink");
        check("a\x1b[2K\x1b(Bb\x1b", "ab");
    }

    #[test]
    fn tabs_and_line_ends_stay() {
        check("a\tb\r\nc\n\nd", "a\tb\nc\n\nd");
    }

    #[test]
    fn what_a_carriage_return_overwrote_is_gone() {
        check("10%\r50%\r100%\nend", "100%\nend");
        check("waiting\r", "waiting");
    }

    #[test]
    fn bytes_that_are_no_text_are_marked() {
        assert_eq!(plain(b"a\xffb\x00c\x08"), "a\u{fffd}bc");
    }
}
