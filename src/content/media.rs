//! Media that models accept beside text: images, PDF, audio, video.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// Encoded bytes with their media type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Media type, such as `image/png`.
    pub mime_type: String,
    /// The bytes in standard base64 with padding.
    pub data: String,
}

/// Media types that models accept, by file name extension. Extensions of one type stand side by side.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("bmp", "image/bmp"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("pdf", "application/pdf"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("aiff", "audio/aiff"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mov", "video/quicktime"),
    ("avi", "video/x-msvideo"),
    ("webm", "video/webm"),
];

/// Leading bytes of files of some types. A dot stands for any byte.
const LEADING_BYTES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"RIFF....WEBP", "image/webp"),
    (b"RIFF....WAVE", "audio/wav"),
    (b"%PDF-", "application/pdf"),
];

impl Media {
    /// Encodes bytes as media of a type, without checks.
    pub fn new(mime_type: &str, bytes: &[u8]) -> Self {
        Self { mime_type: mime_type.to_owned(), data: BASE64_STANDARD.encode(bytes) }
    }

    /// Checks media that a client or server has encoded. `None` if `data` is no base64, or of a type that models do not
    /// accept: every request of the conversation with such media would fail.
    pub fn checked(mime_type: &str, data: &str) -> Option<Self> {
        let data: String = data.split_ascii_whitespace().collect();
        Self::encode(mime_type, &BASE64_STANDARD.decode(data).ok()?)
    }

    /// Encodes bytes that should be of a type. If the leading bytes show another type, that type counts. `None` if
    /// models do not accept the type, or if the bytes do not begin like files of the type.
    pub fn encode(mime_type: &str, bytes: &[u8]) -> Option<Self> {
        let mime_type = mime_type.split(';').next().unwrap_or_default().trim();
        let known = MEDIA_TYPES.iter().map(|(_, known)| *known);
        let promised = known.into_iter().find(|known| known.eq_ignore_ascii_case(mime_type));
        let mime_type = match begins_as(bytes) {
            Some(found) => found,
            // Files of a type in `LEADING_BYTES` always have these leading bytes, so these bytes are of another type.
            None => {
                promised.filter(|promised| !LEADING_BYTES.iter().any(|(_, it)| it == promised))?
            }
        };
        Some(Self::new(mime_type, bytes))
    }

    /// Returns the media types that models accept, each once.
    pub fn types() -> impl Iterator<Item = &'static str> {
        // Extensions of one type stand side by side, so chunks of equal types have each type once.
        MEDIA_TYPES
            .chunk_by(|(_, one), (_, other)| one == other)
            .filter_map(|same| Some(same.first()?.1))
    }

    /// Returns the media type for a file's name, if models accept that type.
    pub fn type_of(path: &Path) -> Option<&'static str> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        MEDIA_TYPES.iter().find(|(known, _)| *known == extension).map(|(_, mime_type)| *mime_type)
    }

    /// Returns the kind of media for a sentence: `image`, `PDF`, `audio` or `video`.
    pub fn kind(&self) -> &str {
        let kind = self.mime_type.split('/').next().unwrap_or_default();
        if kind == "application" { "PDF" } else { kind }
    }
}

/// Returns the media type that the leading bytes identify, if they do.
fn begins_as(bytes: &[u8]) -> Option<&'static str> {
    // A dot stands for any byte. No type has leading bytes with a dot of their own.
    let fits = |beginning: &[u8]| {
        bytes.len() > beginning.len()
            && beginning.iter().zip(bytes).all(|(want, byte)| want == byte || *want == b'.')
    };
    LEADING_BYTES.iter().find(|(beginning, _)| fits(beginning)).map(|(_, mime_type)| *mime_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mime_type: &str, bytes: &[u8], expected: Option<&str>) {
        let checked = Media::checked(mime_type, &BASE64_STANDARD.encode(bytes));
        assert_eq!(checked.as_ref().map(|media| media.mime_type.as_str()), expected);
    }

    #[test]
    fn what_models_take_is_told_by_its_bytes() {
        let png = b"\x89PNG\r\n\x1a\nrest";
        check("image/png", png, Some("image/png"));
        check("image/jpeg", png, Some("image/png"));
        check("IMAGE/PNG; charset=utf-8", png, Some("image/png"));
        check("image/webp", b"RIFF1234WEBPrest", Some("image/webp"));
        check("image/png", b"<html>", None);
        check("audio/mpeg", b"anything", Some("audio/mpeg"));
        check("application/zip", b"anything", None);
        check("image/png", b"", None);
    }

    #[test]
    fn what_is_no_base64_is_nothing() {
        assert_eq!(Media::checked("audio/mpeg", "a?b"), None);
        assert_eq!(Media::checked("audio/mpeg", "YW\nJj"), Some(Media::new("audio/mpeg", b"abc")));
    }
}
