//! Reasoning, calls and phases, which are sent back unchanged, in order, and to no other model.

use super::*;

/// Returns an answer with all kinds of items that are sent back.
fn step() -> Vec<Value> {
    vec![
        reasoning("rs_1", "c2lnbmVk", "I must look"),
        message("msg_1", "Looking.", "commentary"),
        reasoning("rs_2", "c2lnbmVkIHRvbw==", ""),
        call("fc_1", "c1", "{\"pattern\":\"a\"}"),
        call("fc_2", "c2", "{}"),
    ]
}

/// Plays an answer, and returns the conversation after it.
async fn played(step: &[Value]) -> (Vec<Arc<Message>>, Server) {
    let (lines, finish, server) = play(vec![answer(step), text("ok"), text("ok")]).await;
    (after(&lines, &finish.unwrap()), server)
}

fn output(call: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": call, "output": "done" })
}

#[tokio::test]
async fn items_go_back_unchanged_and_in_order_before_the_outputs_of_their_calls() {
    let (messages, server) = played(&step()).await;
    let (lines, _) = ask(&model(&server, options()), prompt(messages)).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let sent = input(&server, 1);
    assert_eq!(sent[1..6], step());
    assert_eq!(sent[6..], [output("c1"), output("c2")]);
}

#[tokio::test]
async fn the_phase_of_the_last_message_goes_back_with_it() {
    let said = message("msg_1", "All is well.", "final_answer");
    let (mut messages, server) = played(std::slice::from_ref(&said)).await;
    messages.truncate(2);
    messages.push(user("and now?"));
    ask(&model(&server, options()), prompt(messages)).await;
    assert_eq!(input(&server, 1)[1], said);
}

#[tokio::test]
async fn plain_text_is_kept_as_text_alone() {
    let mut plain = message("msg_1", "Hello.", "");
    plain.as_object_mut().unwrap().shift_remove("phase");
    let (_, finish, _) = play(vec![answer(&[plain])]).await;
    assert_eq!(finish.unwrap().native, None);
}

#[tokio::test]
async fn another_model_gets_text_calls_and_phases_without_reasoning_and_ids() {
    let (messages, server) = played(&step()).await;
    let other = of_model("openai:gpt-6.1-terra", endpoint(&server), options());
    let (lines, _) = ask(&other, prompt(messages)).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let mut expected = vec![step()[1].clone(), step()[3].clone(), step()[4].clone()];
    for item in &mut expected {
        item.as_object_mut()
            .unwrap()
            .retain(|field, _| !["id", "status"].contains(&field.as_str()));
    }
    expected[0]["content"] = json!("Looking.");
    expected.extend([output("c1"), output("c2")]);
    assert_eq!(input(&server, 1)[1..], expected);
}

#[tokio::test]
async fn reasoning_that_cannot_be_known_again_is_left_out_with_the_ids_that_need_it() {
    let mut list = step();
    list[0].as_object_mut().unwrap().shift_remove("encrypted_content");
    let (messages, server) = played(&list).await;
    let (lines, _) = ask(&model(&server, options()), prompt(messages)).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let sent = input(&server, 1);
    assert_eq!(sent[1]["content"], "Looking.");
    assert_eq!(sent[2], list[2]);
    assert!(sent.iter().all(|item| item.get("id").is_none() || item["type"] == "reasoning"));
}

#[tokio::test]
async fn after_invalid_encrypted_content_the_turn_goes_on_without_the_reasoning() {
    let (messages, _) = played(&step()).await;
    for code in ["invalid_encrypted_content", ""] {
        let message = "The encrypted content gAAA...== could not be verified. Reason: Encrypted \
             content could not be decrypted or parsed.";
        let refusal = || refused(400, message, "", code);
        // The key of another organization cannot decrypt earlier reasoning. It can decrypt reasoning that it has got
        // itself.
        let again = [reasoning("rs_9", "bmV3", "Hm."), call("fc_9", "c9", "{}")];
        let server = lenient(vec![refusal(), answer(&again), text("ok")]).await;
        let model = model(&server, options());
        let (lines, finish) = ask(&model, prompt(messages.clone())).await;
        assert_lines(&lines, &["thought: Hm.", "call: glob({}) c9", STOP]);
        assert_eq!(input(&server, 0)[1..6], step());
        let sent = input(&server, 1);
        assert!(sent.iter().all(|item| item["type"] != "reasoning" && item.get("id").is_none()));
        let kinds: Vec<_> = sent.iter().map(|item| item["type"].as_str().unwrap()).collect();
        let output = "function_call_output";
        assert_eq!(kinds, ["message", "message", "function_call", "function_call", output, output]);

        let later = [&messages[..], &after(&lines, &finish.unwrap())[1..]].concat();
        let (lines, _) = ask(&model, prompt(later)).await;
        assert_lines(&lines, &["text: ok", STOP]);
        let sent = input(&server, 2);
        let thoughts: Vec<_> = sent.iter().filter(|item| item["type"] == "reasoning").collect();
        assert_eq!(thoughts, [&again[0]], "only the old reasoning is left out");
    }
}

#[tokio::test]
async fn reasoning_that_is_refused_inside_the_stream_is_left_out_too() {
    let (messages, _) = played(&step()).await;
    let error = json!({ "code": "invalid_encrypted_content", "message": "x", "param": null });
    let failed = event(&json!({ "type": "response.failed",
        "response": { "status": "failed", "error": error } }));
    let mut flat = error;
    flat["type"] = json!("error");
    for body in [failed, event(&flat)] {
        let server = lenient(vec![Reply::stream(body), text("ok")]).await;
        let (lines, _) = ask(&model(&server, options()), prompt(messages.clone())).await;
        assert_lines(&lines, &["text: ok", STOP]);
        assert!(input(&server, 1).iter().all(|item| item["type"] != "reasoning"));
    }
}

#[tokio::test]
async fn a_refusal_without_any_reasoning_is_an_error() {
    let refusal = refused(400, "could not be verified", "", "invalid_encrypted_content");
    let server = lenient(vec![refusal]).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    assert!(lines[0].starts_with("error: Rejected(") && lines.len() == 1, "{lines:?}");
}

#[tokio::test]
async fn ids_of_other_apis_are_made_ones_that_the_api_takes_for_the_call_and_its_output() {
    let long = "c".repeat(100);
    let ids = ["toolu_01:x", &long, "", "call 1", "same", "same", "call_ok-1"];
    let calls = ids.map(|id| Call { id: id.to_owned(), name: "glob".to_owned(), args: json!({}) });
    let said = Assistant { calls: calls.to_vec(), ..Assistant::default() };
    let results = ids.map(|id| result(id, "done")).to_vec();
    let messages =
        vec![user("hi"), Arc::new(Message::Assistant(said)), Arc::new(Message::Results(results))];
    let body = sent(MODEL, prompt(messages), options()).await;
    let of = |kind: &str| -> Vec<String> {
        let items = body["input"].as_array().unwrap().iter().filter(|item| item["type"] == kind);
        items.map(|item| item["call_id"].as_str().unwrap().to_owned()).collect()
    };
    let called = of("function_call");
    assert_eq!(called, of("function_call_output"));
    assert_eq!(called.len(), ids.len());
    let distinct: std::collections::HashSet<_> = called.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{called:?}");
    assert_eq!(called[6], "call_ok-1");
}

#[tokio::test]
async fn a_session_that_was_cut_or_compressed_still_sends_what_the_api_takes() {
    let (whole, _) = played(&step()).await;
    let rest = vec![
        vec![whole[1].clone(), whole[2].clone()],
        vec![whole[0].clone(), whole[1].clone()],
        vec![whole[0].clone(), whole[1].clone(), user("stop")],
        vec![user("[A summary of what was said.]"), whole[1].clone(), whole[2].clone(), user("go")],
    ];
    let replies = rest.iter().map(|_| text("ok"));
    let server = start([answer(&step())].into_iter().chain(replies).collect()).await;
    let model = model(&server, options());
    ask(&model, prompt(vec![user("hi")])).await;
    for messages in rest {
        let (lines, _) = ask(&model, prompt(messages)).await;
        assert_lines(&lines, &["text: ok", STOP]);
    }
}
