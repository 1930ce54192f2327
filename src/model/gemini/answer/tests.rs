//! Tests of any stream: its parts are preserved as received, and its chunks are the same.

use super::*;
use crate::answer_size::too_big;

/// Returns the answer that these parts make, one part an event, and the chunks that the answer has emitted.
fn take(parts: &[Value]) -> (GeminiAnswer, Vec<Chunk>) {
    let mut answer = GeminiAnswer::new(100_000);
    let mut out = Vec::new();
    for part in parts {
        answer.add_event(event(part).as_bytes(), &mut out).unwrap();
    }
    (answer, out)
}

fn event(part: &Value) -> String {
    json!({"candidates": [{"content": {"parts": [part]}}]}).to_string()
}

/// Checks the parts that are preserved.
#[track_caller]
fn check(parts: &[Value], expected: &[Value]) {
    let (answer, _) = take(parts);
    let native = answer.into_native("m").map(|native| native.parts).unwrap_or_default();
    assert_eq!(native, expected);
}

#[test]
fn text_alone_needs_no_native_parts() {
    check(&[json!({"text": "a"}), json!({"text": "b"})], &[]);
    check(&[json!({"text": "a", "thought": false}), json!({"text": ""})], &[]);
    check(&[json!({"text": "hm", "thought": true}), json!({"text": "a"})], &[]);
    check(&[json!({"text": "hm", "thought": true, "more": 1})], &[]);
}

#[test]
fn plain_text_is_joined_and_signed_text_is_not() {
    check(
        &[
            json!({"text": "a"}),
            json!({"text": "b"}),
            json!({"text": "c", "thoughtSignature": "S"}),
            json!({"text": "d"}),
            json!({"text": "e"}),
            json!({"text": "", "thoughtSignature": "T"}),
        ],
        &[
            json!({"text": "ab"}),
            json!({"text": "c", "thoughtSignature": "S"}),
            json!({"text": "de"}),
            json!({"text": "", "thoughtSignature": "T"}),
        ],
    );
}

#[test]
fn what_is_not_known_is_kept() {
    let parts = [
        json!({"somethingNew": {"z": 1, "a": [0.1, 1e300, 12_345_678_901_234_567_u64]}}),
        json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        json!({"text": "a", "partMetadata": {"x": 1}}),
        json!({"functionCall": {"name": "glob", "args": {"b": 1, "a": 2}, "new": true}, "more": 1}),
    ];
    check(&parts, &parts);
}

#[test]
fn thoughts_are_kept_for_their_signatures_alone() {
    let signed = json!({"text": "hm", "thought": true, "thoughtSignature": "S"});
    let parts = [json!({"text": "hm", "thought": true}), signed.clone()];
    check(&parts, &[signed]);
    let (answer, out) = take(&parts);
    assert!(answer.has_thoughts() && !answer.has_text());
    assert_eq!(out, [Chunk::Thought("hm".to_owned()), Chunk::Thought("hm".to_owned())]);
}

fn call(call: &Value) -> Call {
    let (_, mut out) = take(&[json!({ "functionCall": call })]);
    match out.remove(0) {
        Chunk::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_is_made_whole() {
    let made = call(&json!({"name": "glob"}));
    assert!(made.id.starts_with("glob_") && made.id.ends_with("_0"), "{}", made.id);
    assert_eq!(made.args, json!({}));
    assert_eq!(call(&json!({"name": "glob", "args": null})).args, json!({}));
    assert_eq!(call(&json!({"name": "glob", "args": [1]})).args, json!([1]));
    assert_eq!(call(&json!({"id": "7", "name": "glob"})).id, "7");
    for name in [json!(null), json!(""), json!(3)] {
        assert_eq!(call(&json!({ "name": name })).name, "unnamed_tool");
    }
    check(
        &[json!({"functionCall": {"args": {}}})],
        &[json!({"functionCall": {"args": {}, "name": "unnamed_tool"}})],
    );
}

#[test]
fn what_is_no_part_is_dropped() {
    for garbage in
        [json!(null), json!("text"), json!([1]), json!({"functionCall": "glob()"}), json!({})]
    {
        check(&[garbage], &[]);
    }
}

#[track_caller]
fn wrong(data: &str, expected: &str) {
    let wrong = GeminiAnswer::new(10_000).add_event(data.as_bytes(), &mut Vec::new()).unwrap_err();
    let wrong = match wrong {
        StreamError::Reported(json) => format!("reported {json}"),
        StreamError::Garbled(_) => "garbled".to_owned(),
        StreamError::Failed(failure) => format!("{:?}", failure.error),
    };
    assert!(wrong.starts_with(expected), "{wrong}");
}

#[test]
fn errors_within_the_stream_are_errors() {
    wrong(r#"{"error":{"code":503}}"#, r#"reported {"code":503}"#);
    wrong(r#"[{"error":{"code":429}}]"#, r#"reported {"code":429}"#);
    wrong("\n [ {\"error\": \"no\"}\n]", "reported \"no\"");
    wrong(
        r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
        "Refused(\"The prompt was blocked (SAFETY)",
    );
    for garbage in ["", "{", "oops", "3", r#"{"candidates":3}"#, "{\"a\":1}{", "\u{0}"] {
        wrong(garbage, "garbled");
    }
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(500), "]".repeat(500));
    wrong(&event(&json!(null)).replace("null", &deep), "garbled");
}

#[test]
fn sparse_events_are_no_errors() {
    let sparse = [
        "{}",
        "[]",
        "[DONE]",
        "null",
        r#"{"candidates":null}"#,
        r#"{"candidates":[]}"#,
        r#"{"candidates":[{}]}"#,
        r#"{"candidates":[{"content":{}}]}"#,
        r#"{"candidates":[{"content":{"parts":null,"role":"model"},"index":0}]}"#,
        r#"{"usageMetadata":{},"modelVersion":"x","responseId":"y"}"#,
    ];
    for data in sparse {
        let result = GeminiAnswer::new(100).add_event(data.as_bytes(), &mut Vec::new());
        if data == "null" {
            assert!(matches!(result, Err(StreamError::Garbled(_))));
        } else {
            assert_eq!(result, Ok(()), "{data}");
        }
    }
}

#[test]
fn an_answer_has_a_limit() {
    let mut answer = GeminiAnswer::new(1000);
    let event = event(&json!({"text": "x".repeat(100)}));
    let mut out = Vec::new();
    let error = loop {
        if let Err(error) = answer.add_event(event.as_bytes(), &mut out) {
            break error;
        }
    };
    assert_eq!(error, RequestFailure::terminal(too_big(1000)).into());
    assert_eq!(out.len(), 9);
}

#[test]
fn small_values_count_for_what_they_take_up() {
    let mut answer = GeminiAnswer::new(1 << 20);
    let many = event(&json!({"new": vec![0; 20_000]}));
    assert!(matches!(
        answer.add_event(many.as_bytes(), &mut Vec::new()),
        Err(StreamError::Failed(_))
    ));
}

#[test]
fn the_last_count_of_a_request_counts_and_requests_are_summed() {
    let mut answer = GeminiAnswer::new(100);
    let mut usage = |json: Value| {
        answer.add_event(json!({ "usageMetadata": json }).to_string().as_bytes(), &mut Vec::new())
    };
    usage(json!({"promptTokenCount": 10, "candidatesTokenCount": 1})).unwrap();
    usage(json!({"candidatesTokenCount": 5, "thoughtsTokenCount": 3})).unwrap();
    usage(json!({"trafficType": "ON_DEMAND"})).unwrap();
    assert_eq!(answer.usage(), Usage { input: 10, cached: 0, written: 0, output: 5, thoughts: 3 });
    answer.go_on();
    let more = json!({"promptTokenCount": 12, "cachedContentTokenCount": 8,
        "candidatesTokenCount": 1});
    answer
        .add_event(json!({ "usageMetadata": more }).to_string().as_bytes(), &mut Vec::new())
        .unwrap();
    assert_eq!(answer.usage(), Usage { input: 22, cached: 8, written: 0, output: 6, thoughts: 3 });
}

#[test]
fn an_answer_goes_back_to_its_checkpoint() {
    let (mut answer, _) = take(&[json!({"text": "a"}), json!({"functionCall": {"name": "glob"}})]);
    let text = |answer: &mut GeminiAnswer, text: &str, token: Option<&str>| {
        let mut candidate = json!({"content": {"parts": [{ "text": text }]}});
        if let Some(token) = token {
            candidate["continuationToken"] = json!(token);
        }
        let data = json!({"candidates": [candidate]}).to_string();
        answer.add_event(data.as_bytes(), &mut Vec::new()).unwrap();
    };
    text(&mut answer, "b", Some("T1"));
    assert_eq!((answer.token(), answer.checkpoint()), (Some("T1"), Some(1)));
    assert_eq!(answer.rewind(), None, "nothing has come since");
    text(&mut answer, "c", None);
    let lost = event(&json!({"functionCall": {"name": "lost"}}));
    answer.add_event(lost.as_bytes(), &mut Vec::new()).unwrap();
    let again = answer.rewind().unwrap();
    let shown: Vec<_> = again
        .iter()
        .map(|chunk| match chunk {
            Chunk::Text(text) => text.as_str(),
            Chunk::Call(call) => call.name.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shown, ["a", "glob", "b"]);
    text(&mut answer, "d", None);
    let parts = answer.into_native("m").unwrap().parts;
    let call = json!({"functionCall": {"name": "glob"}});
    assert_eq!(parts, [json!({"text": "a"}), call, json!({"text": "bd"})]);
}

#[test]
fn without_a_checkpoint_it_goes_back_to_nothing() {
    let (mut answer, _) = take(&[json!({"text": "a"})]);
    assert_eq!(answer.rewind(), Some(Vec::new()));
    assert_eq!(answer.rewind(), None);
    assert!(!answer.has_text());
}

#[test]
fn an_empty_or_unspecified_reason_ends_nothing() {
    let mut answer = GeminiAnswer::new(10_000);
    for reason in ["", "FINISH_REASON_UNSPECIFIED"] {
        let data = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a"}}]}},"finishReason":"{reason}"}}]}}"#
        );
        answer.add_event(data.as_bytes(), &mut Vec::new()).unwrap();
        assert!(!answer.has_ended(), "{reason:?}");
    }
}
