//! Bytes of a file as text, and how they were written.

/// A file's text.
pub(super) struct Text {
    pub(super) text: String,
    #[expect(dead_code, reason = "what writes files back needs it")]
    pub(super) format: Format,
}

/// How a text was written as bytes.
pub(super) struct Format;

/// The text in some bytes; none if they are no text.
pub(super) fn decode(bytes: &[u8]) -> Option<Text> {
    let text = match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode(bytes).0.into_owned(),
        None if bytes.contains(&0) => return None,
        None => String::from_utf8_lossy(bytes).into_owned(),
    };
    Some(Text { text, format: Format })
}
