//! Reasoning: shown as thoughts, and sent back in the field in which it came.

use super::*;

fn call() -> Value {
    json!({ "tool_calls": [{ "index": 0, "id": "c1",
        "function": { "name": "glob", "arguments": "{}" } }] })
}

/// Plays these deltas with a call, and sends the answer back. Returns the lines, and the message of the model in the
/// next request.
async fn echo(deltas: Vec<Value>, text_said: &str) -> (Vec<String>, Value) {
    let deltas = deltas.into_iter().chain([call()]).collect();
    let server = start(vec![stream(deltas, "tool_calls"), text("ok")]).await;
    let model = model(&server, options());
    let (lines, end) = ask(&model, prompt(vec![user("hi")])).await;
    let calls = [("c1", "glob", json!({}))];
    ask(&model, prompt(after(&end.unwrap(), text_said, &calls))).await;
    let said = messages(&server, 1);
    assert_eq!(said[3], json!({ "role": "tool", "content": "done", "tool_call_id": "c1" }));
    (lines, said[2].clone())
}

fn calls() -> Value {
    json!([{ "id": "c1", "type": "function", "function": { "name": "glob", "arguments": "{}" } }])
}

#[tokio::test]
async fn reasoning_goes_back_under_the_field_it_came_in() {
    for field in ["reasoning_content", "reasoning"] {
        let deltas =
            vec![json!({ field: "h" }), json!({ field: "m" }), json!({ "content": "So." })];
        let (lines, said) = echo(deltas, "So.").await;
        assert_lines(&lines, &["thought: hm", "text: So.", "call: glob({}) c1", STOP]);
        let expected =
            json!({ "role": "assistant", "content": "So.", "tool_calls": calls(), field: "hm" });
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn reasoning_in_two_fields_is_shown_once_and_goes_back_in_both() {
    let deltas = vec![json!({ "reasoning_content": "hm", "reasoning": "hm", "content": null })];
    let (lines, said) = echo(deltas, "").await;
    assert_lines(&lines, &["thought: hm", "call: glob({}) c1", STOP]);
    assert_eq!(
        said,
        json!({ "role": "assistant", "content": null, "tool_calls": calls(),
        "reasoning_content": "hm", "reasoning": "hm" })
    );
}

#[tokio::test]
async fn reasoning_details_go_back_unchanged_and_in_order() {
    let detail =
        |text: &str| json!([{ "type": "reasoning.text", "text": text, "index": 0, "format": "x" }]);
    let signed = json!([{ "type": "reasoning.text", "signature": "c2ln", "index": 0, "text": "" }]);
    let hidden = json!([{ "type": "reasoning.encrypted", "data": "QUJD", "index": 1 }]);
    let deltas = vec![
        json!({ "reasoning": "h", "reasoning_details": detail("h") }),
        json!({ "reasoning_details": detail("m") }),
        json!({ "reasoning_details": signed }),
        json!({ "reasoning_details": hidden }),
    ];
    let (lines, said) = echo(deltas, "").await;
    assert_eq!(lines[0], "thought: hm");
    assert_eq!(
        said["reasoning_details"],
        json!([
            { "type": "reasoning.text", "text": "hm", "index": 0, "format": "x", "signature": "c2ln" },
            { "type": "reasoning.encrypted", "data": "QUJD", "index": 1 },
        ])
    );
}

#[tokio::test]
async fn reasoning_may_be_a_part_of_the_content() {
    let thinking = |text: &str| json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": text }] }] });
    let deltas = vec![
        thinking("h"),
        thinking("m"),
        json!({ "content": [{ "type": "text", "text": "So." }] }),
    ];
    let (lines, said) = echo(deltas, "So.").await;
    assert_lines(&lines, &["thought: hm", "text: So.", "call: glob({}) c1", STOP]);
    assert_eq!(
        said["content"],
        json!([
            { "type": "thinking", "thinking": [{ "type": "text", "text": "h" }, { "type": "text", "text": "m" }] },
            { "type": "text", "text": "So." },
        ])
    );
}

#[tokio::test]
async fn reasoning_may_be_marked_in_the_text() {
    let deltas = vec![json!({ "content": "<thi" }), json!({ "content": "nk>hm</think>\n\nSo." })];
    let (lines, said) = echo(deltas, "So.").await;
    assert_lines(&lines, &["thought: hm", "text: So.", "call: glob({}) c1", STOP]);
    assert_eq!(said["content"], "<think>hm</think>\n\nSo.");
}

#[tokio::test]
async fn what_else_is_in_a_call_goes_back_with_it() {
    let extra = json!({ "google": { "thought_signature": "c2ln" } });
    let signed = json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
        "function": { "name": "glob", "arguments": "{}" }, "extra_content": extra }] });
    let server = start(vec![stream(vec![signed], "tool_calls"), text("ok")]).await;
    let model = model(&server, options());
    let (_, end) = ask(&model, prompt(vec![user("hi")])).await;
    ask(&model, prompt(after(&end.unwrap(), "", &[("c1", "glob", json!({}))]))).await;
    assert_eq!(messages(&server, 1)[2]["tool_calls"][0]["extra_content"], extra);
}

#[tokio::test]
async fn reasoning_of_another_model_or_without_calls_is_left_out() {
    let deltas = vec![json!({ "reasoning": "hm" }), json!({ "content": "So." })];
    let (_, end, _) =
        play_to(vec![stream(deltas, "stop")], prompt(vec![user("hi")]), options()).await;
    assert_eq!(end.unwrap().native, None);
    let deltas = vec![json!({ "reasoning": "hm" }), call()];
    let (_, end, _) =
        play_to(vec![stream(deltas, "tool_calls")], prompt(vec![user("hi")]), options()).await;
    let mut end = end.unwrap();
    for (backend, model) in [("openai", "other"), ("gemini", MODEL)] {
        let native = end.native.as_mut().unwrap();
        (native.backend, native.model) = (backend.to_owned(), model.to_owned());
        let told = prompt(after(&end, "", &[("c1", "glob", json!({}))]));
        let (_, _, server) = play_to(vec![text("ok")], told, options()).await;
        let expected = json!({ "role": "assistant", "content": null, "tool_calls": calls() });
        assert_eq!(messages(&server, 0)[2], expected);
    }
}
