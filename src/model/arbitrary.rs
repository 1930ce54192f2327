//! Strategies for conversations of any kind, valid and broken, for property tests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Assistant, Call, Message, Native, Part, ToolResult};
use tandem_content::media::Media;

/// Id of the model that most generated [`Native`] answers name.
pub(super) const TEST_MODEL: &str = "gemini-3.8-flash";

/// Returns a strategy for any sequence of messages.
pub(super) fn conversation() -> impl Strategy<Value = Vec<Arc<Message>>> {
    vec(message().prop_map(Arc::new), 0..12)
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        1 => vec(part(), 0..4).prop_map(Message::User),
        3 => assistant().prop_map(Message::Assistant),
        3 => vec(result(), 0..4).prop_map(Message::Results),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![3 => text().prop_map(Part::Text), 1 => media().prop_map(Part::Media)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-z]{1,5}"]
}

fn media() -> impl Strategy<Value = Media> {
    prop_oneof![Just("image/png"), Just("audio/wav"), Just("application/pdf")]
        .prop_map(|mime_type| Media::new(mime_type, b"x"))
}

/// Returns a strategy for ids. There are few ids, so that some calls and results match and some do not.
fn id() -> impl Strategy<Value = String> {
    "[a-d]"
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("read_file".to_owned()), Just("glob".to_owned()), Just("no such!".to_owned())]
}

fn call() -> impl Strategy<Value = Call> {
    (id(), name(), args()).prop_map(|(id, name, args)| Call { id, name, args })
}

fn args() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({"path": "a"})), Just(Value::Null), Just(json!("{broken"))]
}

fn result() -> impl Strategy<Value = ToolResult> {
    (id(), name(), text(), any::<bool>(), vec(media(), 0..2)).prop_map(
        |(call, name, text, failed, media)| ToolResult { call, name, text, failed, media },
    )
}

fn assistant() -> impl Strategy<Value = Assistant> {
    (text(), vec(call(), 0..4), option::of(native_kind())).prop_flat_map(|(text, calls, kind)| {
        let Some((backend, model, fits)) = kind else {
            return Just(Assistant { text, calls, native: None }).boxed();
        };
        let extra = vec(native_part(), 0..3);
        let with = (vec((any::<bool>(), signature()), calls.len()), extra);
        with.prop_map(move |(shapes, mut parts)| {
            if fits {
                parts.extend(
                    calls
                        .iter()
                        .zip(shapes)
                        .map(|(call, (id, signature))| sign(native_call(call, id), signature)),
                );
            }
            let (backend, model) = (backend.to_owned(), model.to_owned());
            let native = Some(Native { backend, model, parts });
            Assistant { text: text.clone(), calls: calls.clone(), native }
        })
        .boxed()
    })
}

fn native_call(call: &Call, id: bool) -> Value {
    let mut part = json!({"functionCall": {"name": call.name, "args": call.args}});
    if id {
        part["functionCall"]["id"] = json!(format!("native-{}", call.id));
    }
    part
}

/// Returns a strategy for a backend, a model, and `true` if the native parts have the calls.
fn native_kind() -> impl Strategy<Value = (&'static str, &'static str, bool)> {
    prop_oneof![
        4 => Just(("gemini", TEST_MODEL, true)),
        1 => Just(("gemini", TEST_MODEL, false)),
        1 => Just(("gemini", "gemini-3.1-pro-preview", true)),
        1 => Just(("openai", "gpt", true)),
    ]
}

fn native_part() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        text().prop_map(|text| json!({ "text": text })),
        text().prop_map(|text| json!({ "text": text, "thought": true })),
        Just(json!({"inlineData": {"mimeType": "image/png", "data": "eA=="}})),
        Just(json!({"somethingNew": [1, 2.5]})),
        Just(json!({})),
    ];
    prop_oneof![
        6 => (part, signature()).prop_map(|(part, signature)| sign(part, signature)),
        1 => Just(Value::Null),
        1 => Just(json!("garbage")),
    ]
}

fn signature() -> impl Strategy<Value = Option<String>> {
    option::of("[A-Z]{6}")
}

fn sign(mut part: Value, signature: Option<String>) -> Value {
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}
