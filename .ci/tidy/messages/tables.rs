//! Messages in files of data.

use std::fs;
use std::path::Path;

use super::Message;
use super::kind::Kind;

/// Tables with texts for people, and the key of those texts: empty for all keys.
const TABLES: &[(&str, &str)] = &[
    ("src/shell/environment.toml", "reason"),
    ("src/shell/every_time.toml", "effect"),
    ("src/shell/sensitive.toml", ""),
];

/// The page of a browser that asks for a key.
const PAGE: &str = "src/settings/login_page.html";

pub(super) fn messages(root: &Path) -> Vec<Message> {
    let mut messages = Vec::new();
    for (path, key) in TABLES {
        let lines = read(root, path).into_iter().filter_map(|(line, text)| {
            let (name, value) = text.split_once(" = ")?;
            let is_text = (key.is_empty() || name == *key) && !text.starts_with('#');
            let value = value.strip_prefix('"')?.strip_suffix('"')?;
            is_text.then(|| message(Kind::Reason, path, line, value))
        });
        messages.extend(lines);
    }
    let lines = read(root, PAGE).into_iter().skip_while(|(_, text)| !text.starts_with("</style>"));
    messages.extend(lines.filter_map(|(line, text)| {
        let text = without_tags(&text);
        (!text.is_empty()).then(|| message(Kind::Question, PAGE, line, &text))
    }));
    messages
}

fn message(kind: Kind, path: &str, line: usize, text: &str) -> Message {
    Message { kind, path: path.to_owned(), line, text: text.to_owned() }
}

/// The lines of a file, each with its number.
fn read(root: &Path, path: &str) -> Vec<(usize, String)> {
    let text = fs::read_to_string(root.join(path)).unwrap_or_default();
    text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect()
}

fn without_tags(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            _ if !is_tag => text.push(c),
            _ => {}
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::workspace;

    #[test]
    fn every_file_has_texts() {
        let messages = messages(&workspace());
        for path in TABLES.iter().map(|(path, _)| *path).chain([PAGE]) {
            assert!(messages.iter().any(|message| message.path == path), "{path}");
        }
    }

    #[test]
    fn tags_are_no_text() {
        assert_eq!(without_tags("<p>You <b>can</b> close"), "You can close");
    }
}
