//! Access to the clipboard of the terminal's user, also over a remote connection, by the sequence OSC 52.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Maximum length of a copied text, in bytes. OSC 52 encodes it in 100,000 characters, and many terminals accept no
/// more.
const MAX_COPIED_BYTES: usize = 74_994;

/// Returns the bytes that make the terminal put a text on the clipboard; the error is a text for the user.
///
/// Inside tmux, the sequence is sent twice: tmux itself obeys the first one if `set-clipboard` is on, and passes the
/// second one to its own terminal if `allow-passthrough` is on.
pub(super) fn copies(text: &str, in_tmux: bool) -> Result<String, String> {
    if text.len() > MAX_COPIED_BYTES {
        return Err(format!(
            "not copied: it has {} bytes, and terminals take {MAX_COPIED_BYTES} at most",
            text.len()
        ));
    }
    let sequence = format!("\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text));
    if !in_tmux {
        return Ok(sequence);
    }
    let passed = sequence.replace('\x1b', "\x1b\x1b");
    Ok(format!("{sequence}\x1bPtmux;{passed}\x1b\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_sent_to_the_terminal_and_through_tmux() {
        assert_eq!(copies("é\x1b\n", false).unwrap(), "\x1b]52;c;w6kbCg==\x07");
        let in_tmux = "\x1b]52;c;YQ==\x07\x1bPtmux;\x1b\x1b]52;c;YQ==\x07\x1b\\";
        assert_eq!(copies("a", true).unwrap(), in_tmux);
    }

    #[test]
    fn what_is_too_long_for_a_terminal_is_not_copied() {
        assert_eq!(copies(&"a".repeat(MAX_COPIED_BYTES), false).unwrap().len(), 100_000);
        let why = copies(&"a".repeat(MAX_COPIED_BYTES + 1), false).unwrap_err();
        assert_eq!(why, "not copied: it has 74995 bytes, and terminals take 74994 at most");
    }
}
