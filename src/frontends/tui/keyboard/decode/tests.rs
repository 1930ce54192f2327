//! Tests of the key decoder, with every encoding and every cut of the bytes.

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "what comes of a call is shown")]
fn all(inputs: Vec<TerminalInput>) -> String {
    inputs.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Checks the decoding of bytes that come at once, one by one, and cut in two at every place.
#[track_caller]
fn check(bytes: &str, expected: &str) {
    let bytes = bytes.as_bytes();
    let pieces = |pieces: &[&[u8]]| {
        let mut decoder = Decoder::default();
        let mut inputs: Vec<_> = pieces.iter().flat_map(|piece| decoder.feed(piece)).collect();
        inputs.extend(decoder.expire());
        assert_eq!(decoder.patience(), None, "{bytes:?}");
        all(inputs)
    };
    assert_eq!(pieces(&[bytes]), expected, "{bytes:?}");
    assert_eq!(pieces(&bytes.chunks(1).collect::<Vec<_>>()), expected, "{bytes:?}, one by one");
    for at in 1..bytes.len() {
        let cut = [&bytes[..at], &bytes[at..]];
        assert_eq!(pieces(&cut), expected, "{bytes:?}, cut at {at}");
    }
}

#[test]
fn keys_in_the_old_encoding() {
    for (bytes, expected) in [
        ("a", "a"),
        ("A", "A"),
        ("é日👩", "é, 日, 👩"),
        (" ", "Space"),
        ("\r", "Enter"),
        ("\n", "Ctrl+j"),
        ("\t", "Tab"),
        ("\x1b[Z", "Shift+Tab"),
        ("\x7f", "Backspace"),
        ("\x08", "Ctrl+h"),
        ("\x03\x04\x1a", "Ctrl+c, Ctrl+d, Ctrl+z"),
        ("\0", "Ctrl+Space"),
        ("\x1c", "Ctrl+\\"),
        ("\x1b", "Esc"),
        ("\x1b\x1b", "Esc, Esc"),
        ("\x1bb\x1b\r\x1b\x7f", "Alt+b, Alt+Enter, Alt+Backspace"),
        ("\x1bé", "Alt+é"),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", "Up, Down, Right, Left"),
        ("\x1bOA\x1bOB\x1bOC\x1bOD\x1bOH\x1bOF\x1bOM", "Up, Down, Right, Left, Home, End, Enter"),
        ("\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[7~\x1b[8~", "Home, End, Home, End, Home, End"),
        ("\x1b[3~\x1b[5~\x1b[6~", "Delete, PageUp, PageDown"),
        ("\x1b[1;5D\x1b[1;3C\x1b[3;5~", "Ctrl+Left, Alt+Right, Ctrl+Delete"),
        ("\x1b\x1b[A", "Alt+Up"),
    ] {
        check(bytes, expected);
    }
}

#[test]
fn keys_in_kittys_protocol() {
    for (bytes, expected) in [
        ("\x1b[13;2u\x1b[13;5u\x1b[13;3u\x1b[13u", "Shift+Enter, Ctrl+Enter, Alt+Enter, Enter"),
        ("\x1b[27u\x1b[27;1u", "Esc, Esc"),
        ("\x1b[9;2u\x1b[9u", "Shift+Tab, Tab"),
        ("\x1b[99;5u\x1b[100;5u\x1b[106;5u", "Ctrl+c, Ctrl+d, Ctrl+j"),
        // Ctrl+C with Shift, with Caps Lock, and with Num Lock: the locks make no difference.
        ("\x1b[99;6u\x1b[99;69u\x1b[99;133u", "Ctrl+Shift+c, Ctrl+c, Ctrl+c"),
        // On a keyboard layout without Latin letters, and on one with other Latin letters.
        ("\x1b[1089::99;5u", "Ctrl+c"),
        ("\x1b[1092::97;3u", "Alt+a"),
        ("\x1b[99::105;5u", "Ctrl+c"),
        ("\x1b[98;3u\x1b[111;3u", "Alt+b, Alt+o"),
        ("\x1b[98:66;4u", "Alt+Shift+B"),
        ("\x1b[97;2u\x1b[49:33;2u\x1b[32;2u", "Shift+A, Shift+!, Shift+Space"),
        ("\x1b[127;5u\x1b[127;3u\x1b[127;2u", "Ctrl+Backspace, Alt+Backspace, Shift+Backspace"),
        ("\x1b[57400u\x1b[57414u\x1b[57409u\x1b[57423u", "1, Enter, ., Home"),
        ("\x1b[1;1A\x1b[1;5:1C\x1b[3;3~", "Up, Ctrl+Right, Alt+Delete"),
        // Released keys, keys with Super and keys that are only modifiers have no meaning.
        ("\x1b[97;1:3u\x1b[99;9u\x1b[57441;2u\x1b[1;9Ax", "x"),
    ] {
        check(bytes, expected);
    }
}

#[test]
fn keys_in_xterms_modify_other_keys() {
    for (bytes, expected) in [
        ("\x1b[27;2;13~\x1b[27;5;13~\x1b[27;3;13~", "Shift+Enter, Ctrl+Enter, Alt+Enter"),
        ("\x1b[27;2;9~\x1b[27;5;9~", "Shift+Tab, Ctrl+Tab"),
        ("\x1b[27;5;99~\x1b[27;6;67~", "Ctrl+c, Ctrl+Shift+c"),
        ("\x1b[27;3;98~\x1b[27;5;106~", "Alt+b, Ctrl+j"),
        ("\x1b[27;2;65~\x1b[27;2;33~", "Shift+A, Shift+!"),
        ("\x1b[27;5;127~\x1b[27;5;8~", "Ctrl+Backspace, Ctrl+Backspace"),
        ("\x1b[27;1;27~", "Esc"),
    ] {
        check(bytes, expected);
    }
}

#[test]
fn what_is_no_key_takes_no_key_with_it() {
    for (bytes, expected) in [
        ("\x1b[?62;c\x1b[I\x1b[15~\x1b[[A\x1bOPx", "x"),
        ("\x1b[<0;1;2Mx", "x"),
        ("\x1b[1;\x03", "Ctrl+c"),
        ("\x1b[\x03\x1bO\x03", "Ctrl+c, Alt+O, Ctrl+c"),
        ("\x1b[12\x1b[A", "Up"),
        ("\x1b[999999999999;5u\x1b[u\x1b[27~x", "x"),
        ("\x1b[201~x", "x"),
        ("\x1b[", "Alt+["),
        ("\x1bO", "Alt+O"),
        ("\x1b[1;", ""),
    ] {
        check(bytes, expected);
    }
    let mut decoder = Decoder::default();
    assert_eq!(all(decoder.feed(b"\xff\xc3(a\xe6\x97")), "(, a");
    assert_eq!(all(decoder.feed(b"\xa5\x80b")), "日, b");
    let long = [&b"\x1b["[..], &[b'1'; 1000], b"ux"].concat();
    assert!(all(decoder.feed(&long)).ends_with('x'));
}

#[test]
fn a_paste_is_one_text() {
    check("\x1b[200~one\r\ntwo\x1b[A\x1b[201~\r", "paste \"one\\r\\ntwo\\u{1b}[A\", Enter");
    check("a\x1b[200~\x1b[201~b", "a, paste \"\", b");
    check("\x1b[200~\x1b[20é\x1b[201~", "paste \"\\u{1b}[20é\"");
    // A Ctrl+C that comes together with other pasted text was pasted.
    let mut decoder = Decoder::default();
    assert_eq!(all(decoder.feed(b"\x1b[200~a\x03b\x1b[201~")), "paste \"a\\u{3}b\"");
}

#[test]
fn a_paste_without_an_end_ends_by_itself() {
    let mut decoder = Decoder::default();
    assert_eq!(all(decoder.feed(b"\x1b[200~one\rtwo")), "");
    assert_eq!(decoder.patience(), Some(PASTE_TIMEOUT));
    assert_eq!(all(decoder.expire()), "part of a paste \"one\\rtwo\"");
    assert_eq!(all(decoder.feed(b"x\x1b[201~y")), "x, y");
    assert_eq!(decoder.patience(), None);
}

#[test]
fn an_interrupt_ends_a_paste_without_an_end() {
    for (interrupt, expected) in [
        ("\x03", "Ctrl+c"),
        ("\x03\x03", "Ctrl+c, Ctrl+c"),
        ("\x1b[99;5u", "Ctrl+c"),
        ("\x1b[27;5;99~", "Ctrl+c"),
    ] {
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[200~one");
        let expected = format!("part of a paste \"one\", {expected}");
        assert_eq!(all(decoder.feed(interrupt.as_bytes())), expected);
        assert_eq!(all(decoder.feed(b"y")), "y");
    }
}

#[test]
fn an_interrupt_that_was_read_with_a_paste_without_an_end_is_no_text_of_it() {
    for (interrupt, expected) in [("\x03", "Ctrl+c"), ("\x1b[99;5u\x03", "Ctrl+c, Ctrl+c")] {
        let mut decoder = Decoder::default();
        assert_eq!(all(decoder.feed(format!("\x1b[200~a\x03b{interrupt}").as_bytes())), "");
        let expected = format!("part of a paste \"a\\u{{3}}b\", {expected}");
        assert_eq!(all(decoder.expire()), expected);
        assert_eq!(all(decoder.feed(b"y")), "y");
    }
}
