//! Conversion of a file's bytes to text, and of text back to bytes of the same encoding.

mod endings;

use std::borrow::Cow;
use std::fmt;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{EncoderResult, Encoding, UTF_16BE, UTF_16LE};

pub use self::endings::{TextEdit, like, normalise, splice};

/// Number of bytes of a file that are examined to distinguish text from binary content.
const SNIFFED_BYTES: usize = 8192;

/// Text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    /// Text without the byte order mark, with the line endings of the file.
    pub text: String,
    /// Format of the file.
    pub format: TextFormat,
}

/// Format of a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFormat {
    charset: Charset,
    /// `true` if the file begins with a byte order mark.
    bom: bool,
    /// `true` if the text encodes to the very bytes from which it was decoded. Otherwise the text may only be read.
    pub lossless: bool,
}

impl Default for TextFormat {
    /// Returns the format of new files.
    fn default() -> Self {
        Self { charset: Charset::Utf8, bom: false, lossless: true }
    }
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.charset.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charset {
    Utf8,
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
    Other(&'static Encoding),
}

/// Byte order marks. UTF-32 comes first, as one of its marks begins like one of UTF-16.
const BYTE_ORDER_MARKS: [(Charset, &[u8]); 5] = [
    (Charset::Utf32Le, &[0xFF, 0xFE, 0, 0]),
    (Charset::Utf32Be, &[0, 0, 0xFE, 0xFF]),
    (Charset::Utf16Le, &[0xFF, 0xFE]),
    (Charset::Utf16Be, &[0xFE, 0xFF]),
    (Charset::Utf8, &[0xEF, 0xBB, 0xBF]),
];

/// Error for a character that an encoding does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unencodable {
    character: char,
    /// Line of the character, from 1.
    line: usize,
    charset: &'static str,
}

impl fmt::Display for Unencodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, line, charset } = self;
        let code = u32::from(*character);
        write!(
            f,
            "{charset}, the encoding of this file, has no character {character:?} (U+{code:04X}), \
             which is in line {line} of the new text"
        )
    }
}

/// Decodes bytes as text, replacing damaged parts. `None` if the bytes are not text.
pub fn decode(bytes: &[u8]) -> Option<FileText> {
    let mark = BYTE_ORDER_MARKS.iter().find(|(_, mark)| bytes.starts_with(mark));
    let (charset, rest) = match mark {
        Some((charset, mark)) => (*charset, &bytes[mark.len()..]),
        None => (guess(bytes)?, bytes),
    };
    let text = charset.decode(rest);
    if has_nul(text.as_bytes()) {
        return None;
    }
    let same = charset == Charset::Utf8 && matches!(text, Cow::Borrowed(_));
    let lossless = same || charset.encode(&text).is_ok_and(|again| again == rest);
    let text = text.into_owned();
    Some(FileText { text, format: TextFormat { charset, bom: mark.is_some(), lossless } })
}

/// Returns the bytes of a file of this format with this text.
pub fn encode(text: &str, format: &TextFormat) -> Result<Vec<u8>, Unencodable> {
    let TextFormat { charset, bom, .. } = format;
    if !bom {
        return charset.encode(text);
    }
    let mark = BYTE_ORDER_MARKS
        .iter()
        .find(|(marked, _)| marked == charset)
        .map_or(&[][..], |(_, mark)| mark);
    // A mark at the beginning of the text is removed, so that the file does not have two.
    let bytes = charset.encode(text.strip_prefix('\u{FEFF}').unwrap_or(text))?;
    Ok([mark, &bytes].concat())
}

/// Guesses the charset of bytes without a mark; `None` if they are not text.
fn guess(bytes: &[u8]) -> Option<Charset> {
    if has_nul(bytes) {
        return None;
    }
    if mostly_utf8(bytes) {
        return Some(Charset::Utf8);
    }
    // Texts in old encodings have tabs and line ends, and next to no other control characters.
    let sniffed = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    let controls = sniffed.iter().filter(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31)).count();
    if controls * 20 > sniffed.len() {
        return None;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    Some(Charset::Other(detector.guess(None, Utf8Detection::Deny)))
}

fn has_nul(bytes: &[u8]) -> bool {
    memchr::memchr(0, &bytes[..bytes.len().min(SNIFFED_BYTES)]).is_some()
}

/// Returns whether bytes are UTF-8, or contain more valid characters outside ASCII than damaged places.
fn mostly_utf8(bytes: &[u8]) -> bool {
    if std::str::from_utf8(bytes).is_ok() {
        return true;
    }
    let (mut good, mut bad) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad
}

impl Charset {
    fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le | Self::Utf16Be => "UTF-16",
            Self::Utf32Le | Self::Utf32Be => "UTF-32",
            Self::Other(encoding) => encoding.name(),
        }
    }

    fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Utf8 => String::from_utf8_lossy(bytes),
            Self::Utf16Le => UTF_16LE.decode_without_bom_handling(bytes).0,
            Self::Utf16Be => UTF_16BE.decode_without_bom_handling(bytes).0,
            Self::Utf32Le => utf32(bytes, u32::from_le_bytes).into(),
            Self::Utf32Be => utf32(bytes, u32::from_be_bytes).into(),
            Self::Other(encoding) => encoding.decode_without_bom_handling(bytes).0,
        }
    }

    fn encode(self, text: &str) -> Result<Vec<u8>, Unencodable> {
        Ok(match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Utf32Le => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
            Self::Utf32Be => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            Self::Other(encoding) => encode_other(text, encoding)?,
        })
    }
}

fn utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> String {
    let (units, rest) = bytes.as_chunks();
    let text = units.iter().map(|bytes| char::from_u32(unit(*bytes)).unwrap_or('\u{FFFD}'));
    text.chain((!rest.is_empty()).then_some('\u{FFFD}')).collect()
}

fn encode_other(text: &str, encoding: &'static Encoding) -> Result<Vec<u8>, Unencodable> {
    let unencodable = |character, at: usize| {
        let line = text[..at].matches('\n').count() + 1;
        Unencodable { character, line, charset: encoding.name() }
    };
    let mut encoder = encoding.new_encoder();
    let (mut bytes, mut read) = (Vec::with_capacity(text.len()), 0);
    loop {
        let rest = &text[read..];
        let (result, more) =
            encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
        read += more;
        match result {
            EncoderResult::InputEmpty => break,
            EncoderResult::OutputFull => bytes.reserve(rest.len().max(64)),
            EncoderResult::Unmappable(character) => {
                return Err(unencodable(character, read - character.len_utf8()));
            }
        }
    }
    // Some encoders replace a character that they lack by a similar one, so the result is decoded and compared.
    let (again, _) = encoding.decode_without_bom_handling(&bytes);
    let differs = text.char_indices().zip(again.chars()).find(|((_, c), again)| c != again);
    match differs {
        Some(((at, character), _)) => Err(unencodable(character, at)),
        None => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes to `text`, and back to the same bytes.
    fn check(bytes: &[u8], text: &str) {
        let decoded = decode(bytes).expect("text");
        assert_eq!(decoded.text, text);
        assert!(decoded.format.lossless);
        assert_eq!(encode(&decoded.text, &decoded.format).unwrap(), bytes);
    }

    fn only_for_reading(bytes: &[u8], text: &str) {
        let decoded = decode(bytes).expect("text");
        assert_eq!((decoded.text.as_str(), decoded.format.lossless), (text, false));
    }

    #[test]
    fn utf8_is_itself() {
        check(b"", "");
        check(b"plain\r\n", "plain\r\n");
        check("na\u{EF}ve \u{1F600}".as_bytes(), "na\u{EF}ve \u{1F600}");
        check(b"late\n".repeat(2000).as_slice(), &"late\n".repeat(2000));
    }

    #[test]
    fn a_mark_says_the_encoding_and_is_no_text() {
        check(b"\xEF\xBB\xBFa", "a");
        check(b"\xFF\xFEa\0\x3D\xD8\x00\xDE", "a\u{1F600}");
        check(b"\xFE\xFF\0a\xD8\x3D\xDE\x00", "a\u{1F600}");
        check(b"\xFF\xFE\0\0a\0\0\0\0\xF6\x01\0", "a\u{1F600}");
        check(b"\0\0\xFE\xFF\0\0\0a\0\x01\xF6\0", "a\u{1F600}");
        check(b"\xFF\xFE", "");
    }

    const JAPANESE: &str = "これは日本語の文章です。文字コードを確かめるために書きました。\n";

    #[test]
    fn old_encodings_are_guessed() {
        let latin = "le café est fermé, désolé\n";
        check(&encoding_rs::WINDOWS_1252.encode(latin).0, latin);
        check(&encoding_rs::SHIFT_JIS.encode(JAPANESE).0, JAPANESE);
        check(&encoding_rs::EUC_JP.encode(JAPANESE).0, JAPANESE);
        let russian = "Это простой русский текст, и ничего больше.\n";
        check(&encoding_rs::KOI8_R.encode(russian).0, russian);
    }

    #[test]
    fn damaged_text_is_only_read() {
        only_for_reading(b"d\xC3\xA9j\xC3\xA0 \xFF", "déjà \u{FFFD}");
        only_for_reading(b"\xEF\xBB\xBFa\xFF", "a\u{FFFD}");
        only_for_reading(b"\xFF\xFEa\0b", "a\u{FFFD}");
        only_for_reading(b"\xFF\xFE\0\0a\0\0\0\0\0\x11\0", "a\u{FFFD}");
    }

    #[test]
    fn a_second_code_for_a_character_would_not_come_back() {
        let with = |code: &[u8]| [&encoding_rs::SHIFT_JIS.encode(JAPANESE).0, code].concat();
        check(&with(b"\x81\xE6"), &format!("{JAPANESE}∵"));
        only_for_reading(&with(b"\x87\x9A"), &format!("{JAPANESE}∵"));
    }

    #[test]
    fn bytes_with_nul_or_many_control_characters_are_not_text() {
        assert_eq!(decode(b"\x7FELF\x02\0\0"), None);
        assert_eq!(decode(b"\xFF\xFEa\0\0\0"), None);
        assert_eq!(decode(b"\x1F\x8B\x08\x01\x02\x03\xF1\xF2\xF3"), None);
    }

    #[test]
    fn what_an_encoding_lacks_is_an_error_that_says_where() {
        let check = |encoding, text, line, character| {
            let format =
                TextFormat { charset: Charset::Other(encoding), bom: false, lossless: true };
            let error = encode(text, &format).unwrap_err();
            assert_eq!((error.line, error.character), (line, character));
        };
        check(encoding_rs::WINDOWS_1252, "ok\nnot \u{2192}", 2, '\u{2192}');
        check(encoding_rs::SHIFT_JIS, "a\n\nb\u{A5}", 3, '\u{A5}');
        check(encoding_rs::EUC_KR, "\u{1F600}", 1, '\u{1F600}');
    }
}
