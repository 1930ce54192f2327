//! Text and files of messages and artifacts.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use tandem_content::fence::fence;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_wire::a2a::{Part, PartData};

/// Maximum length of a file's name, type or address, in characters.
const MAX_NAME_CHARS: usize = 300;

/// Maximum number of files that are named.
const MAX_NAMED_FILES: usize = 200;

/// Media type of diffs.
const DIFF_TYPE: &str = "text/x-diff";

/// Text and files that an agent has sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RemoteContent {
    pub(super) text: String,
    /// One line for each file whose content is not shown as text: its name, its type, its address if it has one. No
    /// file is fetched from its address.
    pub(super) files: Vec<String>,
    /// Names of the files that the agent has changed.
    pub(super) changed: Vec<String>,
}

impl RemoteContent {
    /// Reads message parts of A2A 0.3 or 1.0. Keeps at most `left` bytes of text, and lowers `left` by the bytes kept.
    /// Of a new file, keeps the content and not the diff; of another changed file, keeps the diff and not the content,
    /// unless the diff is incomplete.
    pub(super) fn read(parts: &[Part], left: &mut usize) -> Self {
        let mut content = Self::default();
        // Made once for all parts: an agent may send so many that comparing each with each would take minutes.
        let forms = forms_by_name(parts);
        for part in parts {
            let file = SentFile::read(part);
            if let Some(file) = &file {
                if content.changed.len() < MAX_NAMED_FILES {
                    content.changed.extend(file.changed_name().map(shown_name));
                }
                if is_repeated(file, &forms) {
                    continue;
                }
            }
            content.add(part, file, left);
        }
        content
    }

    fn add(&mut self, part: &Part, file: Option<SentFile<'_>>, left: &mut usize) {
        if let Some(text) = &part.text {
            self.separate();
            self.text.push_str(&kept(text, left));
        } else if let Some(file) = file {
            if let Some(text) = &file.text {
                self.separate();
                let text = kept(text, left);
                self.text.push_str(&format!("{}:\n{}\n", file.line(), fence(&text, "")));
            } else if self.files.len() < MAX_NAMED_FILES {
                self.files.push(file.line());
            }
        } else if let Some(PartData::Received(data)) = &part.data {
            self.separate();
            self.text.push_str(&kept(&format!("{data:#}"), left));
        }
    }

    /// Appends further content.
    pub(super) fn append(&mut self, more: Self) {
        self.text.push_str(&more.text);
        self.files.extend(more.files);
        self.files.truncate(MAX_NAMED_FILES);
        self.changed.extend(more.changed);
        self.changed.truncate(MAX_NAMED_FILES);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.files.is_empty()
    }

    /// Begins a new line, unless the text is empty or ends with a line break.
    fn separate(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// Returns the part of a text that is stored, as plain text: at most `left` bytes. Lowers `left` by their number.
pub(super) fn kept(text: &str, left: &mut usize) -> String {
    let text = &text[..text.floor_char_boundary(*left)];
    *left -= text.len();
    plain(text.as_bytes())
}

/// File that an agent has sent as a part.
struct SentFile<'a> {
    name: Option<&'a str>,
    media_type: Option<&'a str>,
    address: Option<&'a str>,
    /// The content in base64, if the part has it.
    base64: Option<&'a str>,
    /// The decoded content, if the part has it and it is a text that is not empty.
    text: Option<String>,
}

impl<'a> SentFile<'a> {
    /// Reads a part that is a file.
    fn read(part: &'a Part) -> Option<Self> {
        let file = part.file.as_ref()?;
        Some(Self {
            name: file.name.as_deref(),
            media_type: file.media_type.as_deref(),
            address: file.uri.as_deref(),
            base64: file.base64.as_deref(),
            text: file.base64.as_deref().and_then(decoded_text),
        })
    }

    /// Returns the name of the changed file, if this file is its diff and can be read.
    fn changed_name(&self) -> Option<&'a str> {
        let is_diff = self.media_type == Some(DIFF_TYPE) && self.text.is_some();
        self.name.filter(|_| is_diff)?.strip_suffix(".diff")
    }

    /// Returns the name, the type, the size and the address in a line.
    fn line(&self) -> String {
        let shown = |text: Option<&str>| text.map(shown_name).filter(|text| !text.is_empty());
        let name = shown(self.name).unwrap_or_else(|| "a file without a name".to_owned());
        let media_type = shown(self.media_type).unwrap_or_else(|| "of no known type".to_owned());
        let mut line = format!("{name} ({media_type}");
        if let Some(base64) = self.base64 {
            line += &format!(", about {} bytes", base64.len() / 4 * 3);
        }
        if let Some(address) = shown(self.address) {
            line += &format!(", at {address}");
        }
        line + ")"
    }
}

/// Forms in which an agent has sent one file.
#[derive(Default)]
struct SentForms {
    has_complete_diff: bool,
    /// `true` if the diff shows a file that did not exist before.
    is_new: bool,
    has_text: bool,
}

/// Returns the forms of each file among the parts, by the name of the file that was changed or sent.
fn forms_by_name(parts: &[Part]) -> HashMap<&str, SentForms> {
    let mut forms: HashMap<&str, SentForms> = HashMap::new();
    for file in parts.iter().filter_map(SentFile::read) {
        let (Some(name), Some(text)) = (file.name, &file.text) else { continue };
        if let Some(changed) = file.changed_name() {
            let forms = forms.entry(changed).or_default();
            forms.has_complete_diff |= is_complete_diff(text);
            forms.is_new |= is_diff_of_new_file(text);
        } else {
            // A diff does not count as a text: the diff of `x` has the name `x.diff`, but is not the text of a file
            // `x.diff`.
            forms.entry(name).or_default().has_text = true;
        }
    }
    forms
}

/// Returns `true` if another part makes this file redundant: the diff of a new file repeats its text, and the content
/// of a file that existed before repeats its diff. A part with only an address is never redundant.
fn is_repeated(file: &SentFile<'_>, forms: &HashMap<&str, SentForms>) -> bool {
    if let Some(changed) = file.changed_name() {
        let is_new = file.text.as_deref().is_some_and(is_diff_of_new_file);
        return is_new && forms.get(changed).is_some_and(|forms| forms.has_text);
    }
    // `base64` is checked, not `text`: a file that was emptied has content, but no text.
    let has_content = file.base64.is_some();
    let forms = file.name.filter(|_| has_content).and_then(|name| forms.get(name));
    // The content of a new file is not redundant: its diff may have been left out because of this content.
    forms.is_some_and(|forms| forms.has_complete_diff && !forms.is_new)
}

/// Returns `true` if a diff shows the whole change. In place of a diff, or of the end of a diff, that an agent leaves
/// out, the agent puts a remark. The remark is recognized by its first character: agents need not use the same words.
fn is_complete_diff(diff: &str) -> bool {
    let last = diff.lines().next_back().unwrap_or_default();
    diff.starts_with("--- ") && last.starts_with([' ', '+', '-', '\\'])
}

fn is_diff_of_new_file(diff: &str) -> bool {
    diff.starts_with("--- /dev/null\n")
}

/// Returns a file's name, type or address in the form in which people and the model are shown it.
fn shown_name(name: &str) -> String {
    one_line(&plain(name.as_bytes()), MAX_NAME_CHARS)
}

/// Returns the content of a file that has come in base64, if it is a text that is not empty.
fn decoded_text(base64: &str) -> Option<String> {
    let base64: String = base64.split_ascii_whitespace().collect();
    let text = String::from_utf8(BASE64_STANDARD.decode(base64).ok()?).ok()?;
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::{Value, json};
    use tandem_wire::a2a::Fields;

    use super::*;

    fn read(parts: Value, left: &mut usize) -> RemoteContent {
        let mut message = Fields::from(json!({ "parts": parts }));
        RemoteContent::read(&message.take_list::<Part>("parts"), left)
    }

    #[track_caller]
    fn check(parts: Value, text: &str, files: &[&str]) {
        let content = read(parts, &mut 100);
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
        let content = read(json!([long]), &mut 100);
        assert!(content.text.ends_with(&format!("```\n{}\n```\n", "x".repeat(100))));
    }

    fn inline(name: &str, kind: &str, content: &str) -> Value {
        let bytes = BASE64_STANDARD.encode(content);
        json!({ "kind": "file", "file": { "name": name, "mimeType": kind, "bytes": bytes } })
    }

    fn diff(name: &str, content: &str) -> Value {
        inline(&format!("{name}.diff"), DIFF_TYPE, content)
    }

    /// Checks which of the parts of an agent that changed the file `a` are shown, in order, and that `a` is named once.
    #[track_caller]
    fn check_changed(parts: Value, shown: &[(&str, &str)]) {
        let content = read(parts, &mut 10_000);
        let fenced = |(line, text): &(&str, &str)| format!("{line}:\n{}\n", fence(text, ""));
        assert_eq!(content.text, shown.iter().map(fenced).collect::<String>());
        assert_eq!(content.changed, ["a"]);
    }

    const CREATED_DIFF: &str = "--- /dev/null\n+++ /w/a\n@@ -0,0 +1 @@\n+new\n";
    const CHANGED_DIFF: &str = "--- /w/a\n+++ /w/a\n@@ -1 +1 @@\n-old\n+new\n";
    const DIFF_LINE: &str = "a.diff (text/x-diff, about 42 bytes)";
    const FILE_CONTENT: (&str, &str) = ("a (text/plain, about 6 bytes)", "new\n");

    #[test]
    fn a_changed_file_is_read_once() {
        let content = inline("a", "text/plain", "new\n");
        let other = inline("b", "text/plain", "new\n");
        let other_shown = ("b (text/plain, about 6 bytes)", "new\n");
        check_changed(
            json!([diff("a", CREATED_DIFF), content, other]),
            &[FILE_CONTENT, other_shown],
        );
        let changed_shown = (DIFF_LINE, CHANGED_DIFF);
        check_changed(
            json!([diff("a", CHANGED_DIFF), content, other]),
            &[changed_shown, other_shown],
        );
        check_changed(json!([content, diff("a", CHANGED_DIFF)]), &[changed_shown]);
        // A diff of a last line without its end.
        let open = CHANGED_DIFF.to_owned() + "\\ No newline at end of file\n";
        let open_shown = ("a.diff (text/x-diff, about 69 bytes)", &*open);
        check_changed(json!([diff("a", &open), content]), &[open_shown]);
        // A file of that name is no diff.
        let plain = json!([inline("a.diff", "text/plain", "x"), inline("a", "text/plain", "y")]);
        let plain = read(plain, &mut 1000);
        assert!(plain.text.contains("\nx\n") && plain.text.contains("\ny\n"), "{}", plain.text);
        assert!(plain.changed.is_empty());
    }

    #[test]
    fn the_content_of_a_changed_file_is_kept_if_its_diff_does_not_tell_all() {
        let content = inline("a", "text/plain", "new\n");
        let none = "[The file has more than 4194304 bytes: there is no diff of it.]\n";
        let none_shown = ("a.diff (text/x-diff, about 66 bytes)", none);
        check_changed(json!([diff("a", none), content]), &[none_shown, FILE_CONTENT]);
        let cut = CHANGED_DIFF.to_owned() + "[the rest of the diff is left out]\n";
        let cut_shown = ("a.diff (text/x-diff, about 75 bytes)", &*cut);
        check_changed(json!([diff("a", &cut), content]), &[cut_shown, FILE_CONTENT]);
        // The content of a new file has all of the change. So the diff is not shown, whether it is cut or not.
        let cut = CREATED_DIFF.to_owned() + "[the rest of the diff is left out]\n";
        check_changed(json!([diff("a", &cut), content]), &[FILE_CONTENT]);
    }

    #[test]
    fn the_diff_of_a_new_file_is_kept_if_the_content_does_not_come_as_text() {
        let shown = (DIFF_LINE, CREATED_DIFF);
        check_changed(json!([diff("a", CREATED_DIFF)]), &[shown]);
        let address = json!({ "url": "https://h.test/a", "filename": "a" });
        check_changed(json!([diff("a", CREATED_DIFF), address]), &[shown]);
        let binary = json!({ "raw": "AAEC", "filename": "a" });
        check_changed(json!([diff("a", CREATED_DIFF), binary]), &[shown]);
        // The diff of another file has the name of the new file.
        let parts = json!([diff("a.diff", CREATED_DIFF), diff("a", CHANGED_DIFF)]);
        let content = read(parts, &mut 1000);
        assert_eq!(content.changed, ["a.diff", "a"]);
        assert!(content.text.contains(CREATED_DIFF) && content.text.contains(CHANGED_DIFF));
    }

    #[test]
    fn a_file_with_a_diff_is_still_named_if_it_does_not_come_as_text() {
        let address = json!({ "url": "https://h.test/a", "filename": "a" });
        let content = read(json!([diff("a", CHANGED_DIFF), address]), &mut 1000);
        assert_eq!(content.files, ["a (of no known type, at https://h.test/a)"]);
        assert!(content.text.contains("+new"));
    }

    #[test]
    fn a_file_that_was_emptied_is_shown_by_its_diff_alone() {
        let diff = diff("a", "--- /w/a\n+++ /w/a\n@@ -1 +0,0 @@\n-old\n");
        let content = read(json!([diff, inline("a", "text/plain", "")]), &mut 1000);
        assert!(content.files.is_empty() && content.text.contains("-old"), "{content:?}");
    }

    #[test]
    fn the_content_of_a_file_with_several_diffs_is_not_lost() {
        let content = inline("a", "text/plain", "new\n");
        let parts = json!([diff("a", CREATED_DIFF), diff("a", CHANGED_DIFF), content]);
        let text = read(parts, &mut 1000).text;
        assert!(text.contains(FILE_CONTENT.0) && !text.contains("/dev/null"), "{text}");
    }

    /// Takes many minutes if each part is compared with every other part.
    #[test]
    fn the_time_for_many_parts_grows_with_their_number() {
        let address = |i| json!({ "url": "u", "filename": format!("{i}") });
        let diff = |i| diff(&format!("{i}"), CHANGED_DIFF);
        let parts = (0..25_000).flat_map(|i| [diff(i), address(i)]).collect();
        let content = read(Value::Array(parts), &mut 1000);
        assert_eq!(
            (content.changed.len(), content.files.len()),
            (MAX_NAMED_FILES, MAX_NAMED_FILES)
        );
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
