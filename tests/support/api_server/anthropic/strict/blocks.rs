//! Refusals of content blocks: unknown fields, empty texts, and thinking that the model has not signed.

use serde_json::{Map, Value};

use super::{Refusal, Turn, known, object, required};
use crate::api_server::fields::{array, events, field, is_name, kind, text};

/// Maximum length of a call's id.
const MAX_ID_CHARS: usize = 128;

/// A check of content blocks.
pub(super) struct Blocks {
    /// Thinking of the answers so far, each with its signature.
    signed: Vec<(String, String)>,
    is_paused: bool,
}

impl Blocks {
    /// Returns the check of blocks after answers with these bodies.
    pub(super) fn new(given: &[Vec<u8>]) -> Self {
        let signed = given.iter().flat_map(|body| signed(body)).collect();
        let last = given.last().map(|body| String::from_utf8_lossy(body));
        Self { signed, is_paused: last.is_some_and(|body| body.contains("\"pause_turn\"")) }
    }

    /// Returns `true` if the last answer was paused, and goes on when it is sent back.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Checks the blocks of the message `n`.
    pub(super) fn check(&self, turn: &Turn<'_>, n: usize) -> Result<(), Refusal> {
        for (at, block) in turn.blocks.iter().enumerate() {
            let kind = kind(block);
            let (fields, needed, role) = fields(kind);
            if role.is_some_and(|role| role != turn.role) || fields.is_empty() {
                return Err(Refusal::new(format!(
                    "messages.{n}.content.{at}: `{kind}` blocks are not permitted in {} messages",
                    turn.role
                )));
            }
            let place = format!("messages.{n}.content.{at}.{kind}");
            known(block, fields, &place)?;
            required(block, needed, &place)?;
            self.check_content(block, &place)?;
        }
        Ok(())
    }

    fn check_content(&self, block: &Map<String, Value>, place: &str) -> Result<(), Refusal> {
        match kind(block) {
            "text" => non_empty(block),
            "thinking" => {
                let same = (text(block, "thinking"), text(block, "signature"));
                let mut signed = self.signed.iter();
                if signed
                    .any(|(thinking, signature)| (thinking.as_str(), signature.as_str()) == same)
                {
                    return Ok(());
                }
                let place = place.trim_end_matches(".thinking");
                Err(Refusal::new(format!("{place}: Invalid `signature` in `thinking` block")))
            }
            "tool_use" => {
                object(field(block, "input"), &format!("{place}.input"))?;
                id(text(block, "id"), &format!("{place}.id"))
            }
            "tool_result" => {
                id(text(block, "tool_use_id"), &format!("{place}.tool_use_id"))?;
                check_result(block, place)
            }
            _ => Ok(()),
        }
    }
}

/// Returns the fields of a kind of block, the fields that it needs, and the role that alone may have it. There are no
/// fields of a kind that the API does not know.
fn fields(kind: &str) -> (&'static [&'static str], &'static [&'static str], Option<&'static str>) {
    let assistant = Some("assistant");
    match kind {
        "text" => (&["type", "text", "cache_control", "citations"], &["text"], None),
        "image" => {
            (&["type", "source", "cache_control", "transformations"], &["source"], Some("user"))
        }
        "document" => {
            let fields = &["type", "source", "cache_control", "citations", "context", "title"];
            (fields, &["source"], Some("user"))
        }
        "thinking" => (&["type", "thinking", "signature"], &["thinking", "signature"], assistant),
        "redacted_thinking" => (&["type", "data"], &["data"], assistant),
        "tool_use" => {
            let fields =
                &["type", "id", "name", "input", "cache_control", "caller", "toolset_name"];
            (fields, &["id", "name", "input"], assistant)
        }
        "tool_result" => {
            let fields =
                &["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"];
            (fields, &["tool_use_id"], Some("user"))
        }
        _ => (&[], &[], None),
    }
}

fn check_result(block: &Map<String, Value>, place: &str) -> Result<(), Refusal> {
    let is_error = field(block, "is_error") == &Value::Bool(true);
    let content = field(block, "content");
    if is_error && array(content).is_empty() && content.as_str().is_none_or(str::is_empty) {
        let message = format!("{place}: content cannot be empty if `is_error` is true");
        return Err(Refusal::new(message));
    }
    for (n, part) in array(content).iter().enumerate() {
        let at = format!("{place}.content.{n}");
        let part = object(part, &at)?;
        let kind = kind(part);
        if is_error && kind != "text" {
            let message =
                format!("{place}: all content must be type \"text\" if `is_error` is true");
            return Err(Refusal::new(message));
        }
        let (fields, needed, _) = fields(kind);
        if !["text", "image", "document"].contains(&kind) {
            return Err(Refusal::new(format!("{at}: `{kind}` is not permitted in a result")));
        }
        known(part, fields, &format!("{at}.{kind}"))?;
        required(part, needed, &format!("{at}.{kind}"))?;
        if kind == "text" {
            non_empty(part)?;
        }
    }
    Ok(())
}

fn non_empty(block: &Map<String, Value>) -> Result<(), Refusal> {
    match text(block, "text").trim() {
        "" => Err(Refusal::new("messages: text content blocks must contain non-whitespace text")),
        _ => Ok(()),
    }
}

fn id(id: &str, at: &str) -> Result<(), Refusal> {
    if is_name(id, MAX_ID_CHARS) {
        return Ok(());
    }
    Err(Refusal::new(format!("{at}: String should match pattern '^[a-zA-Z0-9_-]+$'")))
}

/// Returns the thinking of one answer, each with its signature.
fn signed(body: &[u8]) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    for event in events(body) {
        let (whole, more) = match event["type"].as_str() {
            // Some servers send a whole message in its first event.
            Some("message_start") => (event["message"]["content"].clone(), Value::Null),
            Some("content_block_start") => {
                (Value::from(vec![event["content_block"].clone()]), Value::Null)
            }
            _ => (Value::Null, event["delta"].clone()),
        };
        let new = array(&whole).iter();
        let part =
            |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        blocks.extend(new.map(|block| (part(block, "thinking"), part(block, "signature"))));
        if let Some((thinking, signature)) = blocks.last_mut() {
            thinking.push_str(&part(&more, "thinking"));
            signature.push_str(&part(&more, "signature"));
        }
    }
    blocks.retain(|(_, signature)| !signature.is_empty());
    blocks
}
