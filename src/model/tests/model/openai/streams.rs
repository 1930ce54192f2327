//! Streams of answers: their ends and their cuts.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[tokio::test]
async fn an_answer_is_streamed_and_its_tokens_are_counted() {
    let usage = json!({ "choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
        "prompt_tokens_details": { "cached_tokens": 64 },
        "completion_tokens_details": { "reasoning_tokens": 10 },
    } });
    let body = [
        ": OPENROUTER PROCESSING\n\n",
        &event(
            &json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }], "usage": null }),
        ),
        &delta(json!({ "content": "Hel" })),
        &delta(json!({ "content": "lo" })),
        &end("stop"),
        &event(&usage),
        DONE,
    ];
    let (lines, server) = play(vec![Reply::stream(body.concat())]).await;
    assert_lines(&lines, &["text: Hello", "finish: Stop 100/64/20/10"]);
    let asked = &server.asked()[0];
    assert_eq!(asked.what, "POST /v1/chat/completions");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    let expected = json!({
        "model": MODEL, "stream": true, "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "hi" },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "glob", "description": "Finds files.",
            "parameters": { "type": "object", "properties": {} },
        } }],
        "parallel_tool_calls": true,
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let server = start(vec![text("ok")]).await;
    let endpoint = Endpoint { key: None, ..endpoint(format!("{}/v1", server.address())) };
    ask(&model_at(endpoint, options()), prompt(vec![user("hi")])).await;
    assert!(!server.asked()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn an_answer_may_end_without_done_without_a_reason_or_with_a_foreign_one() {
    let said = delta(json!({ "content": "All" }));
    for body in [
        [said.clone(), end("stop")].concat(),
        said.clone() + DONE,
        [&said, &*end("eos"), DONE].concat(),
        event(&json!({ "choices": [{ "delta": { "content": "All" }, "finish_reason": "stop" }] })),
    ] {
        let (lines, _) = play(vec![Reply::stream(body)]).await;
        assert_lines(&lines, &["text: All", STOP]);
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood_too() {
    let answer = json!({ "choices": [{
        "message": { "role": "assistant", "content": "All", "tool_calls": null },
        "finish_reason": "stop",
    }], "usage": { "prompt_tokens": 5, "completion_tokens": 1 } });
    let reply = Reply::error(200, answer.to_string());
    let (lines, _) = play(vec![reply]).await;
    assert_lines(&lines, &["text: All", "finish: Stop 5/0/1/0"]);
}

#[tokio::test]
async fn an_answer_that_ends_in_the_middle_is_asked_for_again() {
    let said = || delta(json!({ "content": "Hal" }));
    let body = said();
    for (reply, reason) in [
        (Reply::stream(said()), "answer cut off, 2/4"),
        (Reply::stream(said()).then_cut(), "the connection was lost, 2/4"),
        (Reply::stream(body[..body.len() - 3].to_owned()), "the connection was lost, 2/10"),
        (Reply::stream(format!("{body}data: {{\"choi")), "the connection was lost, 2/4"),
        (Reply::stream(format!("{body}data: oops\n\n")), "unreadable answer, 2/4"),
    ] {
        let (lines, _) = play(vec![reply, text("Half")]).await;
        let lines: Vec<_> = lines.into_iter().filter(|line| line != "text: Hal").collect();
        let discard = format!("retry: {reason}, discard");
        assert!(lines[0] == discard || lines[0] == format!("retry: {reason}"), "{lines:?}");
        assert_lines(&lines[1..], &["text: Half", STOP]);
    }
}

#[tokio::test]
async fn a_silent_server_is_a_lost_connection() {
    let half = Reply::stream(delta(json!({ "content": "Hal" }))).then_hang();
    let options = RequestOptions { idle: Duration::from_millis(300), ..options() };
    let (lines, _, _) = play_to(vec![half, text("Half")], prompt(vec![user("hi")]), options).await;
    let again = "retry: server silent, 2/4, discard";
    assert_lines(&lines, &["text: Hal", again, "text: Half", STOP]);
}

#[tokio::test]
async fn an_answer_that_has_ended_is_whole_whatever_becomes_of_the_connection() {
    let whole = [delta(json!({ "content": "All" })), end("stop")].concat();
    for reply in [
        Reply::stream(whole.clone()).then_cut(),
        Reply::stream(whole.clone()).then_hang(),
        Reply::stream(format!("{whole}data: {{")),
        Reply::stream(format!("{whole}{DONE}")).then_hang(),
    ] {
        let options = RequestOptions { linger: Duration::from_millis(20), ..options() };
        let (lines, _, _) = play_to(vec![reply], prompt(vec![user("hi")]), options).await;
        assert_lines(&lines, &["text: All", STOP]);
    }
}

#[tokio::test]
async fn after_done_nothing_is_waited_for() {
    let whole = [&delta(json!({ "content": "All" })), &end("stop"), DONE].concat();
    let options = RequestOptions { linger: Duration::from_hours(1), ..options() };
    let reply = Reply::stream(whole).then_hang();
    let (lines, _, _) = play_to(vec![reply], prompt(vec![user("hi")]), options).await;
    assert_lines(&lines, &["text: All", STOP]);
}

#[tokio::test]
async fn worthless_answers_are_asked_for_again_with_a_nudge() {
    for (reply, reason, says) in [
        (stream(Vec::new(), "stop"), "empty answer, 2/4", "was empty"),
        (
            stream(vec![json!({ "reasoning": "hm" })], "stop"),
            "reasoning without an answer, 2/4, discard",
            "generated thoughts but",
        ),
    ] {
        let (lines, server) = play(vec![reply, text("ok")]).await;
        assert_eq!(lines[lines.len() - 3], format!("retry: {reason}"), "{lines:?}");
        let last = messages(&server, 1).pop().unwrap();
        assert_eq!(last["role"], "user");
        let said = last["content"].as_str().unwrap();
        assert!(said.starts_with("hi\n\n[System: ") && said.contains(says), "{said}");
    }
}

#[tokio::test]
async fn an_answer_at_the_output_limit_is_cut() {
    let (lines, _) = play(vec![stream(vec![json!({ "content": "Hal" })], "length")]).await;
    assert_lines(&lines, &["text: Hal", "finish: MaxTokens 0/0/0/0"]);
    let (lines, _) = play(vec![stream(vec![json!({ "reasoning": "hm" })], "length")]).await;
    assert!(
        lines[1].starts_with("error: BadAnswer(\"The model reached its output limit"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn what_the_provider_will_not_say_is_refused() {
    let (lines, _) = play(vec![stream(vec![json!({ "content": "We" })], "content_filter")]).await;
    assert!(lines[1].starts_with("refused: The answer was stopped by the provider's filter"));
    let (lines, _) = play(vec![stream(vec![json!({ "refusal": "I cannot." })], "stop")]).await;
    assert_lines(&lines, &["text: I cannot.", STOP]);
}

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_line_without_an_end_and_an_answer_without_an_end_are_given_up() {
    let mut line = vec![b'x'; MIB];
    line[..6].copy_from_slice(b"data: ");
    let field = |field: &str| delta(json!({ field: "x".repeat(MIB) }));
    let calls = json!([{ "index": 0, "id": "c", "function": { "arguments": "x".repeat(MIB) } }]);
    let many: Vec<_> = (0..4000).map(|n| json!({ "id": n.to_string(), "function": {} })).collect();
    for (body, what) in [
        (line, "An event of the answer"),
        (field("content").into(), "The model's answer"),
        (field("reasoning").into(), "The model's answer"),
        (delta(json!({ "tool_calls": calls })).into(), "The model's answer"),
        (delta(json!({ "tool_calls": many })).into(), "The model's answer"),
    ] {
        let (lines, server) = play(vec![Reply::stream(body).times(100)]).await;
        let error = format!("error: BadAnswer(\"{what} is bigger than 32 MiB, ");
        assert!(lines.last().is_some_and(|last| last.starts_with(&error)), "{error}");
        assert_eq!(server.asked().len(), 1, "it is not tried again");
    }
}

/// Returns an answer with all kinds of deltas.
fn rich() -> String {
    let call = |index: u64, id: &str, arguments: &str| {
        json!({ "tool_calls": [{ "index": index, "id": id,
        "function": { "name": "glob", "arguments": arguments } }] })
    };
    [
        ": hello\n\n".to_owned(),
        delta(json!({ "reasoning_content": "I look: " })),
        delta(json!({ "reasoning_content": "日本 🦀" })),
        delta(json!({ "content": "Hé" })),
        delta(json!({ "content": "llo" })),
        delta(call(0, "c1", "{\"pattern\":")),
        delta(call(1, "c2", "{}")),
        delta(call(0, "c1", "\"日本\"}")),
        end("tool_calls"),
        event(&json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 3 } })),
        DONE.to_owned(),
    ]
    .concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_a_stream_is_cut_the_same_comes_out(
        places in prop::collection::vec(0..rich().len(), 0..40),
        ends in 0..3usize,
    ) {
        let body = rich().replace('\n', ["\n", "\r\n", "\r"][ends]);
        let reply = Reply::stream(body).cut_at(places);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (lines, _) = runtime.block_on(play(vec![reply]));
        prop_assert_eq!(lines, [
            "thought: I look: 日本 🦀",
            "text: Héllo",
            "call: glob({\"pattern\":\"日本\"}) c1",
            "call: glob({}) c2",
            "finish: Stop 7/0/3/0",
        ]);
    }
}
