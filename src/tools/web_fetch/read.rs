//! A download as a model can take it: text, or an image or PDF file as it is.

use encoding_rs::{Encoding, UTF_8};
use memchr::memmem;

use super::get::Download;
use super::html;
use tandem_content::media::Media;
use tandem_content::plain::plain;
use tandem_host::text;

/// Bytes at the beginning of a page in which it says its own encoding.
const SAYS: usize = 1024;

/// Content of a download.
pub(super) enum PageContent {
    Text(String),
    Media(Media),
}

/// Reads what was got. The error says what it is instead.
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
    if !known && let Some(media) = Media::of("", &got.bytes) {
        return media_if_whole(got, media);
    }
    let is_page = kind.ends_with("html") || kind.ends_with("xhtml+xml");
    let text = decode(&got.bytes, charset(rest), is_page || !known)
        .ok_or_else(|| "it is not text, and no image or PDF file".to_owned())?;
    let is_page = is_page || !known && looks_like_page(&text);
    let text = if is_page { html::text(&text) } else { text };
    Ok(PageContent::Text(plain(text.as_bytes())))
}

fn media(got: &Download, kind: &str) -> Result<PageContent, String> {
    let media = Media::of(kind, &got.bytes);
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

/// The encoding that the parameters of a content type name.
fn charset(parameters: &str) -> Option<&'static Encoding> {
    let named = parameters.split(';').filter_map(|it| it.split_once('='));
    let mut named = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    Encoding::for_label(named.next()?.1.trim().trim_matches(['"', '\'']).as_bytes())
}

/// The text of bytes: a mark at their beginning counts most, then what the server says, then what
/// a page says of itself; if that cannot be true, it is guessed. `None` if they are no text.
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

/// The encoding that a page names in its head.
fn says_itself(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(SAYS)].to_ascii_lowercase();
    let meta = memmem::find(&head, b"charset=")? + "charset=".len();
    let mut labels = head[meta..].split(|byte| b"\"' \t\r\n;/>".contains(byte));
    let encoding = Encoding::for_label(labels.find(|label| !label.is_empty())?)?;
    // It could not have been read if that were true.
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

fn looks_like_page(text: &str) -> bool {
    let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}
