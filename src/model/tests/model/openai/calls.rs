//! Tool calls, numbered, named and cut in the ways of many servers.

use super::*;

const A: &str = r#"call: glob({"pattern":"a"}) "#;

/// Checks that these deltas give these calls, wherever the stream is cut.
async fn check(deltas: Vec<Value>, reason: &str, expected: &[&str]) {
    let mut expected: Vec<_> = expected.iter().map(|call| format!("call: {call}")).collect();
    expected.push(STOP.to_owned());
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    let (lines, _) = play(vec![stream(deltas, reason)]).await;
    assert_lines(&lines, &expected);
}

fn whole(index: Value, id: Value, name: &str, arguments: Value) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    json!({ "index": index, "id": id, "type": "function", "function": function })
}

fn more(index: Value, arguments: &str) -> Value {
    json!({ "index": index, "function": { "arguments": arguments } })
}

#[tokio::test]
async fn a_call_comes_in_pieces() {
    let deltas = pieces(vec![
        whole(json!(0), json!("c1"), "glob", json!("")),
        more(json!(0), "{\"pat"),
        more(json!(0), "tern\":\"a\"}"),
        whole(json!(1), json!("c2"), "glob", json!("{}")),
    ]);
    check(deltas, "tool_calls", &[&format!("{}c1", &A[6..]), "glob({}) c2"]).await;
}

#[tokio::test]
async fn without_an_index_the_same_id_is_the_same_call() {
    let piece = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "glob", "arguments": arguments } });
    let deltas = pieces(vec![
        piece("c1", "{\"pattern\""),
        piece("c2", "{\"x\":"),
        piece("c1", ":\"a\"}"),
        piece("c2", "1}"),
    ]);
    check(deltas, "tool_calls", &[&format!("{}c1", &A[6..]), r#"glob({"x":1}) c2"#]).await;
}

#[tokio::test]
async fn without_an_index_and_an_id_a_piece_goes_on_until_the_arguments_are_whole() {
    let piece = |arguments: &str| json!({ "function": { "arguments": arguments } });
    let named = |name: &str, arguments: &str| json!({ "function": { "name": name, "arguments": arguments } });
    let deltas = pieces(vec![
        named("glob", "{\"pattern\":"),
        piece("\"a\""),
        piece("}"),
        named("glob", "{\"pattern\":\"a\"}"),
        named("read_file", "{}"),
    ]);
    let calls =
        [&format!("{}call_0", &A[6..]), &format!("{}call_1", &A[6..]), "read_file({}) call_2"];
    check(deltas, "tool_calls", &calls).await;
}

#[tokio::test]
async fn another_id_at_the_same_index_is_another_call() {
    let deltas = pieces(vec![
        whole(json!(0), json!("c1"), "glob", json!("{\"pattern\":\"a\"}")),
        whole(json!(0), json!("c2"), "glob", json!("{\"pattern\"")),
        more(json!(0), ":\"a\"}"),
        whole(json!(0), json!("c3"), "glob", json!("")),
    ]);
    let calls = [&format!("{}c1", &A[6..]), &format!("{}c2", &A[6..]), "glob({}) c3"];
    check(deltas, "stop", &calls).await;
}

#[tokio::test]
async fn an_id_that_is_missing_or_empty_is_made_and_later_pieces_need_none() {
    for id in [json!(""), Value::Null] {
        let deltas = pieces(vec![
            whole(json!(0), id.clone(), "glob", json!("{\"pattern\"")),
            more(json!(0), ":\"a\"}"),
            whole(json!(1), id, "glob", json!("{\"pattern\":\"a\"}")),
        ]);
        let calls = [&format!("{}call_0", &A[6..]), &format!("{}call_1", &A[6..])];
        check(deltas, "tool_calls", &calls.map(String::as_str)).await;
    }
}

#[tokio::test]
async fn an_index_may_begin_at_one_or_anywhere() {
    for index in [1, 7] {
        let deltas = pieces(vec![
            whole(json!(index), json!("c1"), "glob", json!("{\"pattern\"")),
            whole(json!(index + 5), json!("c2"), "glob", json!("{}")),
            more(json!(index), ":\"a\"}"),
        ]);
        check(deltas, "tool_calls", &[&format!("{}c1", &A[6..]), "glob({}) c2"]).await;
    }
}

#[tokio::test]
async fn a_whole_call_may_come_with_the_reason_for_the_end() {
    let calls = json!([whole(json!(0), json!("c1"), "glob", json!("{\"pattern\":\"a\"}"))]);
    let chunk = json!({ "choices": [{
        "delta": { "role": "assistant", "content": "", "tool_calls": calls },
        "finish_reason": "tool_calls",
    }] });
    let (lines, _) = play(vec![Reply::stream(event(&chunk) + DONE)]).await;
    assert_lines(&lines, &[&format!("{A}c1"), STOP]);
}

#[tokio::test]
async fn several_calls_may_come_in_one_delta() {
    let one = |id: Value| whole(Value::Null, id, "glob", json!("{\"pattern\":\"a\"}"));
    let deltas = vec![json!({ "tool_calls": [one(json!("c1")), one(json!("c2"))] })];
    check(deltas, "stop", &[&format!("{}c1", &A[6..]), &format!("{}c2", &A[6..])]).await;
    let deltas = vec![json!({ "tool_calls": [one(Value::Null), one(Value::Null)] })];
    check(deltas, "stop", &[&format!("{}call_0", &A[6..]), &format!("{}call_1", &A[6..])]).await;
}

#[tokio::test]
async fn arguments_may_be_an_object_or_empty_or_encoded_twice() {
    let twice = Value::String("{\"pattern\":\"a\"}".to_owned()).to_string();
    for (arguments, expected) in [
        (json!({ "pattern": "a" }), "{\"pattern\":\"a\"}"),
        (json!(twice), "{\"pattern\":\"a\"}"),
        (json!("{\"pattern\":\"a\"}"), "{\"pattern\":\"a\"}"),
        (json!("{\"pattern\":\"a\"}}"), "{\"pattern\":\"a\"}"),
        (json!(""), "{}"),
        (json!(" \n"), "{}"),
        (json!("null"), "{}"),
        (Value::Null, "{}"),
        (json!({}), "{}"),
    ] {
        let deltas = pieces(vec![whole(json!(0), json!("c1"), "glob", arguments)]);
        check(deltas, "tool_calls", &[&format!("glob({expected}) c1")]).await;
    }
}

#[tokio::test]
async fn arguments_may_begin_with_an_empty_object_or_come_again() {
    let deltas = pieces(vec![
        whole(json!(0), json!("c1"), "glob", json!("{}")),
        more(json!(0), "{\"pattern\":"),
        more(json!(0), "\"a\"}"),
        more(json!(0), ""),
        whole(json!(0), json!("c1"), "glob", json!("{\"pattern\":\"a\"}")),
    ]);
    check(deltas, "tool_calls", &[&format!("{}c1", &A[6..])]).await;
}

#[tokio::test]
async fn name_and_arguments_may_be_apart_and_the_name_repeated() {
    let named = |name: &str| json!({ "index": 0, "id": "c1", "function": { "name": name } });
    let deltas = pieces(vec![named("glob"), more(json!(0), "{\"pattern\":\"a\"}")]);
    check(deltas, "tool_calls", &[&format!("{}c1", &A[6..])]).await;
    let deltas = pieces(vec![json!({ "index": 0, "id": "c1" }), named("gl"), named("glob")]);
    check(deltas, "tool_calls", &["glob({}) c1"]).await;
    let repeated = |arguments: &str| json!({ "index": 0, "function": { "name": "glob", "arguments": arguments } });
    let deltas = pieces(vec![repeated("{\"pattern\""), repeated(":"), repeated("\"a\"}")]);
    check(deltas, "tool_calls", &[&format!("{}call_0", &A[6..])]).await;
}

#[tokio::test]
async fn that_there_are_calls_decides_and_not_the_reason() {
    let call = || pieces(vec![whole(json!(0), json!("c1"), "glob", json!("{\"pattern\":\"a\"}"))]);
    for reason in ["stop", "tool_calls", "function_call", "length", "eos", "content_filter"] {
        check(call(), reason, &[&format!("{}c1", &A[6..])]).await;
    }
    let body: String = call().into_iter().map(delta).collect();
    for body in [body.clone() + DONE, body] {
        let (lines, _) = play(vec![Reply::stream(body)]).await;
        assert_lines(&lines, &[&format!("{A}c1"), STOP]);
    }
}

#[tokio::test]
async fn a_call_that_is_cut_is_asked_for_again() {
    let half = || pieces(vec![whole(json!(0), json!("c1"), "glob", json!("{\"pattern\":\"a"))]);
    let cut: String = half().into_iter().map(delta).collect();
    let unbegun = delta(json!({ "tool_calls": [whole(json!(0), json!("c1"), "glob", json!(""))] }));
    for (reply, reason) in [
        (stream(half(), "length"), "tool call cut at the output limit"),
        (stream(half(), "tool_calls"), "malformed tool call"),
        (Reply::stream(cut), "answer cut off"),
        (Reply::stream(unbegun), "answer cut off"),
        (stream(Vec::new(), "tool_calls"), "malformed tool call"),
    ] {
        let (lines, server) = play(vec![reply, text("ok")]).await;
        assert_lines(&lines, &[&format!("retry: {reason}, 2/4"), "text: ok", STOP]);
        let nudge = messages(&server, 1)[1]["content"].to_string();
        assert_eq!(nudge.contains("[System: Your previous answer"), reason != "answer cut off");
    }
}

#[tokio::test]
async fn a_whole_call_at_the_end_of_a_text_is_made_and_the_text_stays() {
    let said = "I look.\n<tool_call>\n{\"name\": \"glob\", \"arguments\": {}}\n</tool_call>";
    let (lines, server) = play(vec![text(said)]).await;
    assert_eq!(server.asked().len(), 1);
    assert_lines(&lines, &[&format!("text: {said}"), "call: glob({}) call_0", STOP]);
}

#[tokio::test]
async fn a_text_that_mentions_a_call_is_an_answer() {
    for said in [
        "Models write `<tool_call>` before glob.",
        "```\n<tool_call>{\"name\": \"glob\", \"arguments\": {}}</tool_call>\n```",
        "<tool_call>{\"name\": \"glob\"}",
    ] {
        let (lines, server) = play(vec![text(said)]).await;
        assert_eq!(server.asked().len(), 1);
        assert_eq!(lines.last().map(String::as_str), Some(STOP), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("call")), "{lines:?}");
    }
}

#[tokio::test]
async fn one_cut_call_of_sixteen_costs_one_call() {
    let calls = (0..16).map(|n| {
        let arguments = if n == 15 { "{\"pattern\":\"a" } else { "{\"pattern\":\"a\"}" };
        whole(json!(n), json!(format!("c{n}")), "glob", json!(arguments))
    });
    let (lines, server) = play(vec![stream(pieces(calls.collect()), "length")]).await;
    assert_eq!(server.asked().len(), 1);
    let made = lines.iter().filter(|line| line.starts_with("call: glob")).count();
    assert_eq!(made, 15, "{lines:?}");
}

#[tokio::test]
async fn a_tool_has_a_name_that_the_api_accepts_and_is_called_by_its_own() {
    let own = "mcp.server:ä tool";
    let mut asked = prompt(vec![user("hi")]);
    asked.tools = [tool(own, json!({ "type": "object" }))].into();
    let server = start(vec![text("ok")]).await;
    ask(&model(&server, options()), asked.clone()).await;
    let sent = server.asked()[0].body["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
    assert!(sent.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')), "{sent}");
    let call = pieces(vec![whole(json!(0), json!("c1"), &sent, json!("{}"))]);
    let (lines, _, _) = play_to(vec![stream(call, "tool_calls")], asked, options()).await;
    assert_lines(&lines, &[&format!("call: {own}({{}}) c1"), STOP]);
}
