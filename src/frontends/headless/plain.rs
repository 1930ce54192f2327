//! Text from a model or a file, made safe for a terminal.

/// The text without what a terminal would obey: control characters are shown as pictures, but for
/// tabs and line ends; carriage returns are left out.
pub(super) fn plain(text: &str) -> String {
    let visible = |c: char| match c {
        '\r' => None,
        '\n' | '\t' => Some(c),
        '\0'..' ' => char::from_u32(0x2400 + u32::from(c)),
        '\u{7f}' => Some('\u{2421}'),
        '\u{80}'..='\u{9f}' => Some(char::REPLACEMENT_CHARACTER),
        c => Some(c),
    };
    text.chars().filter_map(visible).collect()
}

/// The same in one line of at most so many characters.
pub(super) fn line(text: &str, most: usize) -> String {
    let text = text.trim();
    let mut line: String = text.chars().take(most).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    plain(&line).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::{line, plain};

    #[test]
    fn a_terminal_is_not_given_orders() {
        assert_eq!(plain("a\tb\r\n\u{1b}[31mred\u{9b}m\u{7f}é"), "a\tb\n␛[31mred\u{fffd}m␡é");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\nb\u{7} ", 10), "a b␇");
        assert_eq!(line("äöüß", 3), "äöü…");
    }
}
