//! The parser of chat files, which reads as much as it can of a damaged file.
//!
//! Up to Gemini CLI 0.38, a chat file is one JSON object (`session-TIME-ID.json`), written anew with each message. From
//! 0.39 on, it is JSON Lines (`session-TIME-ID.jsonl`). The first line is that object without its messages. Each
//! further line is one of these:
//!
//! - a message, which replaces an earlier message with the same id;
//! - `{"$set": {...}}`, which replaces fields, and all messages if it has `messages`;
//! - `{"$rewindTo": ID}`, which removes the message with this id and all later ones, or all if no message has the id.
//!
//! `/chat save TAG` writes `checkpoint-TAG.json`: `{"history": [...]}`, or in older versions only the list. The
//! elements of the list are contents of the Gemini API.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Name of Gemini CLI, for people.
pub(crate) const PROGRAM_NAME: &str = "Gemini CLI";

/// A chat.
#[derive(Default)]
pub(crate) struct Chat<'a> {
    pub(crate) fields: Fields,
    pub(crate) messages: Vec<Message<'a>>,
    /// Number of lines, messages and other pieces that cannot be read.
    pub(crate) damaged: usize,
    /// `true` if the end of the file is missing.
    pub(crate) torn: bool,
    /// Indexes in `messages`, by the message's id.
    indexes: HashMap<String, usize>,
}

/// Properties of a chat as a whole.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Fields {
    pub(crate) session_id: Option<String>,
    /// SHA-256 of the path of the chat's directory.
    pub(crate) project_hash: Option<String>,
    /// Start of the chat, in the form of RFC 3339, as all times.
    pub(crate) start_time: Option<String>,
    pub(crate) last_updated: Option<String>,
    /// Title by a model, or the tag of `/chat save`.
    pub(crate) summary: Option<String>,
    /// `subagent` in the chat of a subagent, which a tool call has started.
    pub(crate) kind: Option<String>,
}

/// A message. Its values are parsed only when they are needed, so an unreadable value does not damage the others.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message<'a> {
    /// Id of the message; empty in a line that is no message.
    #[serde(default)]
    pub(crate) id: String,
    /// Kind of the message: `user`, `gemini`, or, if only people see it, `info`, `error` or `warning`.
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(borrow, default)]
    pub(crate) timestamp: Option<&'a RawValue>,
    /// A text, a part of the Gemini API, or a list of them.
    #[serde(borrow, default)]
    pub(crate) content: Option<&'a RawValue>,
    /// Words that the user typed, if they differ from the content.
    #[serde(borrow, default)]
    pub(crate) display_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) thoughts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) model: Option<&'a RawValue>,
    /// Fields to replace; set only in a line that is no message.
    #[serde(rename = "$set", borrow, default)]
    set: Option<&'a RawValue>,
    /// Id of the first message to remove; set only in a line that is no message.
    #[serde(rename = "$rewindTo", default)]
    rewind_to: Option<String>,
}

/// The whole object of a chat file, its first line, or the value of `$set`.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(flatten)]
    fields: Fields,
    #[serde(borrow, default)]
    messages: Option<Vec<&'a RawValue>>,
}

/// Content of a file that `/chat save` wrote.
#[derive(Deserialize)]
struct Checkpoint<'a> {
    #[serde(borrow)]
    history: Vec<&'a RawValue>,
}

/// A content of the Gemini API.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(default)]
    role: String,
    #[serde(borrow, default)]
    parts: Option<&'a RawValue>,
}

impl<'a> Chat<'a> {
    /// Parses a chat; `None` if the text has no id of a session.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let mut chat = Self::default();
        let first = text.lines().find(|line| !line.trim().is_empty())?;
        // The first line is complete JSON in a file of JSON Lines, and in an object on a single line, which `read_line`
        // can read too.
        if serde_json::from_str::<Message<'_>>(first).is_ok() {
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                // Each line sets `torn` anew, so that it tells in the end whether the last line was cut off.
                chat.torn = chat.read_line(line).is_err();
                chat.damaged += usize::from(chat.torn);
            }
            chat.torn &= !text.ends_with('\n');
        } else if chat.read_record(text).is_err() {
            chat.read_beginning(text);
        }
        chat.fields.session_id.is_some().then_some(chat)
    }

    /// Parses a file that `/chat save` wrote under the tag `name`.
    pub(crate) fn read_checkpoint(text: &'a str, name: &str) -> Option<Self> {
        let history = if text.trim_start().starts_with('[') {
            serde_json::from_str(text).ok()?
        } else {
            serde_json::from_str::<Checkpoint<'a>>(text).ok()?.history
        };
        let mut chat = Self::default();
        for content in history {
            let Ok(Content { role, parts }) = serde_json::from_str(content.get()) else {
                chat.damaged += 1;
                continue;
            };
            let kind = if role == "model" { "gemini" } else { "user" }.to_owned();
            let id = chat.messages.len().to_string();
            chat.messages.push(Message { id, kind, content: parts, ..Message::default() });
        }
        chat.fields.session_id = Some(saved_id(name));
        chat.fields.summary = Some(name.to_owned());
        Some(chat)
    }

    fn read_line(&mut self, line: &'a str) -> serde_json::Result<()> {
        let message: Message<'a> = serde_json::from_str(line)?;
        if let Some(id) = message.rewind_to {
            self.rewind(&id);
        } else if !message.id.is_empty() {
            self.add(message);
        } else {
            self.read_record(message.set.map_or(line, RawValue::get))?;
        }
        Ok(())
    }

    fn read_record(&mut self, json: &'a str) -> serde_json::Result<()> {
        let record: Record<'a> = serde_json::from_str(json)?;
        self.fields.set(record.fields);
        if let Some(messages) = record.messages {
            self.messages.clear();
            self.indexes.clear();
            for message in messages {
                self.push(message);
            }
        }
        Ok(())
    }

    /// Parses the fields and messages of an object that was not completely written.
    fn read_beginning(&mut self, text: &'a str) {
        const MESSAGES_KEY: &str = "\"messages\"";
        (self.damaged, self.torn) = (self.damaged + 1, true);
        let Some((fields, rest)) = text.split_once(MESSAGES_KEY) else { return };
        let fields = format!("{}}}", fields.trim_end().trim_end_matches(','));
        let Ok(fields) = serde_json::from_str(&fields) else { return };
        self.fields.set(fields);
        let Some((_, mut rest)) = rest.split_once('[') else { return };
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&'a RawValue>();
            let Some(Ok(message)) = values.next() else { return };
            self.push(message);
            rest = &rest[values.byte_offset()..];
        }
    }

    fn push(&mut self, json: &'a RawValue) {
        match serde_json::from_str::<Message<'a>>(json.get()) {
            Ok(message) if !message.id.is_empty() => self.add(message),
            _ => self.damaged += 1,
        }
    }

    fn add(&mut self, message: Message<'a>) {
        if let Some(at) = self.indexes.get(&message.id) {
            self.messages[*at] = message;
        } else {
            self.indexes.insert(message.id.clone(), self.messages.len());
            self.messages.push(message);
        }
    }

    fn rewind(&mut self, id: &str) {
        let begin = self.indexes.get(id).copied().unwrap_or(0);
        for message in self.messages.drain(begin..) {
            self.indexes.remove(&message.id);
        }
    }
}

/// Returns the id of the chat that `/chat save` wrote under a tag.
pub(super) fn saved_id(tag: &str) -> String {
    format!("/chat {tag}")
}

impl Fields {
    /// Replaces fields by those that are set in `other`.
    fn set(&mut self, other: Self) {
        let Self { session_id, project_hash, start_time, last_updated, summary, kind } = other;
        for (mine, others) in [
            (&mut self.session_id, session_id),
            (&mut self.project_hash, project_hash),
            (&mut self.start_time, start_time),
            (&mut self.last_updated, last_updated),
            (&mut self.summary, summary),
            (&mut self.kind, kind),
        ] {
            if others.is_some() {
                *mine = others;
            }
        }
    }
}

/// Returns the text of a file. Bytes that are not UTF-8, and escaped halves of characters, become replacement
/// characters.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned());
    let text = text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text);
    match without_halves(&text) {
        Cow::Owned(text) => text,
        Cow::Borrowed(_) => text,
    }
}

/// Replaces unpaired surrogates in the strings of a JSON text by U+FFFD. JavaScript writes them when it cuts a string
/// in the middle of a character, and a Rust string cannot have them.
fn without_halves(json: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(found) = json[at..].find("\\u") {
        at += found;
        let before = json.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        match (escape(json, at), escape(json, at + 6)) {
            // The backslash before the `u` is itself escaped, so this is no escape of a character.
            _ if before % 2 == 1 => at += 2,
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => at += 12,
            (Some(0xD800..0xE000), _) => {
                out.push_str(&json[done..at]);
                out.push_str("\\ufffd");
                at += 6;
                done = at;
            }
            _ => at += 2,
        }
    }
    if done == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[done..]);
    Cow::Owned(out)
}

/// Returns the UTF-16 code unit that is escaped (`\uXXXX`) at the byte offset `at`.
fn escape(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(text: &str) -> Vec<String> {
        let chat = Chat::read(text).unwrap();
        chat.messages.into_iter().map(|message| message.id).collect()
    }

    const HEAD: &str = r#"{"sessionId":"s","projectHash":"h","startTime":"a","lastUpdated":"b"}"#;

    #[test]
    fn lines_replace_set_and_take_back_messages() {
        let check = |lines: &[&str], expected: &[&str]| {
            let lines = [&[HEAD], lines].concat().join("\n");
            assert_eq!(ids(&lines), expected, "{lines}");
        };
        let (a, b, c) = (r#"{"id":"a"}"#, r#"{"id":"b"}"#, r#"{"id":"c","type":"user"}"#);
        check(&[a, b, a], &["a", "b"]);
        check(&[a, b, c, r#"{"$rewindTo":"b"}"#], &["a"]);
        check(&[a, b, c, r#"{"$rewindTo":"b"}"#, b], &["a", "b"]);
        check(&[a, b, r#"{"$rewindTo":"unknown"}"#, c], &["c"]);
        check(&[a, r#"{"$set":{"summary":"x","messages":[{"id":"c"}]}}"#, b], &["c", "b"]);
        check(&[a, r#"{"$set":{"lastUpdated":"x"}}"#], &["a"]);
    }

    #[test]
    fn the_last_value_of_a_field_counts() {
        let lines = [HEAD, r#"{"$set":{"lastUpdated":"c","summary":"x"}}"#].join("\r\n");
        let Fields { start_time, last_updated, summary, .. } = Chat::read(&lines).unwrap().fields;
        assert_eq!((start_time, last_updated), (Some("a".into()), Some("c".into())));
        assert_eq!(summary, Some("x".into()));
    }

    #[test]
    fn of_a_damaged_file_all_is_read_that_can_be() {
        let whole = r#"{
  "sessionId": "s",
  "projectHash": "h",
  "messages": [
    { "id": "a", "content": "x, ] \" y" },
    { "id": 7 },
    { "id": "b" }
  ],
  "summary": "x"
}"#;
        let chat = Chat::read(whole).unwrap();
        assert_eq!((ids(whole), chat.damaged), (vec!["a".into(), "b".into()], 1));
        let cut = &whole[..whole.find("\"b\"").unwrap()];
        let chat = Chat::read(cut).unwrap();
        assert_eq!((ids(cut), chat.damaged), (vec!["a".into()], 2));
        let torn =
            [HEAD, r#"{"id":"a"}"#, r#"{"id":"b","cont"#, "\0\0", r#"{"id":"c"}"#].join("\n");
        assert_eq!(
            (ids(&torn), Chat::read(&torn).unwrap().damaged),
            (vec!["a".into(), "c".into()], 2)
        );
    }

    #[test]
    fn what_is_no_chat_is_none() {
        let deep = "[".repeat(100_000);
        for text in ["", "\n", "[]", "null", "7", "{}", "{\"messages\":[", &deep, r#"{"id":"a"}"#] {
            assert!(Chat::read(text).is_none(), "{text:.20}");
        }
        let deep = format!("{HEAD}\n{{\"id\":\"a\",\"content\":{deep}");
        assert_eq!(Chat::read(&deep).unwrap().damaged, 1);
    }

    #[test]
    fn a_saved_conversation_is_a_chat_in_both_of_its_forms() {
        let list = r#"[{"role":"user","parts":[{"text":"a"}]}, 7, {"role":"model","parts":[]}]"#;
        let object = format!("{{\n  \"history\": {list}, \"authType\": \"x\"}}");
        for text in [list, &object] {
            let chat = Chat::read_checkpoint(text, "name").unwrap();
            let kinds: Vec<_> = chat.messages.iter().map(|message| message.kind.as_str()).collect();
            assert_eq!((kinds, chat.damaged), (vec!["user", "gemini"], 1));
            assert_eq!(chat.fields.summary.as_deref(), Some("name"));
        }
        for text in ["", "{}", "7", r#"{"history":[{"role"#] {
            assert!(Chat::read_checkpoint(text, "name").is_none());
        }
    }

    #[test]
    fn halves_of_characters_are_replaced_and_nothing_else() {
        let check = |json: &str, expected: &str| {
            let text = text_of(json.as_bytes().to_vec());
            assert_eq!(serde_json::from_str::<String>(&text).unwrap(), expected, "{json}");
        };
        check(r#""a\ud83d""#, "a\u{fffd}");
        check(r#""\ude00\ud83dx""#, "\u{fffd}\u{fffd}x");
        check(r#""\ud83d\ude00\ud83d""#, "😀\u{fffd}");
        check(r#""\\ud83d \u00e4 \" ä\\""#, "\\ud83d ä \" ä\\");
        assert_eq!(text_of(b"\xef\xbb\xbf\"a\xff\"".to_vec()), "\"a\u{fffd}\"");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in r#"[\\"{}a-fu0-9ä😀:,\n]{0,80}"#) {
            let text = text_of(text.into_bytes());
            let _ = Chat::read(&text);
            let lines = format!("{HEAD}\n{text}");
            let _ = Chat::read(&lines);
        }
    }
}
