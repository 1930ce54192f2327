//! Differences of servers, learned once from their errors.

use super::*;
use tandem_content::media::Media;
use tandem_model::Part;

/// Checks what is learned from a refusal of the first request. `check` gets the bodies of the first request and of a
/// later one.
async fn check(asked: Prompt, refusal: Reply, check: impl Fn(&Value, &Value)) {
    let server = lenient(vec![refusal, text("ok"), text("ok")]).await;
    let model = model(&server, options());
    for _ in 0..2 {
        let (lines, _) = ask(&model, asked.clone()).await;
        assert_lines(&lines, &["text: ok", STOP]);
    }
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies.len(), 3, "it is not refused twice");
    check(&bodies[0], &bodies[1]);
    assert_eq!(bodies[1], bodies[2]);
}

fn plain() -> Prompt {
    Prompt { thinking: Some("high".to_owned()), ..prompt(vec![user("hi")]) }
}

/// Returns a conversation with a message that has a phase, and an image in a result.
fn with_image() -> Prompt {
    let call = Call { id: "c1".to_owned(), name: "glob".to_owned(), args: json!({}) };
    let parts = vec![message("msg_1", "Looking.", "commentary"), super::call("fc_1", "c1", "{}")];
    let (backend, model) = ("openai-responses".to_owned(), "gpt-6-sol".to_owned());
    let native = Some(tandem_model::Native { backend, model, parts });
    let said = Assistant { text: "Looking.".to_owned(), calls: vec![call], native };
    let seen = ToolResult { media: vec![Media::new("image/png", b"x")], ..result("c1", "done") };
    prompt(vec![
        user("hi"),
        Arc::new(Message::Assistant(said)),
        Arc::new(Message::Results(vec![seen])),
    ])
}

#[tokio::test]
async fn a_field_that_a_server_refuses_is_left_out() {
    for (message, param, code, field) in [
        (
            "Unknown parameter: 'prompt_cache_key'.",
            "prompt_cache_key",
            "unknown_parameter",
            "prompt_cache_key",
        ),
        ("parallel_tool_calls is not supported", "", "", "parallel_tool_calls"),
        ("Encrypted content is not supported with this model.", "include", "", "include"),
        ("Unsupported parameter: 'include'", "include", "unsupported_parameter", "include"),
    ] {
        check(plain(), refused(400, message, param, code), |before, after| {
            assert!(before.get(field).is_some() && after.get(field).is_none(), "{message}");
            assert_eq!(after["reasoning"], before["reasoning"]);
        })
        .await;
    }
}

#[tokio::test]
async fn summaries_a_level_or_all_reasoning_may_be_refused() {
    let verify = "Your organization must be verified to generate reasoning summaries. Please go to \
                  settings and click on Verify Organization.";
    for (message, param, after_it) in [
        (verify, "reasoning.summary", json!({ "effort": "high" })),
        (
            "Unsupported parameter: 'reasoning.effort'",
            "reasoning.effort",
            json!({ "summary": "auto" }),
        ),
        ("Unrecognized request argument supplied: reasoning", "", Value::Null),
    ] {
        check(plain(), refused(400, message, param, "unsupported_value"), |before, after| {
            assert_eq!(before["reasoning"], json!({ "effort": "high", "summary": "auto" }));
            assert_eq!(after["reasoning"], after_it, "{message}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_phase_is_left_out_where_it_is_unknown() {
    let refusal = refused(400, "Unknown parameter: 'input[1].phase'.", "input[1].phase", "");
    check(with_image(), refusal, |before, after| {
        assert_eq!(before["input"][1]["phase"], "commentary");
        assert!(after["input"][1].get("phase").is_none());
        assert_eq!(after["input"][1]["content"], before["input"][1]["content"]);
    })
    .await;
}

#[tokio::test]
async fn images_of_results_come_after_them_or_not_at_all() {
    let refusal = refused(400, "input[3].output: Input should be a valid string", "", "");
    check(with_image(), refusal, |before, after| {
        assert_eq!(before["input"][3]["output"][1]["type"], "input_image");
        assert_eq!(after["input"][3]["output"], "done");
        assert_eq!(after["input"][4]["role"], "user");
        assert_eq!(after["input"][4]["content"][1]["type"], "input_image");
    })
    .await;
    let refusal = refused(400, "this model has no vision", "", "");
    check(with_image(), refusal, |_, after| {
        let unseen = after["input"][3]["output"][1]["text"].as_str().unwrap();
        assert_eq!(unseen, "[image/png: this model cannot see it.]");
    })
    .await;
}

/// Returns a question with an image.
fn seen(kind: &str, data: &[u8]) -> Arc<Message> {
    Arc::new(Message::User(vec![Part::Media(Media::new(kind, data))]))
}

#[tokio::test]
async fn of_a_model_without_vision_only_the_images_are_left_out_at_first() {
    let pdf = || seen("application/pdf", b"pdf");
    let refusal = || refused(400, "this model has no vision", "", "");
    let server = lenient(vec![refusal(), text("ok"), refusal(), text("ok")]).await;
    let model = model(&server, options());
    for _ in 0..2 {
        let asked = prompt(vec![seen("image/png", b"png"), pdf()]);
        let (lines, _) = ask(&model, asked).await;
        assert_lines(&lines, &["text: ok", STOP]);
    }
    let kinds: Vec<_> = (0..4).map(|request| kinds(&server, request)).collect();
    let (text, file) = ("input_text", "input_file");
    assert_eq!(kinds, [["input_image", file], [text, file], [text, file], [text, text]]);
}

/// Returns the types of all parts of the messages of a request.
fn kinds(server: &Server, request: usize) -> Vec<String> {
    let messages = input(server, request);
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    parts.map(|part| part["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_image_that_a_server_refuses_is_left_out_and_the_model_still_sees_others() {
    let error = json!({ "code": "image_too_large", "message": "The image is too large." });
    let failed = event(&json!({ "type": "response.failed",
        "response": { "status": "failed", "error": error } }));
    for refusal in [
        Reply::stream(failed),
        refused(400, "The image data is no valid image.", "input[0]", "invalid_base64_image"),
    ] {
        let server = lenient(vec![refusal, text("ok"), text("ok")]).await;
        let model = model(&server, options());
        let mut messages = vec![seen("image/png", b"bad")];
        let (lines, _) = ask(&model, prompt(messages.clone())).await;
        assert_lines(&lines, &["text: ok", STOP]);
        let said = Assistant { text: "ok".to_owned(), ..Assistant::default() };
        messages.extend([Arc::new(Message::Assistant(said)), seen("image/png", b"good")]);
        let (lines, _) = ask(&model, prompt(messages)).await;
        assert_lines(&lines, &["text: ok", STOP]);
        let left_out = "[image/png: the server does not accept it.]";
        assert_eq!(input(&server, 1)[0]["content"][0]["text"], left_out);
        let last = input(&server, 2);
        assert_eq!(last[0]["content"][0]["text"], left_out);
        assert_eq!(last[2]["content"][0]["type"], "input_image");
    }
}

#[tokio::test]
async fn where_reasoning_is_refused_earlier_reasoning_is_left_out_too() {
    let list = [reasoning("rs_1", "c2ln", "Hm."), super::call("fc_1", "c1", "{}")];
    let (lines, finish, _) = play(vec![answer(&list)]).await;
    let asked = prompt(after(&lines, &finish.unwrap()));
    let refusal = refused(400, "input[1]: type 'reasoning' is not supported", "input[1]", "");
    check(asked, refusal, |before, after| {
        assert_eq!(before["input"][1], list[0]);
        assert!(after.get("reasoning").is_none());
        let mut call = list[1].clone();
        call.as_object_mut()
            .unwrap()
            .retain(|field, _| !["id", "status"].contains(&field.as_str()));
        assert_eq!(after["input"][1], call);
    })
    .await;
}

#[tokio::test]
async fn several_ways_are_learnt_one_after_the_other_and_no_request_counts_as_failed() {
    let refusals = [
        refused(400, "Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key", ""),
        refused(400, "must be verified to generate reasoning summaries", "reasoning.summary", ""),
        refused(400, "Encrypted content is not supported with this model.", "include", ""),
    ];
    let replies = refusals.into_iter().chain([text("ok")]).collect();
    let server = lenient(replies).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let fields = server.asked().pop().unwrap().body.as_object().unwrap().clone();
    let fields: Vec<_> = fields.keys().map(String::as_str).collect();
    let left =
        ["model", "stream", "store", "instructions", "input", "tools", "parallel_tool_calls"];
    assert_eq!(fields, left);
}

#[tokio::test]
async fn a_refusal_that_stays_ends() {
    let refusal = || refused(400, "Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key", "");
    let server = lenient(vec![refusal(), refusal()]).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    assert!(lines[0].starts_with("error: Rejected("), "{lines:?}");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_schema_of_the_answer_that_is_refused_is_left_out() {
    let message = "Invalid schema for response_format 'answer': schema is too large";
    let refusal = refused(400, message, "text.format.schema", "invalid_json_schema");
    check(wanting(closed_schema()), refusal, |before, after| {
        assert!(before["text"]["format"].is_object());
        assert_eq!(after.get("text"), None);
        assert_eq!(after["tools"], before["tools"]);
    })
    .await;
}
