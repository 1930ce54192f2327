//! Decoder of a terminal's bytes into keys and pasted text. The decoder is pure, and the bytes may be cut into pieces
//! at any place.
//!
//! The decoder understands three encodings at once: the old one, kitty's keyboard protocol (`CSI 13;2u`) and xterm's
//! modifyOtherKeys (`CSI 27;2;13~`).

use std::time::Duration;

/// Time limit for the byte after an escape character: without such a byte, the character is the Esc key. A slow line
/// may delay the rest of a sequence by 60 ms and more, and a sequence mistaken for Esc would cancel a turn.
const ESCAPE_WAIT: Duration = Duration::from_millis(100);

/// Time limit for the next byte of an incomplete sequence or character. No key ends by this limit, so it can be long.
const REST_WAIT: Duration = Duration::from_millis(500);

/// Maximum time without a byte within a paste. The end of the paste may never come, and until then keys would be taken
/// for pasted text.
const PASTE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of an escape sequence, in bytes: no key has a longer one.
const MAX_SEQUENCE_BYTES: usize = 64;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// An input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum TerminalInput {
    Key(KeyPress),
    /// Text pasted in one piece.
    Paste(String),
    /// The beginning of a pasted text whose end did not come.
    PartOfPaste(String),
}

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct KeyPress {
    pub(in super::super) code: Code,
    pub(in super::super) shift: bool,
    pub(in super::super) alt: bool,
    pub(in super::super) control: bool,
}

/// A key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Code {
    /// Character that the key writes, with Shift if that is held; in lower case with Ctrl.
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Esc,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

impl KeyPress {
    pub(in super::super) const fn new(code: Code) -> Self {
        Self { code, shift: false, alt: false, control: false }
    }

    /// Returns whether the key is the character `c` with Ctrl.
    pub(in super::super) fn is_control(self, c: char) -> bool {
        self.control && self.code == Code::Char(c)
    }

    const fn control(c: char) -> Self {
        Self { control: true, ..Self::new(Code::Char(c)) }
    }

    const fn with_alt(self) -> Self {
        Self { alt: true, ..self }
    }
}

/// Decoder, and its bytes that are not decoded yet.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// Number of bytes that were searched for the end of the paste already; `None` outside of a paste.
    paste: Option<usize>,
}

/// Meaning of the first bytes.
enum DecodeStep {
    /// Number of bytes that are this key; `None` if they are no key that counts.
    Took(usize, Option<KeyPress>),
    /// Number of bytes that begin a paste.
    Paste(usize),
    /// The meaning is not known before more bytes come.
    More,
}

impl Decoder {
    /// Takes in bytes as they were read; returns all inputs that are complete now.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<TerminalInput> {
        let mut inputs = Vec::new();
        // A Ctrl+C that was read on its own was pressed, not pasted, so it must work even within a paste whose end does
        // not come.
        if self.paste.is_some()
            && let Some(count) = interrupts(bytes)
        {
            inputs.extend(self.cut_paste());
            inputs.extend(std::iter::repeat_n(TerminalInput::Key(KeyPress::control('c')), count));
            return inputs;
        }
        self.bytes.extend_from_slice(bytes);
        self.decode(&mut inputs, false);
        inputs
    }

    /// Returns the time limit for the next byte of an incomplete input; `None` if no input is incomplete.
    pub(super) fn patience(&self) -> Option<Duration> {
        if self.paste.is_some() {
            return Some(PASTE_TIMEOUT);
        }
        let has_begun = self.bytes.iter().any(|byte| *byte != b'\x1b');
        let wait = if has_begun { REST_WAIT } else { ESCAPE_WAIT };
        (!self.bytes.is_empty()).then_some(wait)
    }

    /// Returns the meaning of the bytes of an incomplete input whose rest has not come in time.
    pub(super) fn expire(&mut self) -> Vec<TerminalInput> {
        let mut inputs = Vec::new();
        // If this process did not run for a while, Ctrl+C is read in one piece with the paste's text.
        let pressed = self.paste.and_then(|_| self.take_interrupts());
        inputs.extend(self.cut_paste());
        let key = TerminalInput::Key(KeyPress::control('c'));
        inputs.extend(std::iter::repeat_n(key, pressed.unwrap_or(0)));
        self.decode(&mut inputs, true);
        inputs
    }

    /// Removes presses of Ctrl+C from the end of the bytes; returns their number.
    fn take_interrupts(&mut self) -> Option<usize> {
        let longest = self.bytes.len().saturating_sub(MAX_SEQUENCE_BYTES);
        let mut ends = longest..self.bytes.len();
        let (at, count) = ends.find_map(|at| Some((at, interrupts(&self.bytes[at..])?)))?;
        self.bytes.truncate(at);
        Some(count)
    }

    fn decode(&mut self, inputs: &mut Vec<TerminalInput>, expired: bool) {
        let mut taken = 0;
        loop {
            let rest = &self.bytes[taken..];
            if let Some(searched) = self.paste {
                let from = searched.saturating_sub(PASTE_ENDS.len());
                let Some(end) = find(&rest[from..], PASTE_ENDS).map(|at| from + at) else {
                    self.paste = Some(rest.len());
                    break;
                };
                inputs
                    .push(TerminalInput::Paste(String::from_utf8_lossy(&rest[..end]).into_owned()));
                taken += end + PASTE_ENDS.len();
                self.paste = None;
                continue;
            }
            match step(rest, expired) {
                DecodeStep::Took(count, key) => {
                    inputs.extend(key.map(TerminalInput::Key));
                    taken += count;
                }
                DecodeStep::Paste(count) => {
                    taken += count;
                    self.paste = Some(0);
                }
                DecodeStep::More => break,
            }
        }
        self.bytes.drain(..taken);
    }

    /// Ends an incomplete paste, if there is one, and returns its text so far.
    fn cut_paste(&mut self) -> Option<TerminalInput> {
        self.paste.take()?;
        let bytes = std::mem::take(&mut self.bytes);
        Some(TerminalInput::PartOfPaste(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Returns the number of times that Ctrl+C was pressed, if the bytes contain nothing else.
fn interrupts(bytes: &[u8]) -> Option<usize> {
    if bytes.len() > MAX_SEQUENCE_BYTES {
        return None;
    }
    let mut alone = Decoder::default();
    let inputs = alone.feed(bytes);
    let all = inputs.iter().all(|input| *input == TerminalInput::Key(KeyPress::control('c')));
    (all && !inputs.is_empty() && alone.patience().is_none()).then_some(inputs.len())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn step(bytes: &[u8], expired: bool) -> DecodeStep {
    match bytes {
        [] => DecodeStep::More,
        [b'\x1b', rest @ ..] => match escape(rest, expired) {
            DecodeStep::Took(count, key) => DecodeStep::Took(count + 1, key),
            DecodeStep::Paste(count) => DecodeStep::Paste(count + 1),
            DecodeStep::More => DecodeStep::More,
        },
        [byte, ..] if byte.is_ascii() => DecodeStep::Took(1, Some(ascii(*byte))),
        _ => wide(bytes, expired),
    }
}

fn ascii(byte: u8) -> KeyPress {
    match byte {
        b'\r' => KeyPress::new(Code::Enter),
        b'\t' => KeyPress::new(Code::Tab),
        b'\x7f' => KeyPress::new(Code::Backspace),
        0 => KeyPress::control(' '),
        byte @ 1..=26 => KeyPress::control(char::from(b'a' + byte - 1)),
        byte @ 27..=31 => KeyPress::control(char::from(b'[' + byte - 27)),
        byte => KeyPress::new(Code::Char(char::from(byte))),
    }
}

/// Decodes a character of several bytes (UTF-8).
fn wide(bytes: &[u8], expired: bool) -> DecodeStep {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(err) if err.valid_up_to() == 0 && err.error_len().is_none() && !expired => {
            return DecodeStep::More;
        }
        Err(err) => std::str::from_utf8(&head[..err.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(c) => DecodeStep::Took(c.len_utf8(), Some(KeyPress::new(Code::Char(c)))),
        None => DecodeStep::Took(1, None),
    }
}

/// Decodes the bytes after an escape character.
fn escape(rest: &[u8], expired: bool) -> DecodeStep {
    let alone = DecodeStep::Took(0, Some(KeyPress::new(Code::Esc)));
    let step = match rest {
        [] if expired => return alone,
        [] => return DecodeStep::More,
        [b'[', rest @ ..] => csi(rest),
        [b'O', rest @ ..] => ss3(rest),
        [b'\x1b', next @ ..] => {
            // For a key with Alt, some terminals send a further escape character before the key's sequence.
            let sequence = matches!(next, [] | [b'[' | b'O', ..]);
            let step = if sequence { escape(next, expired) } else { return alone };
            return match step {
                DecodeStep::Took(count, Some(key)) if count > 0 => {
                    DecodeStep::Took(count + 1, Some(key.with_alt()))
                }
                DecodeStep::Took(0, _) | DecodeStep::Paste(_) => alone,
                DecodeStep::Took(count, key) => DecodeStep::Took(count + 1, key),
                DecodeStep::More if expired => alone,
                DecodeStep::More => DecodeStep::More,
            };
        }
        _ => {
            return match step(rest, expired) {
                DecodeStep::Took(count, key) => {
                    DecodeStep::Took(count, key.map(KeyPress::with_alt))
                }
                more => more,
            };
        }
    };
    match step {
        DecodeStep::Took(count, key) => DecodeStep::Took(count + 1, key),
        DecodeStep::Paste(count) => DecodeStep::Paste(count + 1),
        // Alt with the key `[` or `O` sends the same bytes as the beginning of a sequence.
        DecodeStep::More if expired && rest.len() == 1 => {
            DecodeStep::Took(1, Some(ascii(rest[0]).with_alt()))
        }
        DecodeStep::More if expired => DecodeStep::Took(rest.len(), None),
        DecodeStep::More => DecodeStep::More,
    }
}

/// Decodes the bytes after `ESC O`.
fn ss3(rest: &[u8]) -> DecodeStep {
    match rest {
        [] => DecodeStep::More,
        [b'M', ..] => DecodeStep::Took(1, Some(KeyPress::new(Code::Enter))),
        [letter, ..] => match arrow(*letter) {
            Some(code) => DecodeStep::Took(1, Some(KeyPress::new(code))),
            None if letter.is_ascii_alphabetic() => DecodeStep::Took(1, None),
            None => DecodeStep::Took(0, Some(KeyPress::new(Code::Char('O')).with_alt())),
        },
    }
}

/// Decodes the bytes after `ESC [`.
fn csi(rest: &[u8]) -> DecodeStep {
    let length = rest.iter().take_while(|byte| (b' '..=b'?').contains(byte)).count();
    if length > MAX_SEQUENCE_BYTES {
        return DecodeStep::Took(length, None);
    }
    let Some(last) = rest.get(length) else { return DecodeStep::More };
    match last {
        // Linux's console sends its first function keys in this form: `ESC [ [` and a letter.
        b'[' if length == 0 => match rest.get(1) {
            Some(letter) if letter.is_ascii_alphabetic() => DecodeStep::Took(2, None),
            Some(_) => DecodeStep::Took(1, None),
            None => DecodeStep::More,
        },
        b'@'..=b'~' if rest[..=length] == PASTE_BEGINS[2..] => DecodeStep::Paste(length + 1),
        b'@'..=b'~' => {
            let parameters = std::str::from_utf8(&rest[..length]).unwrap_or_default();
            DecodeStep::Took(length + 1, key(parameters, *last))
        }
        // This byte does not belong to the sequence: another sequence or key begins here.
        _ => DecodeStep::Took(length, None),
    }
}

/// Returns the key of a sequence `CSI parameters last`.
fn key(parameters: &str, last: u8) -> Option<KeyPress> {
    let number = |text: &str| text.parse::<u32>().ok();
    let parameters: Vec<Vec<Option<u32>>> =
        parameters.split(';').map(|it| it.split(':').map(number).collect()).collect();
    let parameter = |at: usize, sub: usize| *parameters.get(at)?.get(sub)?;
    let modified = |code| with_modifiers(code, parameter(1, 0).unwrap_or(1));
    // Some terminals also report that a key is released.
    if parameter(1, 1) == Some(3) {
        return None;
    }
    match last {
        b'Z' => Some(KeyPress { shift: true, ..KeyPress::new(Code::Tab) }),
        b'u' => {
            let key = modified(coded(parameter(0, 0)?)?)?;
            Some(named(key, parameter(0, 1), parameter(0, 2)))
        }
        b'~' => match parameter(0, 0)? {
            1 | 7 => modified(Code::Home),
            3 => modified(Code::Delete),
            4 | 8 => modified(Code::End),
            5 => modified(Code::PageUp),
            6 => modified(Code::PageDown),
            27 => Some(named(modified(coded(parameter(2, 0)?)?)?, None, None)),
            _ => None,
        },
        letter => modified(arrow(letter)?),
    }
}

fn arrow(letter: u8) -> Option<Code> {
    Some(match letter {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        _ => return None,
    })
}

/// Returns a key with the modifiers that a number encodes; `None` with a modifier that has no meaning here, such as
/// Super: a user who presses that does not mean the key alone.
fn with_modifiers(code: Code, number: u32) -> Option<KeyPress> {
    let bits = number.saturating_sub(1);
    // The two bits above these are Caps Lock and Num Lock, which do not matter.
    let others = bits & 0b0011_1000;
    let key = KeyPress { code, shift: bits & 1 != 0, alt: bits & 2 != 0, control: bits & 4 != 0 };
    (others == 0).then_some(key)
}

/// Returns the key with this number: the number of a character or, in kitty's protocol, a number of the private area
/// that stands for a key of the number pad.
fn coded(number: u32) -> Option<Code> {
    Some(match number {
        8 | 127 => Code::Backspace,
        9 => Code::Tab,
        13 | 57414 => Code::Enter,
        27 => Code::Esc,
        57399..=57408 => Code::Char(char::from_digit(number - 57399, 10)?),
        57409 => Code::Char('.'),
        57410 => Code::Char('/'),
        57411 => Code::Char('*'),
        57412 => Code::Char('-'),
        57413 => Code::Char('+'),
        57415 => Code::Char('='),
        57416 => Code::Char(','),
        57417 => Code::Left,
        57418 => Code::Right,
        57419 => Code::Up,
        57420 => Code::Down,
        57421 => Code::PageUp,
        57422 => Code::PageDown,
        57423 => Code::Home,
        57424 => Code::End,
        57426 => Code::Delete,
        // Other numbers of Unicode's private area are keys without a use here, such as modifiers.
        57344..=63743 => return None,
        number => Code::Char(char::from_u32(number).filter(|c| !c.is_control())?),
    })
}

/// Returns a key by its character: with Shift the shifted character; with Ctrl or Alt the character of the standard
/// keyboard layout if the user's layout has no Latin letter there.
fn named(key: KeyPress, shifted: Option<u32>, usual: Option<u32>) -> KeyPress {
    let Code::Char(c) = key.code else { return key };
    let other = |number: Option<u32>| number.and_then(char::from_u32).filter(|c| !c.is_control());
    let usual = other(usual).filter(|_| (key.control || key.alt) && !c.is_ascii());
    let shifted = other(shifted).filter(|_| key.shift && !key.control);
    let upper = || if key.shift { c.to_uppercase().next().unwrap_or(c) } else { c };
    let c = usual.or(shifted).unwrap_or_else(upper);
    KeyPress { code: Code::Char(if key.control { c.to_ascii_lowercase() } else { c }), ..key }
}

/// Writes an input in the form `Ctrl+c`, `Shift+Enter`, `paste "text"`.
#[cfg(test)]
pub(super) fn shown(input: &TerminalInput) -> String {
    match input {
        TerminalInput::Paste(text) => format!("paste {text:?}"),
        TerminalInput::PartOfPaste(text) => format!("part of a paste {text:?}"),
        TerminalInput::Key(KeyPress { code, shift, alt, control }) => {
            let code = match code {
                Code::Char(' ') => "Space".to_owned(),
                Code::Char(c) => c.to_string(),
                code => format!("{code:?}"),
            };
            let held = |held: bool, name| if held { name } else { "" };
            format!(
                "{}{}{}{code}",
                held(*control, "Ctrl+"),
                held(*alt, "Alt+"),
                held(*shift, "Shift+")
            )
        }
    }
}

#[cfg(test)]
mod tests;
