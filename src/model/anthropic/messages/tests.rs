//! Property tests: the request for any conversation obeys the API's rules.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::anthropic::request::MessagesRequest;
use crate::anthropic::thinking;
use crate::arbitrary::{self, TEST_MODEL};
use crate::{Call, Prompt};

static NONE_REFUSED: LazyLock<RefusedSignatures> = LazyLock::new(RefusedSignatures::new);

/// Returns a strategy for any conversation, in which native parts are those that this API would have sent.
fn conversation() -> impl Strategy<Value = Vec<Arc<Message>>> {
    arbitrary::conversation().prop_map(|messages| messages.into_iter().map(translated).collect())
}

fn translated(mut message: Arc<Message>) -> Arc<Message> {
    if let Message::Assistant(Assistant { native: Some(native), calls, .. }) =
        Arc::make_mut(&mut message)
        && native.backend == "gemini"
    {
        native.backend = BACKEND_NAME.to_owned();
        let mut calls = calls.iter();
        native.parts = native.parts.iter().map(|part| part_of(part, &mut calls)).collect();
    }
    message
}

/// Returns the block of this API that is most like a part of the Gemini API.
fn part_of<'a>(part: &Value, calls: &mut impl Iterator<Item = &'a Call>) -> Value {
    if let Some(call) = part.get("functionCall") {
        let name = calls.next().map(|call| names::accepted(&call.name));
        let (id, args) = (&call["id"], &call["args"]);
        return json!({ "type": "tool_use", "id": id, "name": name, "input": args });
    }
    match (part.get("text"), part.get("thoughtSignature")) {
        (Some(text), Some(signature)) => {
            json!({ "type": "thinking", "thinking": text, "signature": signature })
        }
        (Some(text), None) => json!({ "type": "text", "text": text }),
        (None, _) => part.clone(),
    }
}

fn wire(messages: &[Arc<Message>]) -> Vec<Value> {
    let prompt = Prompt { messages: messages.to_vec(), ..Prompt::default() };
    let request = MessagesRequest {
        prompt: &prompt,
        target: AnthropicTarget { model: TEST_MODEL, refused: &NONE_REFUSED },
        thinking: &thinking::ThinkingConfig::default(),
        max_tokens: 1,
        answer_schema: None,
        nudge: None,
        so_far: &[],
        is_vertex: false,
    };
    let body: Value = serde_json::from_slice(&request.body().unwrap()).unwrap();
    body["messages"].as_array().unwrap().clone()
}

fn blocks(turn: &Value) -> &[Value] {
    turn["content"].as_array().unwrap()
}

/// Returns the values of one field in a turn's blocks of one kind.
fn all<'a>(turn: &'a Value, kind: &str, field: &str) -> Vec<&'a Value> {
    let blocks = blocks(turn).iter().filter(|block| block["type"] == kind);
    blocks.map(|block| &block[field]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_of_the_api_are_kept(messages in conversation()) {
        let turns = wire(&messages);
        prop_assert_eq!(turns.len() % 2, 1, "the user has the last word");
        let mut ids = HashSet::new();
        for (at, turn) in turns.iter().enumerate() {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            prop_assert_eq!(&turn["role"], role);
            prop_assert!(!blocks(turn).is_empty());
            let mut texts = all(turn, "text", "text").into_iter().filter_map(Value::as_str);
            prop_assert!(texts.all(|text| !text.trim().is_empty()), "{}", turn);
            let called = all(turn, "tool_use", "id");
            for id in &called {
                prop_assert!(ids.insert(id.as_str().unwrap().to_owned()), "{} again", id);
            }
            let inputs = all(turn, "tool_use", "input");
            prop_assert!(inputs.iter().all(|input| input.is_object()));
            if role == "assistant" {
                prop_assert_eq!(called, all(&turns[at + 1], "tool_result", "tool_use_id"));
                prop_assert!(all(turn, "tool_result", "type").is_empty());
            } else {
                prop_assert!(called.is_empty());
                let is_result = |block: &Value| block["type"] == "tool_result";
                let after = blocks(turn).iter().skip_while(|block| is_result(block));
                prop_assert!(!after.clone().any(is_result), "results come first: {}", turn);
            }
        }
    }

    #[test]
    fn the_models_own_thinking_goes_back_unchanged_and_no_other(messages in conversation()) {
        let answers = messages.iter().filter_map(|message| match &**message {
            Message::Assistant(answer) => answer.native.as_ref().filter(|it| holds(it, answer)),
            _ => None,
        });
        let ours = answers.filter(|native| native.model == TEST_MODEL).flat_map(|native| &native.parts);
        let ours: Vec<_> = ours.filter(|part| part["type"] == "thinking").cloned().collect();
        let turns = wire(&messages);
        let sent = turns.iter().flat_map(blocks).filter(|block| block["type"] == "thinking");
        prop_assert_eq!(sent.cloned().collect::<Vec<_>>(), ours);
    }

    #[test]
    fn what_was_sent_is_the_same_in_the_next_request(messages in conversation()) {
        let turns = |messages: &[Arc<Message>]| {
            let mut turns = wire(messages);
            let blocks = turns.iter_mut().flat_map(|turn| turn["content"].as_array_mut().unwrap());
            for block in blocks {
                block.as_object_mut().unwrap().shift_remove("cache_control");
            }
            turns
        };
        let says = |text: &str| Arc::new(Message::User(vec![crate::Part::Text(text.to_owned())]));
        let mut more = messages;
        more.push(says("first"));
        let before = turns(&more);
        more.push(Arc::new(Message::Assistant(Assistant { text: "a".into(), ..Default::default() })));
        more.push(says("second"));
        prop_assert_eq!(&turns(&more)[..before.len()], &before[..]);
    }
}
