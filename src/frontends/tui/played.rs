//! Output of a program as a terminal would show it: colours stay, and everything else that a terminal would obey is
//! left out.

use std::iter::Peekable;
use std::mem;
use std::str::Chars;

use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Span;

use super::wrap::TAB_COLUMNS;

/// Maximum number of bytes that are stored of an escape sequence's parameters.
const MAX_PARAMETERS: usize = 64;

/// Returns a program's output as a terminal would show it, without colours.
pub(super) fn played(text: &str) -> String {
    let lines = played_lines(text);
    let texts = lines.iter().map(|line| line.iter().map(|span| &*span.content).collect::<String>());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the lines of a program's output as a terminal would show them: without escape sequences and control
/// characters, with spaces for tabs. Of a line that was written over, as progress bars are, the last version is
/// returned. Text other than program output must not go through this function, because it hides a part of what was
/// written.
pub(super) fn played_lines(text: &str) -> Vec<Vec<Span<'static>>> {
    let mut player = Player::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => player.end_line(),
            '\r' if chars.peek().is_some_and(|next| *next != '\n' && *next != '\r') => {
                player.rewrite_line();
            }
            '\t' => {
                for _ in 0..TAB_COLUMNS - player.column % TAB_COLUMNS {
                    player.write(' ');
                }
            }
            '\u{1b}' => {
                if let Some(parameters) = skip_escape(&mut chars) {
                    player.style = styled(player.style, &parameters);
                }
            }
            // These characters change the order of the text on the screen, and are no part of the text.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => player.write(c),
        }
    }
    player.end_line();
    player.lines
}

/// State of the playback: lines so far, and the style of the next character.
#[derive(Default)]
struct Player {
    lines: Vec<Vec<Span<'static>>>,
    line: Vec<Span<'static>>,
    column: usize,
    style: Style,
}

impl Player {
    fn write(&mut self, c: char) {
        self.column += 1;
        match self.line.last_mut() {
            Some(span) if span.style == self.style => span.content.to_mut().push(c),
            _ => self.line.push(Span::styled(c.to_string(), self.style)),
        }
    }

    fn end_line(&mut self) {
        self.lines.push(mem::take(&mut self.line));
        self.column = 0;
    }

    fn rewrite_line(&mut self) {
        self.line.clear();
        self.column = 0;
    }
}

/// Skips the rest of an escape sequence; returns the sequence's parameters if it sets a style.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    match chars.next()? {
        '[' => {
            let mut parameters = String::new();
            for c in chars.by_ref() {
                match c {
                    'm' => return Some(parameters),
                    '@'..='~' => return None,
                    c if parameters.len() < MAX_PARAMETERS => parameters.push(c),
                    _ => {}
                }
            }
        }
        // A title or a link ends with a bell or `ESC \\`.
        ']' | 'P' | '_' | '^' | 'X' => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' {
                    break;
                }
                if c == '\u{1b}' {
                    chars.next();
                    break;
                }
            }
        }
        '(' | ')' | '#' => _ = chars.next(),
        _ => {}
    }
    None
}

/// Returns the style after a sequence that sets one. Backgrounds, black, white, blinking and hidden text are left out,
/// because the text must be readable on any screen.
fn styled(style: Style, parameters: &str) -> Style {
    if !parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';' || byte == b':') {
        return style;
    }
    let mut style = style;
    // Within a parameter, colons separate sub-parameters; only the first of them counts here.
    let mut numbers = parameters.split(';').map(|it| it.split(':').next().unwrap_or_default());
    while let Some(number) = numbers.next() {
        style = match number {
            "" | "0" | "00" => Style::new(),
            "1" | "01" => style.add_modifier(Modifier::BOLD),
            "2" | "02" => style.add_modifier(Modifier::DIM),
            "3" | "03" => style.add_modifier(Modifier::ITALIC),
            "4" | "04" => style.add_modifier(Modifier::UNDERLINED),
            "9" | "09" => style.add_modifier(Modifier::CROSSED_OUT),
            "22" => without(style, Modifier::BOLD | Modifier::DIM),
            "23" => without(style, Modifier::ITALIC),
            "24" => without(style, Modifier::UNDERLINED),
            "29" => without(style, Modifier::CROSSED_OUT),
            "31" | "91" => style.fg(Color::Red),
            "32" | "92" => style.fg(Color::Green),
            "33" | "93" => style.fg(Color::Yellow),
            "34" | "94" => style.fg(Color::Blue),
            "35" | "95" => style.fg(Color::Magenta),
            "36" | "96" => style.fg(Color::Cyan),
            "30" | "37" | "39" | "97" => Style { fg: None, ..style },
            "90" => Style { fg: None, ..style }.add_modifier(Modifier::DIM),
            // A colour of a larger palette: the numbers after it belong to the colour and are no styles.
            "38" | "48" | "58" => {
                let indexed = numbers.next();
                let count = if indexed == Some("2") { 3 } else { 1 };
                let index = numbers.by_ref().take(count).last();
                let colour = index.filter(|_| indexed == Some("5") && number == "38");
                Style { fg: colour.map_or(style.fg, indexed_colour), ..style }
            }
            _ => style,
        };
    }
    style
}

/// Returns the colour with this index of the palette, if it is one of the first sixteen; `None` for black and white.
fn indexed_colour(index: &str) -> Option<Color> {
    Some(match index {
        "1" | "9" => Color::Red,
        "2" | "10" => Color::Green,
        "3" | "11" => Color::Yellow,
        "4" | "12" => Color::Blue,
        "5" | "13" => Color::Magenta,
        "6" | "14" => Color::Cyan,
        _ => return None,
    })
}

fn without(style: Style, modifier: Modifier) -> Style {
    Style { add_modifier: style.add_modifier - modifier, ..style }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_played_until_nothing_is_left_that_a_terminal_would_obey() {
        let cases = [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink"),
            ("10%\r20%\r\nnext", "20%\nnext"),
            ("done\r", "done"),
            ("a\tb\n\tc", "a   b\n    c"),
            ("bell\x07 back\x08 c1\u{9b}31m", "bell back c131m"),
            ("\u{202e}evil", "evil"),
            ("end\x1b", "end"),
            ("\x1bPq\x1b\\after\x1b(B.", "after."),
            ("\x1b[2Jgone\x1b[1;1H\x1b[?1049h", "gone"),
            ("one\n", "one\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(played(text), expected, "{text:?}");
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, Style)]) {
        let lines = played_lines(text);
        let spans = lines.iter().flatten().map(|span| (&*span.content, span.style));
        assert_eq!(spans.collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn colours_of_an_output_are_kept() {
        let (plain, red) = (Style::new(), Style::new().fg(Color::Red));
        check("a\x1b[31mb\x1b[0mc", &[("a", plain), ("b", red), ("c", plain)]);
        check(
            "\x1b[1;91mb\x1b[22mc\x1b[39md",
            &[("b", red.add_modifier(Modifier::BOLD)), ("c", red), ("d", plain)],
        );
        check("\x1b[31mone\ntwo\x1b[m", &[("one", red), ("two", red)]);
        check("\x1b[38;5;9ma\x1b[38;2;1;4;9mb\x1b[48;5;1mc", &[("abc", red)]);
        check("\x1b[31mold\r\x1b[0mnew", &[("new", plain)]);
    }

    #[test]
    fn what_hides_text_is_no_colour() {
        let plain = Style::new();
        check("\x1b[8ma\x1b[30mb\x1b[37;47mc\x1b[7;5md\x1b[>4;1me", &[("abcde", plain)]);
    }
}
