//! Text in which every character can be seen, so that the text that a person approves is the text that is written or
//! run.
//!
//! A terminal obeys control characters. Most fonts show nothing for zero-width characters. Bidirectional characters
//! reorder the text beside them. A question, a diff or a label with such characters could show one thing and mean
//! another.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Notice beside a question in which hidden characters are written out.
pub const HIDDEN_NOTICE: &str =
    "This text has hidden characters. They are written out, as ␍ or <U+202E>.";

/// Returns the text with hidden characters written out: control characters as pictures (`␍`, `␛`),
/// the others by code point (`<U+202E>`). Tabs and line feeds stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    write_out(text, hidden(text).filter(|(_, c)| !matches!(c, '\n' | '\t')))
}

/// Returns the text as one line, for a path or a title: like [`visible`], with line feeds and tabs
/// as `\n` and `\t`.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    write_out(text, hidden(text))
}

/// Returns prose with the characters written out that a screen would obey: control characters and bidirectional
/// characters. Carriage returns are left out. Other hidden characters stay, because many scripts and emoji need them:
/// the function is for text of a model, not for text that a person approves. Each character is judged alone, so a text
/// may come in pieces.
pub fn visible_prose(text: &str) -> Cow<'_, str> {
    match write_out(text, text.char_indices().filter(|(_, c)| is_obeyed(*c) && *c != '\r')) {
        shown if shown.contains('\r') => Cow::Owned(shown.replace('\r', "")),
        shown => shown,
    }
}

/// Returns JSON with its hidden characters as `\u` escapes: a program reads the same values from the result, and a
/// terminal shows every character of it.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    // Outside of strings JSON is ASCII, and control characters in strings are escaped already.
    let hidden = json.char_indices().filter(|(_, c)| is_hidden(*c) && !matches!(c, '\0'..' '));
    for (at, c) in hidden {
        out.push_str(&json[copied..at]);
        copied = at + c.len_utf8();
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// Returns `true` if [`visible`] would change the text.
pub fn has_hidden(text: &str) -> bool {
    hidden(text).any(|(_, c)| !matches!(c, '\n' | '\t'))
}

/// Returns the text with the characters in `hidden` written out. Each is given with its byte offset.
fn write_out(text: &str, hidden: impl Iterator<Item = (usize, char)>) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (at, c) in hidden {
        out.push_str(&text[copied..at]);
        copied = at + c.len_utf8();
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => out.push('␡'),
            // Writing to a string cannot fail.
            c => _ = write!(out, "<U+{:04X}>", u32::from(c)),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Returns each hidden character of the text with its byte offset, including line feeds and tabs.
fn hidden(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut before = None;
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (at, c) = chars.next()?;
            let after = chars.peek().map(|(_, next)| *next);
            let is_hidden = is_hidden(c) && !joins_emoji(before, c, after);
            before = Some(c);
            if is_hidden {
                return Some((at, c));
            }
        }
    })
}

/// Returns `true` if a character cannot be seen, or not be told from a space: control characters,
/// Unicode's default-ignorable code points (zero-width, bidirectional, tags, variation selectors),
/// separators, and spaces that are no U+0020. The ideographic space is as wide as a letter and stays.
fn is_hidden(c: char) -> bool {
    // Nearly all text is ASCII.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
        | '\u{1680}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns `true` if `c` is a joiner or an emoji selector in a place where an emoji needs it: its effect can be seen.
fn joins_emoji(before: Option<char>, c: char, after: Option<char>) -> bool {
    match c {
        '\u{200d}' => {
            let before = before.is_some_and(|before| before == '\u{fe0f}' || is_emoji(before));
            before && after.is_some_and(is_emoji)
        }
        // A keycap is a digit, U+FE0F and U+20E3.
        '\u{fe0f}' => before.is_some_and(is_emoji) || after == Some('\u{20e3}'),
        _ => false,
    }
}

/// Returns `true` if a screen obeys a character: a control character, a character with Unicode's property
/// `Bidi_Control`, or a separator of lines or paragraphs.
fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        c => c.is_control(),
    }
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{23ff}' | '\u{24c2}' | '\u{25aa}'..='\u{27bf}'
        | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::{escaped_json, has_hidden, visible, visible_line, visible_prose};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(visible(text), expected, "{text:?}");
        assert_eq!(has_hidden(text), text != expected, "{text:?}");
    }

    #[test]
    fn characters_that_a_terminal_obeys_are_shown_as_pictures() {
        check("import os; os.system(x)\r# harmless", "import os; os.system(x)␍# harmless");
        check("\u{1b}]0;title\u{7}a\u{1b}[2K\u{8}\0\u{7f}", "␛]0;title␇a␛[2K␈␀␡");
        check("\u{9b}31m\u{85}", "<U+009B>31m<U+0085>");
        check("a\tb\nc", "a\tb\nc");
    }

    #[test]
    fn characters_that_take_no_room_or_reorder_text_are_shown_by_code_point() {
        for c in [
            '\u{202e}',
            '\u{2066}',
            '\u{200b}',
            '\u{200e}',
            '\u{200d}',
            '\u{feff}',
            '\u{ad}',
            '\u{61c}',
            '\u{2028}',
            '\u{e0041}',
            '\u{fe0f}',
            '\u{3164}',
            '\u{a0}',
            '\u{2009}',
            '\u{2063}',
        ] {
            check(&format!("a{c}b"), &format!("a<U+{:04X}>b", u32::from(c)));
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "",
            "plain",
            "日本語\u{3000}です",
            "naïve e\u{301}",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
            "שלום",
            "␛",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn prose_gives_no_orders_and_keeps_what_scripts_need() {
        assert_eq!(visible_prose("a\r\n\tb\u{1b}[2K\u{9b}\u{7f}"), "a\n\tb␛[2K<U+009B>␡");
        assert_eq!(visible_prose("\u{202e}\u{2069}\u{200f}"), "<U+202E><U+2069><U+200F>");
        for text in ["می\u{200c}خواهم", "«\u{a0}oui\u{a0}»", "👩\u{200d}", "\u{fe0f}", "שלום"]
        {
            assert_eq!(visible_prose(text), text);
        }
    }

    #[test]
    fn json_is_exact_and_shows_all_of_it() {
        assert_eq!(
            escaped_json("{\n \"a\u{9b}\u{202e}\u{7f}\": \"\u{e0041} é\"\n}"),
            "{\n \"a\\u009b\\u202e\\u007f\": \"\\udb40\\udc41 é\"\n}"
        );
    }

    #[test]
    fn a_path_is_one_line() {
        assert_eq!(visible_line("a\nb\tc\r"), "a\\nb\\tc␍");
        assert_eq!(visible_line("src/main.rs"), "src/main.rs");
        assert!(!has_hidden("a\nb"));
    }
}
