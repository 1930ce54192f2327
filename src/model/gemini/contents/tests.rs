//! Property tests: the request for any conversation obeys the API's rules.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::arbitrary::{self, TEST_MODEL};
use crate::gemini::request::GenerateContentRequest;
use crate::{Call, Prompt};

static NONE_REFUSED: LazyLock<RefusedSignatures> = LazyLock::new(RefusedSignatures::new);
static LISTENING_TARGET: LazyLock<GeminiTarget<'_>> = LazyLock::new(|| GeminiTarget {
    model: TEST_MODEL,
    signatures: true,
    media_in_responses: true,
    refused: &NONE_REFUSED,
});

/// Returns the contents that a request has for these messages.
fn wire(messages: &[Arc<Message>], target: GeminiTarget<'_>) -> Vec<Value> {
    let prompt = Prompt { messages: messages.to_vec(), ..Prompt::default() };
    let request = GenerateContentRequest {
        prompt: &prompt,
        target,
        generation: &Map::new(),
        nudge: None,
        token: None,
    };
    let body: Value = serde_json::from_slice(&request.body().unwrap()).unwrap();
    body["contents"].as_array().unwrap().clone()
}

fn parts(content: &Value) -> &[Value] {
    content["parts"].as_array().unwrap()
}

/// Returns the values of one field of a content's parts.
fn all<'a>(content: &'a Value, field: &str) -> Vec<&'a Value> {
    parts(content).iter().filter_map(|part| part.get(field)).collect()
}

fn name_and_id(call: &Value) -> (Value, Value) {
    (call["name"].clone(), call["id"].clone())
}

fn is_empty(part: &Value) -> bool {
    let empty = part["text"].as_str().is_some_and(str::is_empty);
    part == &json!({})
        || (empty && part.get(SIGNATURE_KEY).is_none() && part.get("thought").is_none())
}

/// Returns the signed parts that this model made, in order.
fn signed_by_us(messages: &[Arc<Message>]) -> Vec<&Value> {
    let answers = messages.iter().filter_map(|message| match &**message {
        Message::Assistant(answer) => answer.native.as_ref().filter(|it| holds(it, answer)),
        _ => None,
    });
    let ours = answers.filter(|native| native.model == TEST_MODEL);
    let parts = ours.flat_map(|native| &native.parts);
    parts.filter(|part| part.get(SIGNATURE_KEY).is_some_and(Value::is_string)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_of_the_api_are_kept(messages in arbitrary::conversation()) {
        let contents = wire(&messages, *LISTENING_TARGET);
        for (at, content) in contents.iter().enumerate() {
            let role = if at % 2 == 0 { "user" } else { "model" };
            prop_assert_eq!(&content["role"], role);
            prop_assert!(!parts(content).is_empty());
            prop_assert!(!parts(content).iter().any(is_empty), "{}", content);
            let calls = all(content, "functionCall");
            prop_assert!(calls.iter().all(|call| call["args"].is_object()));
            let next = contents.get(at + 1).map(|next| all(next, "functionResponse"));
            let next = next.unwrap_or_default();
            let called: Vec<_> = calls.iter().copied().map(name_and_id).collect();
            if role == "model" {
                prop_assert_eq!(called, next.iter().copied().map(name_and_id).collect::<Vec<_>>());
            } else {
                prop_assert!(called.is_empty() && next.is_empty());
            }
            let is_response = |part: &Value| part.get("functionResponse").is_some();
            let late = parts(content).iter().skip_while(|part| is_response(part)).any(is_response);
            prop_assert!(!late, "responses come first: {}", content);
        }
        prop_assert_eq!(contents.len() % 2, 1, "the user is last");
    }

    #[test]
    fn what_this_model_signed_goes_back_where_it_was(messages in arbitrary::conversation()) {
        let contents = wire(&messages, *LISTENING_TARGET);
        let all = contents.iter().flat_map(|content| parts(content).iter().cloned());
        let is_dummy = |part: &Value| part[SIGNATURE_KEY] == DUMMY_SIGNATURE;
        let signed = all.filter(|part| part.get(SIGNATURE_KEY).is_some() && !is_dummy(part));
        let mut signed: Vec<Value> = signed.collect();
        let mut expected: Vec<Value> = signed_by_us(&messages).into_iter().cloned().collect();
        // Arguments that the API would refuse are changed before they are sent, so arguments are not compared.
        for part in signed.iter_mut().chain(&mut expected) {
            if let Some(call) = part.get_mut("functionCall") {
                call["args"].take();
            }
        }
        prop_assert_eq!(signed, expected);
    }

    #[test]
    fn the_first_call_of_each_step_is_signed(messages in arbitrary::conversation()) {
        let contents = wire(&messages, *LISTENING_TARGET);
        let is_prompt = |content: &Value| {
            content["role"] == "user" && all(content, "functionResponse").is_empty()
        };
        let turn = contents.iter().rposition(is_prompt).unwrap();
        for (at, content) in contents.iter().enumerate() {
            let mut calls = parts(content).iter().filter(|part| part.get("functionCall").is_some());
            if at > turn && let Some(first) = calls.next() {
                prop_assert!(first[SIGNATURE_KEY].is_string(), "{}", content);
            }
            if at < turn {
                prop_assert!(!calls.any(|call| call[SIGNATURE_KEY] == DUMMY_SIGNATURE), "{}", content);
            }
        }
    }

    #[test]
    fn refused_signatures_are_replaced(messages in arbitrary::conversation()) {
        let refused = signatures(&messages).collect();
        let contents = wire(&messages, GeminiTarget { refused: &refused, ..*LISTENING_TARGET });
        let others: Vec<_> = contents.iter().flat_map(|content| all(content, SIGNATURE_KEY)).collect();
        prop_assert!(others.iter().all(|signature| **signature == DUMMY_SIGNATURE), "{:?}", others);
    }

    #[test]
    fn an_older_model_gets_no_dummies(messages in arbitrary::conversation()) {
        let contents = wire(&messages, GeminiTarget { signatures: false, ..*LISTENING_TARGET });
        let signatures = contents.iter().flat_map(|content| all(content, SIGNATURE_KEY));
        prop_assert!(!signatures.into_iter().any(|signature| *signature == DUMMY_SIGNATURE));
    }
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User(vec![crate::Part::Text(text.to_owned())]))
}

fn native(model: &str, parts: Value) -> Arc<Message> {
    let Value::Array(parts) = parts else { panic!("{parts}") };
    let calls = parts.iter().filter_map(|part| part.get("functionCall")).enumerate();
    let calls = calls.map(|(n, call)| Call {
        id: format!("session-{n}"),
        name: call["name"].as_str().unwrap().to_owned(),
        args: call["args"].clone(),
    });
    let calls = calls.collect();
    let native = Native { backend: BACKEND_NAME.to_owned(), model: model.to_owned(), parts };
    Arc::new(Message::Assistant(Assistant { text: String::new(), calls, native: Some(native) }))
}

fn result(n: usize, name: &str, media: Vec<Media>) -> ToolResult {
    let (call, name) = (format!("session-{n}"), name.to_owned());
    ToolResult { call, name, text: format!("out {n}"), failed: n == 1, media }
}

#[track_caller]
fn check(messages: &[Arc<Message>], target: GeminiTarget<'_>, expected: &[Value]) {
    let contents = wire(messages, target);
    let sent: Vec<_> = contents.iter().map(|content| json!(parts(content))).collect();
    assert_eq!(sent, expected, "{}", json!(sent));
}

#[test]
fn responses_have_the_ids_that_the_calls_had() {
    let said = json!([
        {"functionCall": {"name": "glob", "args": {}}, "thoughtSignature": "S"},
        {"functionCall": {"id": "x", "name": "read_file", "args": {"b": 1, "a": 2}}},
    ]);
    let results = vec![result(0, "glob", vec![]), result(1, "read_file", vec![])];
    check(
        &[user("hi"), native(TEST_MODEL, said.clone()), Arc::new(Message::Results(results))],
        *LISTENING_TARGET,
        &[
            json!([{"text": "hi"}]),
            said,
            json!([
                {"functionResponse": {"name": "glob", "response": {"output": "out 0"}}},
                {"functionResponse":
                    {"id": "x", "name": "read_file", "response": {"error": "out 1"}}},
            ]),
        ],
    );
}

#[test]
fn another_models_signatures_are_not_sent() {
    let said = json!([
        {"text": "ok", "thoughtSignature": "A"},
        {"text": "", "thoughtSignature": "B"},
        {"text": "hm", "thought": true, "thoughtSignature": "C"},
        {"functionCall": {"id": "1", "name": "glob", "args": {}}, "thoughtSignature": "D"},
        {"functionCall": {"id": "2", "name": "glob", "args": {}}},
    ]);
    let results = vec![result(0, "glob", vec![]), result(1, "glob", vec![])];
    let contents = wire(
        &[user("hi"), native("gemini-other", said), Arc::new(Message::Results(results))],
        *LISTENING_TARGET,
    );
    let sent = json!([
        {"text": "ok"},
        {"functionCall": {"id": "1", "name": "glob", "args": {}}, "thoughtSignature": DUMMY_SIGNATURE},
        {"functionCall": {"id": "2", "name": "glob", "args": {}}},
    ]);
    assert_eq!(contents[1]["parts"], sent);
}

#[test]
fn calls_of_another_provider_are_told_anew() {
    let call = |id: &str, name: &str, args| Call { id: id.to_owned(), name: name.to_owned(), args };
    let calls = vec![call("1", "my tool!", json!("{bad")), call("2", "9", Value::Null)];
    let answer = Assistant { text: "ok".to_owned(), calls, native: None };
    let contents = wire(&[user("hi"), Arc::new(Message::Assistant(answer))], *LISTENING_TARGET);
    let sent = json!([
        {"text": "ok"},
        {"functionCall": {"id": "1", "name": "my_tool_", "args": {"input": "{bad"}},
            "thoughtSignature": DUMMY_SIGNATURE},
        {"functionCall": {"id": "2", "name": "_9", "args": {}}},
    ]);
    assert_eq!(contents[1]["parts"], sent);
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["name"], "my_tool_");
    assert_eq!(contents[2]["parts"][1]["functionResponse"]["id"], "2");
}

#[test]
fn media_go_into_responses_or_after_them() {
    let media = |kind: &str| Media::new(kind, b"x");
    let said = json!([
        {"functionCall": {"name": "glob", "args": {}}, "thoughtSignature": "S"},
        {"functionCall": {"name": "glob", "args": {}}},
    ]);
    let results = vec![
        result(0, "glob", vec![media("image/png"), media("audio/wav")]),
        result(2, "glob", vec![]),
    ];
    let results = results.into_iter().enumerate();
    let results =
        results.map(|(n, result)| ToolResult { call: format!("session-{n}"), ..result }).collect();
    let messages = [user("hi"), native(TEST_MODEL, said), Arc::new(Message::Results(results))];
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "eA=="}});
    let sound = json!({"inlineData": {"mimeType": "audio/wav", "data": "eA=="}});
    let new = wire(&messages, *LISTENING_TARGET);
    assert_eq!(new[2]["parts"][0]["functionResponse"]["parts"], json!([image]));
    assert_eq!(json!(parts(&new[2])[2..]), json!([sound]));
    let old = wire(&messages, GeminiTarget { media_in_responses: false, ..*LISTENING_TARGET });
    assert_eq!(old[2]["parts"][0]["functionResponse"].get("parts"), None);
    assert_eq!(parts(&old[2])[2..], [image, sound]);
}

#[test]
fn names_are_made_valid() {
    for good in ["glob", "_x", "a.b:c-d", &"a".repeat(64)] {
        assert_eq!(valid_name(good), good);
    }
    for (bad, good) in [("", "_"), ("-a", "_-a"), ("a b", "a_b"), ("é", "__")] {
        assert_eq!(valid_name(bad), good);
    }
    assert_eq!(valid_name(&"a".repeat(65)).len(), 64);
}
