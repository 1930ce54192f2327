//! Bytes that a model takes beside text: images, PDF, audio, video.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes with their type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Such as `image/png`.
    pub mime_type: String,
    /// Standard base64 with padding.
    pub data: String,
}

/// What models take, by file name extension.
const TYPES: &[(&str, &str)] = &[
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

impl Media {
    /// Encodes bytes.
    pub fn new(mime_type: &str, bytes: &[u8]) -> Self {
        Self { mime_type: mime_type.to_owned(), data: BASE64_STANDARD.encode(bytes) }
    }

    /// The type that a file's name promises, if models take it.
    pub fn type_of(path: &Path) -> Option<&'static str> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        TYPES.iter().find(|(known, _)| *known == extension).map(|(_, mime_type)| *mime_type)
    }

    /// `image`, `pdf`, `audio` or `video`, for a sentence.
    pub fn kind(&self) -> &str {
        let kind = self.mime_type.split('/').next().unwrap_or_default();
        if kind == "application" { "PDF" } else { kind }
    }
}
