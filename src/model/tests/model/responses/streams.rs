//! Streams: every kind of event, every cut, and answers that end early.

use std::time::Duration;

use super::*;
use crate::api;

/// A recorded answer with all kinds of events.
const RICH: &[&str] = &[
    "thought: **Looking around**\n\nWhere is it?\n\n**Choosing**\n\nTwo places.",
    "text: I look in both.",
    "call: glob({\"pattern\":\"*.rs\"}) call_1",
    "call: glob({\"pattern\":\"日本/**\"}) call_2",
    "finish: Stop 1200/1024/30/70",
];

#[tokio::test]
async fn a_recorded_stream_is_the_same_answer_however_it_is_cut() {
    let recorded = api::recorded("responses/rich.sse");
    let text = String::from_utf8(recorded).unwrap();
    let dones = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let dones = dones.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let dones = dones.filter(|event| event["type"] == "response.output_item.done");
    let native: Vec<_> = dones.map(|event| format!("native: {}", event["item"])).collect();
    let expected: Vec<_> = RICH.iter().copied().chain(native.iter().map(String::as_str)).collect();
    api::plays_however_cut("responses/rich.sse", |server| model(server, options()), &expected)
        .await;
}

#[tokio::test]
async fn text_reasoning_and_calls_come_with_what_they_cost() {
    let list = [
        reasoning("rs_1", "c2ln", "**Plan** I must look"),
        message("msg_1", "Looking.", "commentary"),
        call("fc_1", "c1", "{\"pattern\":\"a\"}"),
        call("fc_2", "c2", "{}"),
    ];
    let (lines, end, _) = play(vec![answer(&list)]).await;
    let expected = [
        "thought: **Plan** I must look",
        "text: Looking.",
        "call: glob({\"pattern\":\"a\"}) c1",
        "call: glob({}) c2",
        STOP,
    ];
    assert_lines(&lines, &expected);
    let finish = end.unwrap();
    assert_eq!(finish.usage.written, 2);
    let native = finish.native.unwrap();
    assert_eq!((native.backend.as_str(), native.model.as_str()), ("openai-responses", "gpt-6-sol"));
    assert_eq!(native.parts, list, "the items are kept as they came");
}

#[tokio::test]
async fn messages_summaries_and_items_are_paragraphs_of_their_own() {
    let two = json!([{ "type": "summary_text", "text": "One." },
        { "type": "summary_text", "text": "Two." }]);
    let mut first = reasoning("rs_1", "a", "");
    first["summary"] = two;
    let list = [
        first,
        message("msg_1", "I look.", "commentary"),
        reasoning("rs_2", "b", "Three."),
        message("msg_2", "All is well.", "final_answer"),
    ];
    let (lines, ..) = play(vec![answer(&list)]).await;
    let expected = [
        "thought: One.\n\nTwo.",
        "text: I look.",
        "thought: \n\nThree.",
        "text: \n\nAll is well.",
        STOP,
    ];
    assert_lines(&lines, &expected);
}

#[tokio::test]
async fn unknown_events_and_fields_and_items_are_skipped() {
    let odd = [
        json!({ "type": "response.queued", "sequence_number": 0 }),
        json!({ "type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 0 }),
        json!({ "type": "response.of_the_future", "delta": { "x": 1 }, "output_index": "?" }),
        json!({ "type": "keepalive" }),
        json!({ "object": "ping" }),
        json!({ "type": "response.output_text.delta", "delta": null }),
        json!({ "type": "response.output_item.added" }),
    ];
    let odd: String = odd.iter().map(event).collect();
    let searched = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed" });
    let list = [searched.clone(), message("msg_1", "ok", "final_answer")];
    let body = odd + &items(&list) + "data: [DONE]\n\n" + &end("completed", json!({}));
    let (lines, finish, _) = play(vec![Reply::stream(body)]).await;
    assert_lines(&lines, &["text: ok", STOP]);
    assert_eq!(finish.unwrap().native.unwrap().parts[0], searched);
}

#[tokio::test]
async fn a_refusal_is_what_the_model_says() {
    let mut message = message("msg_1", "", "final_answer");
    message["content"] = json!([{ "type": "refusal", "refusal": "I cannot help with that." }]);
    let (lines, ..) = play(vec![answer(&[message])]).await;
    assert_lines(&lines, &["text: I cannot help with that.", STOP]);
}

#[tokio::test]
async fn reasoning_of_open_models_is_text_and_shown_once() {
    let delta = |name: &str, text: &str| {
        event(&json!({ "type": format!("response.{name}.delta"), "item_id": "rs_1",
            "output_index": 0, "delta": text }))
    };
    let text = json!([{ "type": "reasoning_text", "text": "I must look" }]);
    let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "content": text });
    let begin = event(&json!({ "type": "response.output_item.added", "output_index": 0,
        "item": { "type": "reasoning", "id": "rs_1", "summary": [] } }));
    let done =
        event(&json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
    let said = item_events(1, &message("msg_1", "ok", "final_answer"));
    let body = [
        begin,
        delta("reasoning_text", "I must "),
        delta("reasoning_summary_text", "I must"),
        delta("reasoning_text", "look"),
        done,
        said,
        end("completed", json!({})),
    ];
    let (lines, ..) = play(vec![Reply::stream(body.concat())]).await;
    assert_lines(&lines, &["thought: I must look", "text: ok", STOP]);
}

#[tokio::test]
async fn a_server_may_send_only_the_ends_or_only_the_response() {
    let list = [
        reasoning("rs_1", "c2ln", "I must look"),
        message("msg_1", "Looking.", "commentary"),
        call("fc_1", "c1", "{\"pattern\":\"a\"}"),
        call("fc_2", "c2", "{}"),
    ];
    let ends: String = list
        .iter()
        .enumerate()
        .map(|(n, item)| {
            event(&json!({ "type": "response.output_item.done", "output_index": n, "item": item }))
        })
        .collect();
    let response = json!({ "object": "response", "status": "completed", "output": list,
        "error": null, "incomplete_details": null,
        "usage": { "input_tokens": 40, "input_tokens_details": { "cached_tokens": 8 },
            "output_tokens": 10, "output_tokens_details": { "reasoning_tokens": 4 } } });
    for reply in [
        Reply::stream(ends + &end("completed", json!({}))),
        Reply::stream(end("completed", json!({ "output": list }))),
        Reply::stream(response.to_string()).header("content-type", "application/json"),
    ] {
        let (lines, finish, _) = play(vec![reply]).await;
        let calls = ["call: glob({\"pattern\":\"a\"}) c1", "call: glob({}) c2"];
        let expected = ["thought: I must look", "text: Looking.", calls[0], calls[1], STOP];
        assert_lines(&lines, &expected);
        assert_eq!(finish.unwrap().native.unwrap().parts, list);
    }
}

#[tokio::test]
async fn gateways_may_number_all_items_alike_or_give_them_new_ids() {
    let list = [
        message("msg_1", "Looking.", "commentary"),
        call("fc_1", "c1", "{\"pattern\":\"a\"}"),
        call("fc_2", "c2", "{\"pattern\":\"b\"}"),
    ];
    let plain = items(&list);
    let alike = plain.replace("\"output_index\":1", "\"output_index\":0");
    let alike = alike.replace("\"output_index\":2", "\"output_index\":0");
    let new_ids = |line: (usize, &str)| {
        line.1.replace("\"item_id\":\"", &format!("\"item_id\":\"{}", line.0))
    };
    let renamed: Vec<_> = plain.split("\n\n").enumerate().map(new_ids).collect();
    let renamed = renamed.join("\n\n");
    for body in [alike, renamed] {
        let (lines, ..) = play(vec![Reply::stream(body + &end("completed", json!({})))]).await;
        let calls = ["call: glob({\"pattern\":\"a\"}) c1", "call: glob({\"pattern\":\"b\"}) c2"];
        assert_lines(&lines, &["text: Looking.", calls[0], calls[1], STOP]);
    }
}

fn incomplete(reason: &str) -> String {
    end("incomplete", json!({ "incomplete_details": { "reason": reason } }))
}

#[tokio::test]
async fn at_the_output_limit_text_and_whole_calls_count_and_a_cut_call_does_not() {
    let mut cut = call("fc_2", "c2", "{\"patt");
    cut["status"] = json!("incomplete");
    let list = [
        reasoning("rs_1", "a", "Hm."),
        message("msg_1", "Looking.", "commentary"),
        call("fc_1", "c1", "{}"),
        reasoning("rs_2", "b", "Hm."),
        cut,
    ];
    let (lines, finish, server) =
        play(vec![Reply::stream(items(&list) + &incomplete("max_output_tokens")), text("ok")])
            .await;
    let thought = "thought: \n\nHm.";
    let limit = "finish: MaxTokens 40/8/6/4";
    assert_lines(&lines, &["thought: Hm.", "text: Looking.", thought, "call: glob({}) c1", limit]);
    // The call was cut off and is left out. The reasoning before it is left out too, because the API refuses reasoning
    // without a following item.
    let messages = after(&lines, &finish.unwrap());
    let (lines, _) = ask(&model(&server, options()), prompt(messages)).await;
    assert_lines(&lines, &["text: ok", STOP]);
    assert_eq!(input(&server, 1)[1..4], list[..3]);
}

#[tokio::test]
async fn an_answer_that_is_only_a_cut_call_is_asked_for_in_smaller_parts() {
    let mut cut = call("fc_1", "c1", "{\"patt");
    cut["status"] = json!("incomplete");
    let body = items(&[cut]) + &incomplete("max_output_tokens");
    let (lines, _, server) = play(vec![Reply::stream(body), text("ok")]).await;
    assert_lines(&lines, &["retry: tool call cut at the output limit, 2/4", "text: ok", STOP]);
    let nudge = input(&server, 1)[0]["content"][1]["text"].as_str().unwrap().to_owned();
    assert!(nudge.contains("reached the output limit within a function call"), "{nudge}");
}

#[tokio::test]
async fn an_answer_that_ends_early_says_why() {
    let thinks = items(&[reasoning("rs_1", "a", "Hm.")]);
    let (lines, ..) = play(vec![Reply::stream(thinks + &incomplete("max_output_tokens"))]).await;
    let limit = "error: BadAnswer(\"The model reached its output limit, or the end of its context";
    assert!(lines[1].starts_with(limit), "{lines:?}");
    let said = items(&[message("msg_1", "We", "final_answer"), call("fc_1", "c1", "{}")]);
    let (lines, ..) = play(vec![Reply::stream(said + &incomplete("content_filter"))]).await;
    let filtered = "refused: The answer was stopped by the provider's filter (content_filter).";
    assert!(lines[1].starts_with(filtered) && lines.len() == 2, "{lines:?}");
    let said = items(&[message("msg_1", "We", "final_answer")]);
    let (lines, ..) = play(vec![Reply::stream(said + &incomplete("steered")), text("ok")]).await;
    let again = "retry: answer given up by the server, 2/4, discard";
    assert_lines(&lines, &["text: We", again, "text: ok", STOP]);
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_asked_for_again() {
    let list = [
        reasoning("rs_1", "c2ln", "Hm."),
        message("msg_1", "Looking.", "commentary"),
        call("fc_1", "c1", "{}"),
    ];
    let whole = items(&list);
    let events: Vec<_> = whole.split_inclusive("\n\n").collect();
    for cut in 0..=events.len() {
        let begun = Reply::stream(events[..cut].concat());
        for reply in [begun.then_cut(), Reply::stream(events[..cut].concat())] {
            let (lines, ..) = play(vec![reply, answer(&list)]).await;
            let expected = ["thought: Hm.", "text: Looking.", "call: glob({}) c1", STOP];
            let from = lines.len() - expected.len();
            assert_eq!(lines[from..], expected, "{lines:?}");
            let again = lines[from - 1].as_str();
            assert!(again.starts_with("retry: the connection was lost, 2/"), "{lines:?}");
            assert_eq!(again.ends_with(", discard"), from > 1, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn after_the_end_nothing_is_waited_for() {
    let whole = items(&[message("msg_1", "All", "final_answer")]) + &end("completed", json!({}));
    for reply in [
        Reply::stream(whole.clone()).then_hang(),
        Reply::stream(whole.clone()).then_cut(),
        Reply::stream(format!("{whole}data: {{")),
    ] {
        let options = RequestOptions { linger: Duration::from_hours(1), ..options() };
        let server = start(vec![reply]).await;
        let (lines, _) = ask(&model(&server, options), prompt(vec![user("hi")])).await;
        assert_lines(&lines, &["text: All", STOP]);
    }
}

#[tokio::test]
async fn worthless_answers_are_asked_for_again_with_a_nudge() {
    let nameless = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "",
        "arguments": "{}" });
    for (list, reason, says) in [
        (vec![], "empty answer, 2/4", "was empty"),
        (
            vec![reasoning("rs_1", "a", "Hm.")],
            "reasoning without an answer, 2/4, discard",
            "generated thoughts but",
        ),
        (vec![call("fc_1", "c1", "{\"a\":")], "malformed tool call, 2/4", "was malformed"),
        (vec![nameless], "malformed tool call, 2/4", "was malformed"),
    ] {
        let (lines, _, server) = play(vec![answer(&list), text("ok")]).await;
        assert_eq!(lines[lines.len() - 3], format!("retry: {reason}"), "{lines:?}");
        let content = input(&server, 1).pop().unwrap()["content"].clone();
        assert_eq!(content[0]["text"], "hi");
        assert!(content[1]["text"].as_str().unwrap().contains(says), "{content}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    let big = "x".repeat(1 << 20);
    let item = message("msg_1", &big, "final_answer");
    for event_of in [
        json!({ "type": "response.output_text.delta", "output_index": 0, "delta": big }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": big }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": big }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
    ] {
        let (lines, _, server) = play(vec![Reply::stream(event(&event_of)).times(100)]).await;
        let error = "error: BadAnswer(\"The model's answer is bigger than 32 MiB, ";
        assert!(lines.last().is_some_and(|last| last.starts_with(error)), "{:?}", lines.len());
        assert_eq!(server.asked().len(), 1, "it is not tried again");
    }
}
