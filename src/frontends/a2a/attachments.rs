//! Files that clients send with a message, translated to parts of the prompt.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use tandem_agent::session::{PromptFile, PromptPart, attachment_name};
use tandem_content::fence::fence;
use tandem_content::media::Media;
use tandem_content::shorten::first_chars;
use tandem_content::visible::visible_line;
use tandem_wire::a2a::FilePart;

/// Media types, and suffixes of media types, of texts outside of `text/`. Without a type, or with a generic
/// one, the content decides.
const TEXT_TYPES: &[&str] = &[
    "",
    "application/octet-stream",
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/x-javascript",
    "application/typescript",
    "application/sql",
    "application/graphql",
    "application/x-sh",
    "application/x-shellscript",
    "application/x-python",
    "application/x-patch",
    "application/x-diff",
    "+json",
    "+xml",
    "+yaml",
];

/// A file that comes with a message.
pub(super) enum Attachment {
    /// The file is a message by itself.
    Taken(Vec<PromptPart>),
    /// The file needs words of the prompt around it: a text of an unknown type, which is quoted, or a file that is
    /// stored beside the session.
    Beside(Vec<PromptPart>),
    /// The file cannot be used.
    Refused {
        /// Text for the prompt in place of the file.
        note: PromptPart,
        /// Reason for the refusal, and a remedy.
        why: String,
    },
}

/// A file that the caller stores beside the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReceivedFile {
    pub(super) file: PromptFile,
    pub(super) content: Vec<u8>,
}

/// Reads the file that a part contains or names; `None` if the part is no file. At most `max_chars` characters of a
/// text are quoted. A file that the caller must store beside the session is added to `files`.
pub(super) fn read<'a>(
    file: &'a FilePart,
    max_chars: usize,
    files: &mut Vec<ReceivedFile>,
) -> Option<Attachment> {
    let text = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
    let kind = file.media_type.as_deref().unwrap_or_default();
    let uri = text(&file.uri);
    let name = text(&file.name).or(uri).unwrap_or("file");
    if let Some(uri) = uri {
        return Some(match uri.strip_prefix("file://") {
            Some(path) => Attachment::Taken(vec![PromptPart::Path(path.to_owned())]),
            None => refused(name, kind, "only files of this machine are read: `file:///...`"),
        });
    }
    let bytes: String = text(&file.base64)?.split_ascii_whitespace().collect();
    let Ok(bytes) = BASE64_STANDARD.decode(bytes) else {
        return Some(refused(name, kind, "its content is not base64"));
    };
    if let Some(media) = Media::encode(kind, &bytes) {
        return Some(Attachment::Taken(vec![PromptPart::Media(media)]));
    }
    let base = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if Media::types().any(|known| known == base) {
        return Some(refused(name, kind, "its content does not match its type"));
    }
    let text = str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'));
    let Some(text) = text else {
        return Some(Attachment::Beside(vec![beside(name, kind, bytes, files)]));
    };
    let is_cut = text.chars().nth(max_chars).is_some();
    let mut quoted = vec![PromptPart::Input(quote(name, kind, text, max_chars))];
    if is_cut {
        // The model can read the rest from the file.
        quoted.push(beside(name, kind, bytes, files));
    }
    Some(if is_text(&base) { Attachment::Taken(quoted) } else { Attachment::Beside(quoted) })
}

/// Adds a file to the files that are stored beside the session. Returns the part of the prompt that names the file.
fn beside(name: &str, kind: &str, content: Vec<u8>, files: &mut Vec<ReceivedFile>) -> PromptPart {
    let bytes = content.len() as u64;
    let (title, name) = (titled(name, kind), attachment_name(name, &content));
    let file = PromptFile { title, name, bytes };
    files.push(ReceivedFile { file: file.clone(), content });
    PromptPart::File(file)
}

/// Returns the part in place of a file that could not be stored beside the session.
pub(super) fn not_beside(file: &PromptFile, why: &str) -> PromptPart {
    PromptPart::Input(not_taken(&file.title, why))
}

/// Returns `true` if a media type is that of a text.
fn is_text(kind: &str) -> bool {
    let is_known = |known: &&str| match known.strip_prefix('+') {
        Some(_) => kind.ends_with(*known),
        None => kind == *known,
    };
    kind.starts_with("text/") || TEXT_TYPES.iter().any(is_known)
}

/// Returns a text in a fence, so that nothing in it counts as a mention or passes for a part of the
/// surrounding prompt.
fn quote(name: &str, kind: &str, content: &str, max_chars: usize) -> String {
    let shown = first_chars(content, max_chars);
    let rest = &content[shown.len()..];
    let mut quoted = format!("\nThe attached file {}:\n{}\n", titled(name, kind), fence(shown, ""));
    if !rest.is_empty() {
        let missing = rest.chars().count();
        quoted += &format!("[{missing} more characters of the file were left out.]\n");
    }
    quoted
}

fn refused(name: &str, kind: &str, why: &str) -> Attachment {
    let note = PromptPart::Input(not_taken(&titled(name, kind), why));
    Attachment::Refused { note, why: why.to_owned() }
}

fn not_taken(title: &str, why: &str) -> String {
    format!("\n[The attached file {title} was not taken: {why}.]\n")
}

/// Returns the name of a file for the prompt, with its media type if it has one.
fn titled(name: &str, kind: &str) -> String {
    let plain = |text: &str| -> String {
        let line: Cow<'_, str> = visible_line(text);
        line.replace('`', "'")
    };
    match plain(kind) {
        kind if kind.is_empty() => format!("`{}`", plain(name)),
        kind => format!("`{}` ({kind})", plain(name)),
    }
}
