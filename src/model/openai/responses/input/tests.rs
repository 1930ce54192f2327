//! Property tests: the request for any conversation obeys the API's rules.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::arbitrary::{self, MODEL};
use crate::openai::responses::request::ResponsesRequest;
use crate::{Call, Prompt};

static NONE: LazyLock<RefusedReasoning> = LazyLock::new(RefusedReasoning::new);
static QUIRKS: LazyLock<ServerQuirks<ResponsesQuirk>> = LazyLock::new(ServerQuirks::default);
static IMAGES: LazyLock<RefusedImages> = LazyLock::new(RefusedImages::default);

/// Returns a strategy for any conversation, in which native parts are those that this API would have sent.
fn conversation() -> impl Strategy<Value = Vec<Arc<Message>>> {
    arbitrary::conversation().prop_map(|messages| messages.into_iter().map(translated).collect())
}

fn translated(mut message: Arc<Message>) -> Arc<Message> {
    if let Message::Assistant(Assistant { native: Some(native), calls, .. }) =
        Arc::make_mut(&mut message)
        && native.backend == "gemini"
    {
        native.backend = BACKEND.to_owned();
        let mut calls = calls.iter();
        let parts = native.parts.iter().enumerate();
        native.parts = parts.map(|(n, part)| item_of(part, n, &mut calls)).collect();
    }
    message
}

/// Returns the item of this API that is most like a part of the Gemini API.
fn item_of<'a>(part: &Value, n: usize, calls: &mut impl Iterator<Item = &'a Call>) -> Value {
    if let Some(call) = part.get("functionCall") {
        let name = calls.next().map(|call| names::accepted(&call.name));
        return json!({ "type": "function_call", "id": format!("fc_{n}"), "call_id": call["id"],
            "name": name, "arguments": call["args"].to_string() });
    }
    match (part.get("text"), part.get("thoughtSignature")) {
        (Some(_), Some(signature)) => json!({ "type": "reasoning", "id": format!("rs_{n}"),
            "summary": [], "encrypted_content": signature }),
        (Some(text), None) => json!({ "type": "message", "id": format!("msg_{n}"),
            "role": "assistant", "phase": "commentary",
            "content": [{ "type": "output_text", "text": text }] }),
        (None, _) => part.clone(),
    }
}

fn sent(messages: &[Arc<Message>], model: &str, refused: &RefusedReasoning) -> Vec<Value> {
    let prompt = Prompt { messages: messages.to_vec(), ..Prompt::default() };
    let request = ResponsesRequest {
        prompt: &prompt,
        target: ResponsesTarget { model, quirks: &QUIRKS, refused, refused_images: &IMAGES },
        effort: None,
        more: &Map::new(),
        max_output_tokens: None,
        nudge: None,
    };
    let body: Value = serde_json::from_slice(&request.body().unwrap()).unwrap();
    body["input"].as_array().unwrap().clone()
}

fn is_of_model(item: &Value) -> bool {
    item["type"] != "function_call_output" && item["role"] != "user"
}

/// Panics unless the API takes the input.
fn obeys(input: &[Value]) {
    let mut open: Vec<&Value> = Vec::new();
    let mut seen = HashSet::new();
    for (n, item) in input.iter().enumerate() {
        match item["type"].as_str() {
            Some("function_call") => {
                let id = item["call_id"].as_str().unwrap();
                let valid = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
                assert!(!id.is_empty() && id.len() <= 64 && id.chars().all(valid), "{id}");
                assert!(seen.insert(id), "{id} came twice");
                assert!(item["arguments"].as_str().unwrap().starts_with('{'), "{item}");
                open.push(&item["call_id"]);
            }
            Some("function_call_output") => {
                assert_eq!(open.remove(0), &item["call_id"], "outputs are in the order of calls");
            }
            Some("reasoning") => {
                assert!(input.get(n + 1).is_some_and(is_of_model), "reasoning before nothing");
            }
            Some("message") => {
                let content = &item["content"];
                let is_empty = |parts: &Vec<Value>| parts.is_empty();
                let has_none = content.as_array().map_or(content == "", is_empty);
                assert!(!has_none, "an empty message");
                assert!(item["role"] != "user" || open.is_empty(), "calls without outputs");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "calls without outputs at the end");
    assert!(!is_of_model(input.last().unwrap()), "the model has the last word");
}

fn natives(messages: &[Arc<Message>]) -> Vec<Value> {
    let natives = messages.iter().filter_map(|message| match &**message {
        Message::Assistant(answer) => answer.native.as_ref(),
        _ => None,
    });
    let own = natives.filter(|native| native.backend == BACKEND && native.model == MODEL);
    own.flat_map(|native| native.parts.clone()).collect()
}

proptest! {
    #[test]
    fn the_rules_of_the_api_are_kept(messages in conversation()) {
        obeys(&sent(&messages, MODEL, &NONE));
        obeys(&sent(&messages, "another", &NONE));
        obeys(&sent(&messages, MODEL, &reasoning(&messages).collect()));
    }

    #[test]
    fn reasoning_goes_back_as_it_came_and_in_order(messages in conversation()) {
        let own = natives(&messages);
        let mut rest = own.iter().filter(|item| item["type"] == "reasoning");
        for item in sent(&messages, MODEL, &NONE).iter().filter(|item| item["type"] == "reasoning") {
            prop_assert!(rest.any(|known| known == item), "{item} is not as it came");
        }
    }

    #[test]
    fn another_model_or_a_server_that_refused_gets_no_reasoning_and_no_ids(
        messages in conversation()
    ) {
        let refused: RefusedReasoning = reasoning(&messages).collect();
        for input in [sent(&messages, "another", &NONE), sent(&messages, MODEL, &refused)] {
            prop_assert!(input.iter().all(|item| item["type"] != "reasoning"));
        }
        let other = sent(&messages, "another", &NONE);
        prop_assert!(other.iter().all(|item| item.get("id").is_none()));
    }
}
