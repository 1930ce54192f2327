//! Conversations over several requests: earlier answers are sent back, or left out.

use tandem_model::{Assistant, Call, Chunk, Finish, FinishReason, Message, Model, Native, Part};

use super::requests::{calls, result, results};
use super::*;

/// Returns the answer to a prompt, as the session keeps it.
async fn answer(model: &dyn Model, prompt: Prompt) -> Arc<Message> {
    let mut answer = Assistant::default();
    let mut chunks = model.stream(prompt);
    while let Some(chunk) = futures::StreamExt::next(&mut chunks).await {
        match chunk.unwrap() {
            Chunk::Text(text) => answer.text.push_str(&text),
            Chunk::Call(call) => answer.calls.push(call),
            Chunk::Finish(Finish { native, .. }) => answer.native = native,
            Chunk::Thought(_) | Chunk::Retry(_) => {}
        }
    }
    Arc::new(Message::Assistant(answer))
}

/// Returns the kinds of the blocks in an answer.
fn kinds(turn: &Value) -> Vec<&str> {
    assert_eq!(turn["role"], "assistant");
    turn["content"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect()
}

/// Returns a user's message, an answer with thinking and calls, and the results of the calls.
async fn looped(id: &str) -> Vec<Arc<Message>> {
    let server = Server::start(vec![recorded("calls")]).await;
    let model = of_model(id, endpoint(&server), options());
    let answer = answer(&model, prompt(vec![user("hi")])).await;
    let came = ["toolu_01A", "toolu_01B"].map(|id| result("read_file", id, "x"));
    let came = came.into_iter().chain([result("list", "toolu_01C", "y")]).collect();
    vec![user("hi"), answer, results(came)]
}

#[tokio::test]
async fn thinking_goes_back_as_it_came_before_the_calls_of_the_same_answer() {
    let mut conversation = looped(MODEL).await;
    let body = sent(MODEL, prompt(conversation.clone())).await;
    let turn = &body["messages"][1];
    assert_eq!(kinds(turn), ["thinking", "text", "tool_use", "tool_use", "tool_use"]);
    let Message::Assistant(Assistant { native: Some(native), .. }) = &*conversation[1] else {
        panic!("{conversation:?}")
    };
    assert_eq!(turn["content"], json!(native.parts));
    let ids: Vec<_> = body["messages"][2]["content"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[2]["tool_use_id"], "toolu_01C");
    // After more messages, the earlier messages are sent unchanged: otherwise the provider's cache would be of no
    // use.
    conversation.push(Arc::new(Message::Assistant(Assistant {
        text: "Done.".to_owned(),
        ..Assistant::default()
    })));
    conversation.push(user("and now?"));
    let later = sent(MODEL, prompt(conversation)).await;
    assert_eq!(later["messages"][1], *turn);
}

#[tokio::test]
async fn thinking_that_is_redacted_goes_back_too() {
    let server = Server::start(vec![recorded("thinking")]).await;
    let said = answer(&anthropic(&server, options()), prompt(vec![user("hi")])).await;
    let body = sent(MODEL, prompt(vec![user("hi"), said, user("more")])).await;
    assert_eq!(kinds(&body["messages"][1]), ["thinking", "redacted_thinking", "text"]);
}

#[tokio::test]
async fn after_a_switch_of_the_model_its_thinking_is_left_out() {
    let conversation = looped("claude-sonnet-5-5").await;
    let body = sent(MODEL, prompt(conversation)).await;
    assert_eq!(kinds(&body["messages"][1]), ["text", "tool_use", "tool_use", "tool_use"]);
}

#[tokio::test]
async fn a_model_that_thinks_when_turns_begin_does_not_in_one_that_began_without() {
    let old = "claude-sonnet-4-5";
    let thinks = |body: &Value| body.get("thinking").is_some();
    assert!(thinks(&sent(old, prompt(looped(old).await)).await), "its own turn");
    let mut other = looped(MODEL).await;
    assert!(!thinks(&sent(old, prompt(other.clone())).await), "another model's turn");
    let call = vec![user("hi"), calls(&[("glob", "c")]), results(vec![result("glob", "c", "")])];
    assert!(!thinks(&sent(old, prompt(call)).await), "another provider's turn");
    other.push(user("next"));
    assert!(thinks(&sent(old, prompt(other)).await), "the next turn");
}

#[tokio::test]
async fn what_another_provider_said_is_told_again_without_what_only_it_understands() {
    let native = Native {
        backend: "gemini".to_owned(),
        model: "gemini-3.8-flash".to_owned(),
        parts: vec![
            json!({ "text": "I'll look." }),
            json!({ "functionCall": { "name": "glob", "args": {} }, "thoughtSignature": "U0lH" }),
        ],
    };
    let call = Call { id: "glob_1_0".to_owned(), name: "glob".to_owned(), args: json!({}) };
    let (text, calls) = ("I'll look.".to_owned(), vec![call]);
    let said = Arc::new(Message::Assistant(Assistant { text, calls, native: Some(native) }));
    let came = results(vec![result("glob", "glob_1_0", "a.rs")]);
    let body = sent(MODEL, prompt(vec![user("hi"), said, came])).await;
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            { "type": "text", "text": "I'll look." },
            { "type": "tool_use", "id": "glob_1_0", "name": "glob", "input": {} }
        ])
    );
    assert!(!body.to_string().contains("U0lH"));
}

#[tokio::test]
async fn calls_that_were_changed_are_told_as_they_are_now() {
    let mut conversation = looped(MODEL).await;
    if let Message::Assistant(answer) = Arc::make_mut(&mut conversation[1]) {
        answer.calls.truncate(1);
    }
    let body = sent(MODEL, prompt(conversation)).await;
    assert_eq!(kinds(&body["messages"][1]), ["text", "tool_use"]);
    assert_eq!(body["messages"][2]["content"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_gives_two_calls_one_id_gets_two() {
    let stream = String::from_utf8(api::recorded("anthropic/calls.sse")).unwrap();
    let same = stream.replace("toolu_01B", "toolu_01A").replace("toolu_01C", "");
    let server = Server::start(vec![Reply::stream(same)]).await;
    let said = answer(&anthropic(&server, options()), prompt(vec![user("hi")])).await;
    let came = ["1", "2", "3"].map(|text| result("read_file", text, text)).to_vec();
    let body = sent(MODEL, prompt(vec![user("hi"), said, results(came)])).await;
    let ids = |turn: usize, field: &str| {
        let blocks = body["messages"][turn]["content"].as_array().unwrap();
        let ids = blocks.iter().filter_map(|block| block[field].as_str().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    let called = ids(1, "id");
    assert_eq!(called, ["toolu_01A", "toolu_01A-2", "call"]);
    assert_eq!(ids(2, "tool_use_id"), called);
}

#[tokio::test]
async fn thinking_that_is_refused_is_left_out_from_then_on() {
    let refused = r#"{"type":"error","error":{"type":"invalid_request_error","message":
        "messages.1.content.0: Invalid `signature` in `thinking` block"}}"#;
    let replies = vec![Reply::error(400, refused), says("ok"), says("ok")];
    let server = Server::start(replies).await;
    let model = anthropic(&server, options());
    let conversation = looped(MODEL).await;
    let lines = ask(&model, prompt(conversation.clone())).await;
    assert_eq!(lines[0], "text: ok");
    ask(&model, prompt(conversation.clone())).await;
    let asked = server.asked();
    let has_thinking = |n: usize| kinds(&asked[n].body["messages"][1]).contains(&"thinking");
    assert_eq!([0, 1, 2].map(has_thinking), [true, false, false]);
    // This conversation has no thinking that could be left out, so the refusal is the final error.
    let server = Server::start(vec![Reply::error(400, refused)]).await;
    let lines = ask(&anthropic(&server, options()), prompt(vec![user("hi")])).await;
    assert!(lines[0].starts_with("error: Rejected"), "{lines:?}");
}

#[tokio::test]
async fn a_finished_answer_says_what_it_is() {
    let server = Server::start(vec![recorded("step")]).await;
    let model = anthropic(&server, options());
    assert_eq!(model.id(), "anthropic:claude-opus-5-5");
    assert_eq!(model.input_limit(), Some(1_000_000));
    let mut chunks =
        model.stream(prompt(vec![Arc::new(Message::User(vec![Part::Text("x".into())]))]));
    let mut last = None;
    while let Some(chunk) = futures::StreamExt::next(&mut chunks).await {
        last = Some(chunk.unwrap());
    }
    let Some(Chunk::Finish(Finish { reason, native: Some(native), .. })) = last else { panic!() };
    assert_eq!(reason, FinishReason::Stop);
    assert_eq!((native.backend.as_str(), native.model.as_str()), ("anthropic", MODEL));
}
