//! A download in a form that a model can take: text, or an unchanged image or PDF file.

use encoding_rs::{Encoding, UTF_8};
use memchr::memmem;

use super::get::Download;
use super::html;
use tandem_content::media::Media;
use tandem_content::plain::plain;
use tandem_host::text;

/// Number of bytes at the beginning of a page in which the page's own statement of its encoding is looked for.
const ENCODING_SEARCH_BYTES: usize = 1024;

/// Content of a download.
pub(super) enum PageContent {
    Text(String),
    Media(Media),
}

/// Converts a download. The error says what the download is instead.
pub(super) fn read(got: &Download) -> Result<PageContent, String> {
    let said = got.content_type.as_deref().unwrap_or_default();
    let (kind, rest) = said.split_once(';').unwrap_or((said, ""));
    let kind = kind.trim().to_ascii_lowercase();
    if kind.starts_with("image/") && kind != "image/svg+xml" || kind == "application/pdf" {
        return media(got, &kind);
    }
    let known = is_text(&kind);
    if !known && !matches!(kind.as_str(), "" | "application/octet-stream" | "binary/octet-stream") {
        return Err(format!("it is `{kind}`, which cannot be read"));
    }
    if !known && let Some(media) = Media::encode("", &got.bytes) {
        return media_if_whole(got, media);
    }
    let is_page = kind.ends_with("html") || kind.ends_with("xhtml+xml");
    let text = decode(&got.bytes, charset(rest), is_page || !known)
        .ok_or_else(|| "it is neither text nor an image or a PDF file".to_owned())?;
    let is_page = is_page || !known && looks_like_page(&text);
    let text = if is_page { html::text(&text) } else { text };
    Ok(PageContent::Text(plain(text.as_bytes())))
}

fn media(got: &Download, kind: &str) -> Result<PageContent, String> {
    let media = Media::encode(kind, &got.bytes);
    let media = media.ok_or_else(|| format!("it is `{kind}` of a form that no model takes"))?;
    media_if_whole(got, media)
}

fn media_if_whole(got: &Download, media: Media) -> Result<PageContent, String> {
    if got.cut {
        let (kind, bytes) = (media.kind(), got.bytes.len());
        return Err(format!("the {kind} file has more than {bytes} bytes (`--limit web-bytes=N`)"));
    }
    Ok(PageContent::Media(media))
}

fn is_text(kind: &str) -> bool {
    let known = [
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "x-javascript",
        "typescript",
        "yaml",
        "x-yaml",
        "toml",
        "x-sh",
        "sql",
        "graphql",
        "x-ndjson",
        "jsonlines",
        "x-httpd-php",
        "rtf",
        "x-www-form-urlencoded",
        "x-tex",
        "x-latex",
    ];
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || kind.ends_with("+yaml")
        || kind.strip_prefix("application/").is_some_and(|kind| known.contains(&kind))
}

/// Returns the encoding that the parameters of a content type name.
fn charset(parameters: &str) -> Option<&'static Encoding> {
    let named = parameters.split(';').filter_map(|it| it.split_once('='));
    let mut named = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    Encoding::for_label(named.next()?.1.trim().trim_matches(['"', '\'']).as_bytes())
}

/// Decodes bytes. `None` if they are not text. The encoding is, in this order:
///
/// 1. the encoding of a byte order mark at their beginning,
/// 2. the encoding that the server names,
/// 3. the encoding that the page itself names, if `may_say`.
///
/// If the bytes are not valid in this encoding, the encoding is guessed.
fn decode(bytes: &[u8], said: Option<&'static Encoding>, may_say: bool) -> Option<String> {
    let said = said.or_else(|| if may_say { says_itself(bytes) } else { None });
    let marked = Encoding::for_bom(bytes).is_some();
    if let Some(encoding) = said.filter(|_| !marked) {
        let (text, malformed) = encoding.decode_without_bom_handling(bytes);
        if !malformed && !text.contains('\0') {
            return Some(text.into_owned());
        }
    }
    text::decode(bytes).map(|decoded| decoded.text)
}

/// Returns the encoding that a page names in its head.
fn says_itself(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(ENCODING_SEARCH_BYTES)].to_ascii_lowercase();
    let meta = memmem::find(&head, b"charset=")? + "charset=".len();
    let mut labels = head[meta..].split(|byte| b"\"' \t\r\n;/>".contains(byte));
    let encoding = Encoding::for_label(labels.find(|label| !label.is_empty())?)?;
    // The head was read as ASCII, so an encoding that is not compatible with ASCII cannot be true. UTF-8 is tried in
    // its place.
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

fn looks_like_page(text: &str) -> bool {
    let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}
