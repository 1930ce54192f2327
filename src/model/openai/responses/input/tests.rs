//! Property tests: the request for any conversation obeys the API's rules.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::arbitrary::{self, TEST_MODEL};
use crate::openai::responses::request::ResponsesRequest;
use crate::{Call, Prompt, TextForm, ToolDeclaration};

static NONE_REFUSED: LazyLock<RefusedReasoning> = LazyLock::new(RefusedReasoning::new);
static NO_QUIRKS: LazyLock<ServerQuirks<ResponsesQuirk>> = LazyLock::new(ServerQuirks::default);
static NO_IMAGES: LazyLock<RefusedImages> = LazyLock::new(RefusedImages::default);

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
        let parts = native.parts.iter().enumerate();
        native.parts = parts.map(|(n, part)| item_of(part, n, &mut calls)).collect();
    }
    message
}

/// Returns the item of this API that is most like a part of the Gemini API.
fn item_of<'a>(part: &Value, n: usize, calls: &mut impl Iterator<Item = &'a Call>) -> Value {
    if let Some(call) = part.get("functionCall") {
        let name = calls.next().map(|call| names::accepted(&call.name));
        if n % 2 == 1 {
            return json!({ "type": "custom_tool_call", "id": format!("ctc_{n}"),
                "call_id": call["id"], "name": name, "input": call["args"].to_string() });
        }
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
    let body = body(&prompt, ResponsesTarget { model, refused, ..*TEST_TARGET });
    body["input"].as_array().unwrap().clone()
}

/// Target that accepts everything that the API accepts.
static TEST_TARGET: LazyLock<ResponsesTarget<'static>> = LazyLock::new(|| ResponsesTarget {
    model: TEST_MODEL,
    quirks: &NO_QUIRKS,
    refused: &NONE_REFUSED,
    refused_images: &NO_IMAGES,
});

fn body(prompt: &Prompt, target: ResponsesTarget<'_>) -> Value {
    let request = ResponsesRequest {
        prompt,
        target,
        effort: None,
        max_output_tokens: None,
        answer_schema: None,
        nudge: None,
    };
    serde_json::from_slice(&request.body().unwrap()).unwrap()
}

fn is_of_model(item: &Value) -> bool {
    let is_output = item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
    !is_output && item["role"] != "user"
}

/// Panics if the API would refuse the input.
fn obeys(input: &[Value]) {
    let mut open: Vec<&Value> = Vec::new();
    let mut seen = HashSet::new();
    for (n, item) in input.iter().enumerate() {
        match item["type"].as_str() {
            Some(kind @ ("function_call" | "custom_tool_call")) => {
                let id = item["call_id"].as_str().unwrap();
                let valid = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
                assert!(!id.is_empty() && id.len() <= 64 && id.chars().all(valid), "{id}");
                assert!(seen.insert(id), "{id} came twice");
                match kind {
                    "function_call" => {
                        assert!(item["arguments"].as_str().unwrap().starts_with('{'), "{item}");
                    }
                    _ => assert!(item["input"].is_string(), "{item}"),
                }
                open.push(item);
            }
            Some(kind @ ("function_call_output" | "custom_tool_call_output")) => {
                let call = open.remove(0);
                assert_eq!(call["call_id"], item["call_id"], "outputs are in the order of calls");
                assert_eq!(format!("{}_output", call["type"].as_str().unwrap()), kind);
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
    let own = natives.filter(|native| native.backend == BACKEND_NAME && native.model == TEST_MODEL);
    own.flat_map(|native| native.parts.clone()).collect()
}

/// Returns a conversation in which the model has called a custom tool. `is_native`: the call is in the form of this
/// API.
fn patched(is_native: bool) -> Vec<Arc<Message>> {
    let call = Call {
        id: "c1".to_owned(),
        name: "apply_patch".to_owned(),
        args: json!({ "input": "*** Begin Patch" }),
    };
    let item = json!({ "type": "custom_tool_call", "id": "ctc_1", "call_id": "c1",
        "name": "apply_patch", "input": "*** Begin Patch" });
    let (backend, model) = (BACKEND_NAME.to_owned(), TEST_MODEL.to_owned());
    let native = is_native.then(|| Native { backend, model, parts: vec![item] });
    let result = ToolResult {
        call: call.id.clone(),
        failed: false,
        name: call.name.clone(),
        text: "Done".to_owned(),
        media: Vec::new(),
    };
    let answer = Assistant { text: String::new(), calls: vec![call], native };
    let user = Message::User(vec![crate::Part::Text("go".to_owned())]);
    [user, Message::Assistant(answer), Message::Results(vec![result])].map(Arc::new).into()
}

fn tool() -> ToolDeclaration {
    let form = TextForm { argument: "input".to_owned(), grammar: "start: /x/".to_owned() };
    let tool = ToolDeclaration::new("apply_patch", "Patches.", json!({ "type": "object" }));
    ToolDeclaration { text_form: Some(form), ..tool }
}

#[test]
fn a_tool_whose_input_is_a_text_is_a_custom_tool_with_its_grammar() {
    let prompt = Prompt { messages: patched(true), tools: [tool()].into(), ..Prompt::default() };
    let body = body(&prompt, *TEST_TARGET);
    let format = json!({ "type": "grammar", "syntax": "lark", "definition": "start: /x/" });
    assert_eq!(
        body["tools"],
        json!([{ "type": "custom", "name": "apply_patch", "format": format,
            "description": "Patches. The input is the text itself, not JSON." }])
    );
    assert_eq!(
        body["input"].as_array().unwrap()[1..],
        [
            json!({ "type": "custom_tool_call", "id": "ctc_1", "call_id": "c1",
                "name": "apply_patch", "input": "*** Begin Patch" }),
            json!({ "type": "custom_tool_call_output", "call_id": "c1", "output": "Done" }),
        ]
    );
}

#[test]
fn a_server_without_custom_tools_has_functions() {
    let quirks = ServerQuirks::new("", [ResponsesQuirk::NoCustomTools].into());
    for is_native in [true, false] {
        let messages = patched(is_native);
        let prompt = Prompt { messages, tools: [tool()].into(), ..Prompt::default() };
        let body = body(&prompt, ResponsesTarget { quirks: &quirks, ..*TEST_TARGET });
        assert_eq!(
            body["tools"],
            json!([{ "type": "function", "name": "apply_patch", "description": "Patches.",
                "parameters": { "type": "object" }, "strict": false }])
        );
        assert_eq!(
            body["input"].as_array().unwrap()[1..],
            [
                json!({ "type": "function_call", "call_id": "c1", "name": "apply_patch",
                    "arguments": "{\"input\":\"*** Begin Patch\"}" }),
                json!({ "type": "function_call_output", "call_id": "c1", "output": "Done" }),
            ]
        );
    }
}

proptest! {
    #[test]
    fn the_rules_of_the_api_are_kept(messages in conversation()) {
        obeys(&sent(&messages, TEST_MODEL, &NONE_REFUSED));
        obeys(&sent(&messages, "another", &NONE_REFUSED));
        obeys(&sent(&messages, TEST_MODEL, &reasoning(&messages).collect()));
    }

    #[test]
    fn reasoning_goes_back_as_it_came_and_in_order(messages in conversation()) {
        let own = natives(&messages);
        let mut rest = own.iter().filter(|item| item["type"] == "reasoning");
        for item in sent(&messages, TEST_MODEL, &NONE_REFUSED).iter().filter(|item| item["type"] == "reasoning") {
            prop_assert!(rest.any(|known| known == item), "{item} is not as it came");
        }
    }

    #[test]
    fn another_model_or_a_server_that_refused_gets_no_reasoning_and_no_ids(
        messages in conversation()
    ) {
        let refused: RefusedReasoning = reasoning(&messages).collect();
        for input in [sent(&messages, "another", &NONE_REFUSED), sent(&messages, TEST_MODEL, &refused)] {
            prop_assert!(input.iter().all(|item| item["type"] != "reasoning"));
        }
        let other = sent(&messages, "another", &NONE_REFUSED);
        prop_assert!(other.iter().all(|item| item.get("id").is_none()));
    }
}
