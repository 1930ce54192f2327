//! Encodings and line endings: the text around an edit keeps its bytes.

use encoding_rs::{EUC_KR, SHIFT_JIS, WINDOWS_1252};
use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::{Place, replace_args, shown, write_args};

/// Replaces text in a file with these bytes, and checks the new bytes.
fn check(before: &[u8], old: &str, new: &str, after: &[u8]) {
    let place = Place::new(&[("a.txt", before)]);
    place.call("replace", replace_args(old, new)).unwrap();
    assert_eq!(place.read("a.txt"), after);
}

/// Overwrites a file with these bytes, and checks the new bytes.
fn check_write(before: &[u8], content: &str, after: &[u8]) {
    let place = Place::new(&[("a.txt", before)]);
    place.call("write_file", write_args(content)).unwrap();
    assert_eq!(place.read("a.txt"), after);
}

fn utf16(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().flat_map(u16::to_le_bytes);
    [0xFF, 0xFE].into_iter().chain(units).collect()
}

fn utf32_be(text: &str) -> Vec<u8> {
    let units = text.chars().flat_map(|c| u32::from(c).to_be_bytes());
    [0, 0, 0xFE, 0xFF].into_iter().chain(units).collect()
}

const JAPANESE: &str = "これは日本語の文章です。\r\n文字コードを確かめるために書きました。\r\n";
const FRENCH: &str = "Le café est fermé, désolé.\nÀ bientôt, mon élève préféré !\n";

#[test]
fn windows_line_endings_are_kept() {
    check(b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n", b"a\r\nx\r\ny\r\nc\r\n");
    check(b"a\r\nb\r\n", "a\r\nb", "c", b"c\r\n");
    check_write(b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n");
}

#[test]
fn unix_line_endings_are_kept() {
    check(b"a\nb\n", "a\r\nb", "c\r\nd", b"c\nd\n");
    check_write(b"a\nb\n", "a\r\nc\r\n", b"a\nc\n");
}

#[test]
fn mixed_line_endings_are_kept() {
    check(b"a\r\nb\nc\r\nd", "b", "x\ny", b"a\r\nx\r\ny\nc\r\nd");
    check(b"a\r\nb\nc\r\nd", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\nd");
    check(b"a\nb\nc\r\n", "c\n", "c\nd\n", b"a\nb\nc\r\nd\n");
    check(b"a\r\r\nb\n\rc", "b", "B", b"a\r\r\nB\n\rc");
    check_write(b"a\r\nb\nc\r\n", "a\nb\nd\n", b"a\r\nb\nd\r\n");
}

#[test]
fn byte_order_marks_are_kept_and_not_doubled() {
    check(b"\xEF\xBB\xBFa\n", "a", "b", b"\xEF\xBB\xBFb\n");
    check_write(b"\xEF\xBB\xBFa\n", "b\n", b"\xEF\xBB\xBFb\n");
    check_write(b"\xEF\xBB\xBFa\n", "\u{FEFF}b\n", b"\xEF\xBB\xBFb\n");
    check(b"\xEF\xBB\xBF", "", "b\n", b"\xEF\xBB\xBFb\n");
}

#[test]
fn wide_encodings_are_kept() {
    check(&utf16("a\r\nb\r\n"), "b", "é→\u{1F600}", &utf16("a\r\né→\u{1F600}\r\n"));
    check_write(&utf16("a\r\nb\r\n"), "c\n", &utf16("c\r\n"));
    check(&utf32_be("a\nb\n"), "b", "→", &utf32_be("a\n→\n"));
}

#[test]
fn old_encodings_are_kept() {
    let latin = |text: &str| WINDOWS_1252.encode(text).0.into_owned();
    check(
        &latin(FRENCH),
        "À bientôt",
        "À demain, ça va",
        &latin(&FRENCH.replace("À bientôt", "À demain, ça va")),
    );
    check_write(&latin(FRENCH), "très bien\n", &latin("très bien\n"));
    let sjis = |text: &str| SHIFT_JIS.encode(text).0.into_owned();
    check(&sjis(JAPANESE), "日本語", "日本", &sjis(&JAPANESE.replace("日本語", "日本")));
    let korean = "안녕하세요. 이것은 한국어로 쓴 문장입니다.\n";
    let euc = |text: &str| EUC_KR.encode(text).0.into_owned();
    check(&euc(korean), "문장", "글", &euc(&korean.replace("문장", "글")));
}

#[test]
fn what_is_shown_is_text_and_not_bytes() {
    let place = Place::new(&[("a.txt", &utf16("a\r\n"))]);
    let output = place.call("replace", replace_args("a", "b")).unwrap();
    assert_eq!(shown(&output), (Some("a\r\n"), "b\r\n"));
}

#[test]
fn what_an_old_encoding_lacks_is_refused() {
    let place = Place::new(&[("a.txt", &WINDOWS_1252.encode(FRENCH).0)]);
    let message = place.check_failing("replace", replace_args("désolé", "→"), "not_encodable");
    let root = place.cx.host.workspace.root().display().to_string();
    expect!["$ROOT/a.txt was not changed: windows-1252, the encoding of this file, has no character '→' (U+2192), which is in line 1 of the new text. Do without it, or convert the file to UTF-8 first."].assert_eq(&message.replace(&root, "$ROOT"));
    place.check_failing("write_file", write_args("\u{1F600}"), "not_encodable");
    let call = place.prepare("replace", replace_args("désolé", "pardon")).unwrap();
    assert_eq!(place.run(call, Some("→")).unwrap_err().kind, "not_encodable");
    assert_eq!(place.read("a.txt"), WINDOWS_1252.encode(FRENCH).0.as_ref());
}

#[test]
fn a_look_alike_is_not_written_instead() {
    let place = Place::new(&[("a.txt", &SHIFT_JIS.encode(JAPANESE).0)]);
    place.check_failing("replace", replace_args("日本語", "\u{A5}100"), "not_encodable");
}

#[test]
fn bytes_that_would_not_come_back_are_left_alone() {
    for damaged in
        [&b"d\xC3\xA9j\xC3\xA0 vu \xFF\n"[..], b"\xFF\xFEv\0u\0\n", b"\xEF\xBB\xBFvu \xFF"]
    {
        let place = Place::new(&[("a.txt", damaged)]);
        place.check_failing("replace", replace_args("vu", "lu"), "not_text");
        place.check_failing("write_file", write_args("x"), "not_text");
    }
}

#[test]
fn binary_files_are_left_alone() {
    let place = Place::new(&[("a.txt", b"\x7FELF\0\0text")]);
    place.check_failing("replace", replace_args("text", "x"), "not_text");
    place.check_failing("write_file", write_args("x"), "not_text");
}

/// Returns a strategy for a text with any line endings, and the ends of a part of the text.
fn a_text_and_a_part() -> impl Strategy<Value = (String, usize, usize)> {
    let text = "[a-jé\u{4E2D} \\t\\r\\n]{1,40}|(([a-j ]{0,5})(\r\n|\n)){1,10}";
    text.prop_flat_map(|text| {
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let count = ends.len();
        (Just((text, ends)), 0..count, 0..count)
    })
    .prop_map(|((text, ends), one, other)| (text, ends[one.min(other)], ends[one.max(other)]))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_outside_an_exact_edit_are_untouched(
        (text, start, end) in a_text_and_a_part(),
        new in "[x-z\\n]{0,10}",
        encoding in 0..3,
    ) {
        let (start, end) = (whole_ending(&text, start), whole_ending(&text, end));
        let old = &text[start..end];
        if old.is_empty() {
            return Ok(());
        }
        let encode = |text: &str| match encoding {
            0 => text.as_bytes().to_vec(),
            1 => [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
            _ => utf16(text),
        };
        let place = Place::new(&[("a.txt", &encode(&text))]);
        let mut args = replace_args(old, &new);
        args["allow_multiple"] = json!(false);
        // `replace` refuses a text that occurs twice, and then changes nothing.
        let done = place.call("replace", args).is_ok();
        let after = place.read("a.txt");
        if !done {
            prop_assert_eq!(after, encode(&text));
            return Ok(());
        }
        let (head, tail) = (encode(&text[..start]), &encode(&text)[encode(&text[..end]).len()..]);
        prop_assert!(after.starts_with(&head));
        prop_assert!(after.ends_with(tail));
        let said = match encoding {
            2 => {
                let middle = &after[head.len()..after.len() - tail.len()];
                let units: Vec<u16> =
                    middle.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
                String::from_utf16(&units).unwrap()
            }
            _ => String::from_utf8(after[head.len()..after.len() - tail.len()].to_vec()).unwrap(),
        };
        prop_assert_eq!(said.replace("\r\n", "\n"), new);
    }
}

/// Returns `at`, moved behind a line ending that it would cut in half: an edit cannot name such a place.
fn whole_ending(text: &str, at: usize) -> usize {
    let split = text[..at].ends_with('\r') && text[at..].starts_with('\n');
    if split { at + 1 } else { at }
}
