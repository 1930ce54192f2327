//! Text and files of messages and artifacts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use tandem_content::fence::fence;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;

/// Characters of a file's name, type or address.
const NAME: usize = 300;

/// Maximum number of files that are named.
const FILES: usize = 200;

/// Type of diffs.
const DIFF: &str = "text/x-diff";

/// Text and files that an agent has sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RemoteContent {
    pub(super) text: String,
    /// A line a file that is no text here: its name, its type, its address if it has one. None is fetched.
    pub(super) files: Vec<String>,
    /// Names of the files that the agent has changed.
    pub(super) changed: Vec<String>,
}

impl RemoteContent {
    /// Reads message parts of A2A 0.3 or 1.0. Keeps at most `left` bytes of text, and lowers `left` by the bytes kept. Of a
    /// changed file that comes with its diff, keeps the content if the file is new, else the diff.
    pub(super) fn read(parts: &Value, left: &mut usize) -> Self {
        let mut content = Self::default();
        let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
        for part in parts {
            if content.changed.len() < FILES {
                content.changed.extend(changed_file(part));
            }
            if !is_repeated(part, parts) {
                content.add(part, left);
            }
        }
        content
    }

    fn add(&mut self, part: &Value, left: &mut usize) {
        if let Some(text) = part["text"].as_str() {
            self.separate();
            self.text.push_str(&kept(text, left));
        } else if let Some((file, line)) = file(part) {
            if let Some(text) = inline_text(file) {
                self.separate();
                let text = kept(&text, left);
                self.text.push_str(&format!("{line}:\n{}\n", fence(&text, "")));
            } else if self.files.len() < FILES {
                self.files.push(line);
            }
        } else if let Some(data) = part.get("data").filter(|data| !data.is_null()) {
            self.separate();
            self.text.push_str(&kept(&format!("{data:#}"), left));
        }
    }

    /// Adds more of the same.
    pub(super) fn append(&mut self, more: Self) {
        self.text.push_str(&more.text);
        self.files.extend(more.files);
        self.files.truncate(FILES);
        self.changed.extend(more.changed);
        self.changed.truncate(FILES);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.files.is_empty()
    }

    /// Begins a new line, if there is something on this one.
    fn separate(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// Returns what is kept of a text: plain text, and no more bytes than are left.
pub(super) fn kept(text: &str, left: &mut usize) -> String {
    let text = &text[..text.floor_char_boundary(*left)];
    *left -= text.len();
    plain(text.as_bytes())
}

/// Returns `true` for the redundant one of two parts about a changed file: the diff of a new file, or the content of a
/// file that existed before.
fn is_repeated(part: &Value, parts: &[Value]) -> bool {
    match changed_file(part) {
        Some(name) => {
            is_of_new_file(part)
                && parts.iter().any(|whole| file_name(whole).as_ref() == Some(&name))
        }
        None => file_name(part).is_some_and(|name| {
            let is_diff = |other: &&Value| changed_file(other).as_ref() == Some(&name);
            parts.iter().find(is_diff).is_some_and(|diff| !is_of_new_file(diff))
        }),
    }
}

/// Returns the name of the file whose change a part is, if the part is a diff that can be read.
fn changed_file(part: &Value) -> Option<String> {
    let (file, _) = file(part)?;
    let kind = ["mimeType", "mediaType"].iter().find_map(|name| file[*name].as_str());
    let name = file_name(part).filter(|_| kind == Some(DIFF) && inline_text(file).is_some())?;
    name.strip_suffix(".diff").map(ToOwned::to_owned)
}

/// Returns `true` for the diff of a new file.
fn is_of_new_file(diff: &Value) -> bool {
    let text = file(diff).and_then(|(file, _)| inline_text(file));
    text.is_some_and(|text| text.starts_with("--- /dev/null\n"))
}

/// Returns the name of a part that is a file, if the file has one.
fn file_name(part: &Value) -> Option<String> {
    let (file, _) = file(part)?;
    let name = ["name", "filename"].iter().find_map(|name| file[*name].as_str())?;
    Some(one_line(&plain(name.as_bytes()), NAME))
}

/// Returns the content of a file that comes with its part, if it is a text.
fn inline_text(file: &Value) -> Option<String> {
    let bytes = ["bytes", "raw"].iter().find_map(|name| file[*name].as_str())?;
    let bytes: String = bytes.split_ascii_whitespace().collect();
    let text = String::from_utf8(BASE64_STANDARD.decode(bytes).ok()?).ok()?;
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns a part that is a file, in 0.3 an object of its own, in 1.0 bytes or an address, and its line.
fn file(part: &Value) -> Option<(&Value, String)> {
    let inner = Some(&part["file"]).filter(|file| file.is_object());
    let file =
        inner.or_else(|| (part["raw"].is_string() || part["url"].is_string()).then_some(part))?;
    let text = |names: &[&str]| {
        let text = names.iter().find_map(|name| file[*name].as_str());
        text.map(|text| one_line(&plain(text.as_bytes()), NAME)).filter(|text| !text.is_empty())
    };
    let name = text(&["name", "filename"]).unwrap_or_else(|| "a file without a name".to_owned());
    let mut line = format!(
        "{name} ({}",
        text(&["mimeType", "mediaType"]).unwrap_or_else(|| "of no known type".to_owned())
    );
    if let Some(bytes) = ["bytes", "raw"].iter().find_map(|name| file[*name].as_str()) {
        line += &format!(", about {} bytes", bytes.len() / 4 * 3);
    }
    if let Some(address) = text(&["uri", "url"]) {
        line += &format!(", at {address}");
    }
    Some((file, line + ")"))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(parts: Value, text: &str, files: &[&str]) {
        let content = RemoteContent::read(&parts, &mut 100);
        assert_eq!(content.text, text);
        assert_eq!(content.files, files);
    }

    #[test]
    fn parts_of_both_versions_are_read() {
        check(json!([{ "kind": "text", "text": "a" }, { "text": "b" }]), "a\nb", &[]);
        check(json!([{ "kind": "data", "data": { "n": 1 } }]), "{\n  \"n\": 1\n}", &[]);
        let old = json!({ "name": "a.png", "mimeType": "image/png", "bytes": "AAAAAAAA" });
        check(json!([{ "kind": "file", "file": old }]), "", &["a.png (image/png, about 6 bytes)"]);
        let new = json!({ "url": "https://h.test/a", "filename": "a\nb" });
        check(json!([new]), "", &["a b (of no known type, at https://h.test/a)"]);
        check(
            json!([{ "raw": "AAAA" }]),
            "",
            &["a file without a name (of no known type, about 3 bytes)"],
        );
    }

    #[test]
    fn files_that_come_with_their_parts_are_read_if_they_are_texts() {
        // "fn x() {}" and "```", in base64.
        let old = json!({ "name": "a.rs", "mimeType": "text/x-rust", "bytes": "Zm4geCgpIHt9" });
        let quoted = "a.rs (text/x-rust, about 9 bytes):\n```\nfn x() {}\n```\n";
        check(json!([{ "kind": "file", "file": old }]), quoted, &[]);
        let new = json!({ "raw": "YGBg", "filename": "b" });
        let quoted = "see\nb (of no known type, about 3 bytes):\n````\n```\n````\n";
        check(json!([{ "text": "see" }, new]), quoted, &[]);
        let binary = json!({ "raw": "AAEC", "filename": "c" });
        check(json!([binary]), "", &["c (of no known type, about 3 bytes)"]);
        let long = json!({ "raw": "eHh4".repeat(100), "filename": "d" });
        let content = RemoteContent::read(&json!([long]), &mut 100);
        assert!(content.text.ends_with(&format!("```\n{}\n```\n", "x".repeat(100))));
    }

    #[test]
    fn a_changed_file_is_read_once() {
        let part = |name: &str, kind: &str, content: &str| {
            let bytes = BASE64_STANDARD.encode(content);
            json!({ "kind": "file", "file": { "name": name, "mimeType": kind, "bytes": bytes } })
        };
        let read = |diff: &str| {
            let parts = json!([
                part("a.diff", "text/x-diff", diff),
                part("a", "text/plain", "new\n"),
                part("b", "text/plain", "other\n"),
            ]);
            RemoteContent::read(&parts, &mut 1000)
        };
        let (new, old) = (read("--- /dev/null\n+++ /w/a\n+new\n"), read("--- /w/a\n-old\n+new\n"));
        let other = "b (text/plain, about 6 bytes):\n```\nother\n```\n";
        let fenced = |title: &str, text: &str| format!("{title}:\n{}\n{other}", fence(text, ""));
        assert_eq!(new.text, fenced("a (text/plain, about 6 bytes)", "new\n"));
        let diff = fenced("a.diff (text/x-diff, about 21 bytes)", "--- /w/a\n-old\n+new\n");
        assert_eq!(old.text, diff);
        assert_eq!((new.changed, old.changed), (vec!["a".to_owned()], vec!["a".to_owned()]));
        // A diff alone is shown, whatever there was before.
        let alone = json!([part("a.diff", "text/x-diff", "--- /dev/null\n+++ /w/a\n+new\n")]);
        assert!(RemoteContent::read(&alone, &mut 1000).text.contains("+new"));
        // A file of that name is no diff.
        let plain = json!([part("a.diff", "text/plain", "x"), part("a", "text/plain", "y")]);
        let plain = RemoteContent::read(&plain, &mut 1000);
        assert!(plain.text.contains("\nx\n") && plain.text.contains("\ny\n"), "{}", plain.text);
        assert!(plain.changed.is_empty());
    }

    #[test]
    fn what_is_no_part_is_left_out() {
        check(json!(null), "", &[]);
        check(json!(["a", 5, {}, { "text": 5 }, { "data": null }]), "", &[]);
    }

    #[test]
    fn only_so_much_text_is_kept() {
        check(
            json!([{ "text": "x".repeat(90) }, { "text": "ä".repeat(90) }, { "text": "y" }]),
            &format!("{}\n{}\n", "x".repeat(90), "ä".repeat(5)),
            &[],
        );
    }
}
