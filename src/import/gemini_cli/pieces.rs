//! The pieces of a message: parts of the Gemini API, as far as a session of tandem can have them.

use serde_json::Value;
use serde_json::value::RawValue;

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// Text.
    Text(String),
    /// Reasoning.
    Thought(String),
    /// A tool call, in the form of the API.
    Call(Value),
    /// Result of a call.
    Result(ResultPiece),
    /// A part that is not taken over: its media type, or [`UNKNOWN_TYPE`].
    Left(String),
}

/// Result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ResultPiece {
    /// Id of the call, or else its name.
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) failed: bool,
    /// Media types of parts of the result that are not taken over.
    pub(crate) left: Vec<String>,
}

/// Name of a part whose media type is not known.
const UNKNOWN_TYPE: &str = "unknown";

/// Maximum length in bytes of a media type that is repeated.
const MAX_MEDIA_TYPE_BYTES: usize = 40;

/// Parses a value; `None` if there is none, or if it cannot be parsed.
pub(crate) fn value(raw: Option<&RawValue>) -> Option<Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// Returns the pieces of a content in JSON: a text, a part, or a list of them.
pub(crate) fn of_raw(raw: Option<&RawValue>) -> Vec<Piece> {
    match raw {
        None => Vec::new(),
        // A content that cannot be parsed, because it is nested too deep, becomes one unknown piece.
        Some(raw) => value(Some(raw))
            .map_or_else(|| vec![Piece::Left(UNKNOWN_TYPE.to_owned())], |value| of_value(&value)),
    }
}

/// Returns the pieces of a parsed content.
pub(crate) fn of_value(content: &Value) -> Vec<Piece> {
    match content {
        Value::Null => Vec::new(),
        Value::Array(parts) => parts.iter().map(piece).collect(),
        part => vec![piece(part)],
    }
}

/// Joins the texts of pieces.
pub(crate) fn text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn piece(part: &Value) -> Piece {
    let text = || part["text"].as_str().unwrap_or_default().to_owned();
    match part {
        Value::String(text) => Piece::Text(text.clone()),
        _ if part["thought"] == true => Piece::Thought(text()),
        _ if part["text"].is_string() => Piece::Text(text()),
        _ if part["functionCall"].is_object() => Piece::Call(part["functionCall"].clone()),
        _ if part["functionResponse"].is_object() => {
            Piece::Result(result(&part["functionResponse"]))
        }
        _ => Piece::Left(media_name(part)),
    }
}

/// Returns the name of a part that is not taken over: its media type, if that is short and plain.
fn media_name(part: &Value) -> String {
    let mime_type =
        ["inlineData", "fileData"].iter().find_map(|key| part[key]["mimeType"].as_str());
    let plain = |name: &&str| {
        name.len() <= MAX_MEDIA_TYPE_BYTES
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.+-".contains(&byte))
    };
    mime_type.filter(plain).unwrap_or(UNKNOWN_TYPE).to_owned()
}

/// Returns the id of a call or a result. Older files have no id, so the name of the call serves as the id.
pub(crate) fn call_id(value: &Value) -> &str {
    value["id"].as_str().or(value["name"].as_str()).unwrap_or_default()
}

fn result(response: &Value) -> ResultPiece {
    let left = response["parts"].as_array().map(|parts| parts.iter().map(media_name).collect());
    let answer = &response["response"];
    let (text, failed) = match (&answer["output"], &answer["error"]) {
        (Value::String(output), _) => (output.clone(), false),
        (_, Value::String(error)) => (error.clone(), true),
        _ if answer.as_object().is_none_or(serde_json::Map::is_empty) => (String::new(), false),
        _ => (answer.to_string(), !answer["error"].is_null()),
    };
    let id = call_id(response).to_owned();
    ResultPiece { id, text, failed, left: left.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_of_the_api_is_a_piece() {
        let check = |content: Value, expected: &[Piece]| {
            assert_eq!(of_value(&content), expected, "{content}");
        };
        let text = |text: &str| Piece::Text(text.to_owned());
        check(json!("a"), &[text("a")]);
        check(json!({ "text": "a" }), &[text("a")]);
        check(json!(["a", { "text": "b" }]), &[text("a"), text("b")]);
        check(json!([{ "text": "a", "thought": true }]), &[Piece::Thought("a".to_owned())]);
        let call = json!({ "name": "n", "args": {} });
        check(json!([{ "functionCall": call, "thoughtSignature": "x" }]), &[Piece::Call(call)]);
        let left = |name: &str| Piece::Left(name.to_owned());
        check(
            json!({ "inlineData": { "mimeType": "image/png", "data": "" } }),
            &[left("image/png")],
        );
        check(json!({ "fileData": { "mimeType": "a\u{1b}[1m" } }), &[left(UNKNOWN_TYPE)]);
        check(
            json!([null, 7, {}, []]),
            &[left(UNKNOWN_TYPE), left(UNKNOWN_TYPE), left(UNKNOWN_TYPE), left(UNKNOWN_TYPE)],
        );
        check(json!(null), &[]);
    }

    #[test]
    fn a_result_is_what_the_model_was_told() {
        let check = |response: Value, text: &str, failed: bool| {
            let ResultPiece { text: got, failed: has_failed, .. } =
                result(&json!({ "id": "c", "response": response }));
            assert_eq!((got.as_str(), has_failed), (text, failed));
        };
        check(json!({ "output": "a" }), "a", false);
        check(json!({ "error": "a" }), "a", true);
        check(json!({ "rows": [1] }), r#"{"rows":[1]}"#, false);
        check(json!({}), "", false);
        check(json!(null), "", false);
        let image = json!({ "inlineData": { "mimeType": "image/png" } });
        assert_eq!(result(&json!({ "response": {}, "parts": [image] })).left, ["image/png"]);
    }
}
