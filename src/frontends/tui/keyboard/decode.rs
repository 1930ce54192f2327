//! A terminal's bytes to keys and pasted text: pure, at any cut of the bytes.
//!
//! Three encodings are read at once, whichever of them a terminal speaks: the old one, kitty's
//! keyboard protocol (`CSI 13;2u`) and xterm's modifyOtherKeys (`CSI 27;2;13~`).

use std::time::Duration;

/// Time limit for the byte after an escape character: a lone one is the Esc key then. A slow line
/// tears a sequence apart by 60 ms and more, and Esc cancels a turn.
const ESCAPE_WAIT: Duration = Duration::from_millis(100);

/// Time limit for the next byte of a sequence or of a character that has begun: no key ends by it,
/// so there is no hurry.
const REST_WAIT: Duration = Duration::from_millis(500);

/// Maximum silence within a paste. Its end may never come, and until then keys would be text.
const SILENCE: Duration = Duration::from_secs(2);

/// Maximum length of an escape sequence, in bytes: no key has a longer one.
const LONGEST: usize = 64;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Something that the person at the keyboard did.
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
    /// The character that the key writes, with Shift if that is held; in lower case with Ctrl.
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

    /// Returns whether this is a character with Ctrl.
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

/// Bytes that are not decoded yet.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// Number of these bytes already searched for the end of the paste that they are part of.
    paste: Option<usize>,
}

/// The meaning of the first bytes.
enum DecodeStep {
    /// So many of them are this, or nothing that counts.
    Took(usize, Option<KeyPress>),
    /// So many begin a paste.
    Paste(usize),
    /// More must come before it is known.
    More,
}

impl Decoder {
    /// Takes bytes in as they were read; returns all that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<TerminalInput> {
        let mut inputs = Vec::new();
        // Read by itself it was pressed, not pasted.
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

    /// Returns the time limit for the next byte of what has begun, if anything has.
    pub(super) fn patience(&self) -> Option<Duration> {
        if self.paste.is_some() {
            return Some(SILENCE);
        }
        let has_begun = self.bytes.iter().any(|byte| *byte != b'\x1b');
        let wait = if has_begun { REST_WAIT } else { ESCAPE_WAIT };
        (!self.bytes.is_empty()).then_some(wait)
    }

    /// Returns what the bytes mean without the rest, which has not come in time.
    pub(super) fn expire(&mut self) -> Vec<TerminalInput> {
        let mut inputs = Vec::new();
        // Read in one piece with text of the paste, when this program could not run for a while.
        let pressed = self.paste.and_then(|_| self.take_interrupts());
        inputs.extend(self.cut_paste());
        let key = TerminalInput::Key(KeyPress::control('c'));
        inputs.extend(std::iter::repeat_n(key, pressed.unwrap_or(0)));
        self.decode(&mut inputs, true);
        inputs
    }

    /// Takes Ctrl+C from the end of the bytes; returns how often it was pressed.
    fn take_interrupts(&mut self) -> Option<usize> {
        let longest = self.bytes.len().saturating_sub(LONGEST);
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

    /// Ends the paste that goes on, if one does.
    fn cut_paste(&mut self) -> Option<TerminalInput> {
        self.paste.take()?;
        let bytes = std::mem::take(&mut self.bytes);
        Some(TerminalInput::PartOfPaste(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Returns the number of times that Ctrl+C was pressed, if these bytes are nothing else.
fn interrupts(bytes: &[u8]) -> Option<usize> {
    if bytes.len() > LONGEST {
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

/// A character of several bytes.
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

/// Decodes what follows an escape character.
fn escape(rest: &[u8], expired: bool) -> DecodeStep {
    let alone = DecodeStep::Took(0, Some(KeyPress::new(Code::Esc)));
    let step = match rest {
        [] if expired => return alone,
        [] => return DecodeStep::More,
        [b'[', rest @ ..] => csi(rest),
        [b'O', rest @ ..] => ss3(rest),
        [b'\x1b', next @ ..] => {
            // Some terminals send it before the sequence of a key with Alt.
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
        // The keys `[` and `O` with Alt begin like sequences.
        DecodeStep::More if expired && rest.len() == 1 => {
            DecodeStep::Took(1, Some(ascii(rest[0]).with_alt()))
        }
        DecodeStep::More if expired => DecodeStep::Took(rest.len(), None),
        DecodeStep::More => DecodeStep::More,
    }
}

/// Decodes what follows `ESC O`.
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

/// Decodes what follows `ESC [`.
fn csi(rest: &[u8]) -> DecodeStep {
    let length = rest.iter().take_while(|byte| (b' '..=b'?').contains(byte)).count();
    if length > LONGEST {
        return DecodeStep::Took(length, None);
    }
    let Some(last) = rest.get(length) else { return DecodeStep::More };
    match last {
        // The function keys of Linux's console.
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
        // Another sequence or key begins in the middle of this one.
        _ => DecodeStep::Took(length, None),
    }
}

/// The key of a sequence `CSI parameters last`.
fn key(parameters: &str, last: u8) -> Option<KeyPress> {
    let number = |text: &str| text.parse::<u32>().ok();
    let parameters: Vec<Vec<Option<u32>>> =
        parameters.split(';').map(|it| it.split(':').map(number).collect()).collect();
    let parameter = |at: usize, sub: usize| *parameters.get(at)?.get(sub)?;
    let modified = |code| with_modifiers(code, parameter(1, 0).unwrap_or(1));
    // Some terminals tell of a key that is let go.
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

/// A key with the modifiers that a number stands for; none if one of them is no modifier of ours,
/// such as Super: whoever presses that means something else than the key alone.
fn with_modifiers(code: Code, number: u32) -> Option<KeyPress> {
    let bits = number.saturating_sub(1);
    // The two above are Caps Lock and Num Lock.
    let others = bits & 0b0011_1000;
    let key = KeyPress { code, shift: bits & 1 != 0, alt: bits & 2 != 0, control: bits & 4 != 0 };
    (others == 0).then_some(key)
}

/// The key with this number, which is that of a character or, in kitty's protocol, of a private
/// one that stands for a key of the number pad.
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
        // The other private ones.
        57344..=63743 => return None,
        number => Code::Char(char::from_u32(number).filter(|c| !c.is_control())?),
    })
}

/// A key by the character that it writes or is known by: with Shift the shifted one, with Ctrl or
/// Alt that of the usual keyboard if the user's own has no Latin letters.
fn named(key: KeyPress, shifted: Option<u32>, usual: Option<u32>) -> KeyPress {
    let Code::Char(c) = key.code else { return key };
    let other = |number: Option<u32>| number.and_then(char::from_u32).filter(|c| !c.is_control());
    let usual = other(usual).filter(|_| (key.control || key.alt) && !c.is_ascii());
    let shifted = other(shifted).filter(|_| key.shift && !key.control);
    let upper = || if key.shift { c.to_uppercase().next().unwrap_or(c) } else { c };
    let c = usual.or(shifted).unwrap_or_else(upper);
    KeyPress { code: Code::Char(if key.control { c.to_ascii_lowercase() } else { c }), ..key }
}

/// Writes an input as a person would: `Ctrl+c`, `Shift+Enter`, `paste "text"`.
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
