//! Differences of servers, learned once from their errors.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use expect_test::expect;
use tandem_content::media::Media;
use tandem_model::{Assistant, Call, Error, Part, ToolResult};

use super::*;

/// Checks what is learned from a refusal of the first request. `check` gets the bodies of the first request and of a
/// later one.
async fn check(asked: Prompt, refusal: Reply, check: impl Fn(&Value, &Value)) {
    check_at(|server| format!("{}/v1", server.address()), asked, refusal, check).await;
}

async fn check_at(
    url: impl Fn(&Server) -> String,
    asked: Prompt,
    refusal: Reply,
    check: impl Fn(&Value, &Value),
) {
    let server = start(vec![refusal, text("ok"), text("ok")]).await;
    let model = model_at(endpoint(url(&server)), options());
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
    prompt(vec![user("hi")])
}

/// Returns a conversation with a call without text, and an image in the result.
fn with_call() -> Prompt {
    let call = Call { id: "c1".to_owned(), name: "glob".to_owned(), args: json!({}) };
    let result = ToolResult {
        call: "c1".to_owned(),
        name: "glob".to_owned(),
        text: "done".to_owned(),
        failed: false,
        media: vec![Media::new("image/png", b"png")],
    };
    let said = Assistant { calls: vec![call], ..Assistant::default() };
    prompt(vec![
        user("hi"),
        Arc::new(Message::Assistant(said)),
        Arc::new(Message::Results(vec![result])),
    ])
}

#[tokio::test]
async fn stream_options_are_left_out_where_they_are_refused() {
    let refusal = refused(400, "Unrecognized request argument supplied: stream_options");
    check(plain(), refusal, |before, after| {
        assert!(before.get("stream_options").is_some() && after.get("stream_options").is_none());
    })
    .await;
}

#[tokio::test]
async fn parallel_tool_calls_are_asked_for_unless_they_are_refused() {
    let refusal = refused(400, "Unsupported parameter: 'parallel_tool_calls' is not supported");
    check(plain(), refusal, |before, after| {
        assert_eq!(before["parallel_tool_calls"], true);
        assert!(after.get("parallel_tool_calls").is_none());
    })
    .await;
}

#[tokio::test]
async fn the_instruction_is_the_systems_or_the_developers() {
    let refusal = refused(
        400,
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    );
    check(plain(), refusal, |before, after| {
        assert_eq!(before["messages"][0]["role"], "system");
        assert_eq!(after["messages"][0]["role"], "developer");
    })
    .await;
}

#[tokio::test]
async fn a_message_with_calls_alone_has_null_or_an_empty_text() {
    for refusal in [
        refused(400, "messages.1.content: none is not an allowed value, string required"),
        Reply::error(500, r#"{"error":{"message":"Jinja Exception: can only concatenate str"}}"#),
    ] {
        check(with_call(), refusal, |before, after| {
            assert_eq!(before["messages"][2]["content"], Value::Null);
            assert_eq!(after["messages"][2]["content"], "");
        })
        .await;
    }
}

#[tokio::test]
async fn images_of_results_come_after_them_or_not_at_all() {
    let refusal = refused(400, "image_url is not supported: this model has no vision");
    check(with_call(), refusal, |before, after| {
        let url = "data:image/png;base64,cG5n";
        let result = json!({ "role": "tool", "content": "done", "tool_call_id": "c1" });
        assert_eq!(before["messages"][3], result);
        let seen = &before["messages"][4];
        assert_eq!(seen["role"], "user");
        assert_eq!(seen["content"][1], json!({ "type": "image_url", "image_url": { "url": url } }));
        let unseen = after["messages"][4]["content"][1]["text"].as_str().unwrap();
        assert_eq!(unseen, "[image/png: this model cannot see it.]");
    })
    .await;
}

#[tokio::test]
async fn an_image_that_a_server_refuses_is_left_out_and_the_model_still_sees_others() {
    let error = json!({ "error": { "message": "Invalid image.", "code": "invalid_image_format" } });
    let refusal = Reply::error(400, error.to_string());
    let server = start(vec![refusal, text("ok"), text("ok")]).await;
    let model = model(&server, options());
    let seen =
        |data: &[u8]| Arc::new(Message::User(vec![Part::Media(Media::new("image/png", data))]));
    let mut messages = vec![seen(b"bad")];
    ask(&model, prompt(messages.clone())).await;
    let said = Assistant { text: "ok".to_owned(), ..Assistant::default() };
    messages.extend([Arc::new(Message::Assistant(said)), seen(b"good")]);
    let (lines, _) = ask(&model, prompt(messages)).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let told = self::messages(&server, 2);
    let left_out = "[image/png: the server does not accept it.]";
    assert_eq!(told[1]["content"][0]["text"], left_out);
    assert_eq!(told[3]["content"][0]["type"], "image_url");
}

#[tokio::test]
async fn an_id_is_short_where_it_must_be_for_the_call_and_its_result() {
    let refusal =
        refused(400, "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.");
    check(with_call(), refusal, |before, after| {
        assert_eq!(before["messages"][2]["tool_calls"][0]["id"], "c1");
        let id = after["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
        assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
        assert_eq!(after["messages"][3]["tool_call_id"], id);
    })
    .await;
}

#[tokio::test]
async fn reasoning_may_be_refused_or_wanted() {
    let refusal = || refused(400, "Missing `reasoning_content` field in the assistant message");
    check(with_call(), refusal(), |before, after| {
        assert!(before["messages"][2].get("reasoning_content").is_none());
        assert_eq!(after["messages"][2]["reasoning_content"], "");
    })
    .await;

    let call = json!({ "reasoning_content": "hm", "tool_calls": [{ "index": 0, "id": "c1",
        "function": { "name": "glob", "arguments": "{}" } }] });
    let refusal = refused(400, "Extra inputs are not permitted: reasoning_content");
    let server = start(vec![stream(vec![call], "tool_calls"), refusal, text("ok")]).await;
    let model = model(&server, options());
    let (_, end) = ask(&model, plain()).await;
    let told = prompt(after(&end.unwrap(), "", &[("c1", "glob", json!({}))]));
    let (lines, _) = ask(&model, told).await;
    assert_lines(&lines, &["text: ok", STOP]);
    assert_eq!(messages(&server, 1)[2]["reasoning_content"], "hm");
    assert!(messages(&server, 2)[2].get("reasoning_content").is_none());
}

/// Returns a prompt with a schema that local servers get in a simpler form.
fn with_schema() -> Prompt {
    let schema = json!({ "type": "object", "properties": {
        "pattern": { "type": "string", "pattern": "^a" },
        "how": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
    } });
    Prompt { tools: [tool("glob", schema)].into(), ..plain() }
}

#[tokio::test]
async fn a_local_server_gets_schemas_that_it_can_make_a_grammar_of() {
    let server = start(vec![text("ok")]).await;
    ask(&model(&server, options()), with_schema()).await;
    let parameters = &server.asked()[0].body["tools"][0]["function"]["parameters"];
    let simple = json!({ "pattern": { "type": "string" }, "how": { "type": "string" } });
    assert_eq!(parameters["properties"], simple);
}

#[tokio::test]
async fn a_limit_is_sent_only_if_one_is_known_and_under_the_name_that_is_taken() {
    let catalog = r#"{"models":[{"id":"openai:some/model*","outputTokens":5000}]}"#;
    let catalog = Catalog::embedded().clone().with_overrides(catalog).unwrap();
    let refusal = refused(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
         'max_completion_tokens' instead.",
    );
    let server = start(vec![refusal, text("ok")]).await;
    let endpoint = endpoint(format!("{}/v1", server.address()));
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let limited = catalog.lookup(&format!("openai:{MODEL}"));
    let limited = OpenAi::new(limited, connect, options(), Arc::default()).unwrap();
    let (lines, _) = ask(&limited, plain()).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(
        (&bodies[0]["max_tokens"], &bodies[1]["max_completion_tokens"]),
        (&json!(5000), &json!(5000))
    );
    assert!(bodies[0].get("max_completion_tokens").is_none());
    assert!(bodies[1].get("max_tokens").is_none());
}

#[tokio::test]
async fn several_ways_are_learnt_one_after_the_other_and_no_request_counts_as_failed() {
    let server = start(vec![
        refused(400, "stream_options is not known"),
        refused(422, "parallel_tool_calls: extra inputs are not permitted"),
        Reply::error(500, r#"{"error":"template error: content is undefined"}"#),
        text("ok"),
    ])
    .await;
    let mut options = options();
    options.retry.attempts = 1;
    let (lines, _) = ask(&model(&server, options), with_call()).await;
    assert_lines(&lines, &["text: ok", STOP]);
}

#[tokio::test]
async fn a_refusal_that_stays_ends() {
    let server = start((0..9).map(|_| refused(400, "stream_options? never!")).collect()).await;
    let (lines, _) = ask(&model(&server, options()), plain()).await;
    assert_eq!(server.asked().len(), 2);
    assert_lines(
        &lines,
        &["error: Rejected(\"The API did not accept the request (HTTP 400). The \
        server says: stream_options? never!\")"],
    );
}

#[tokio::test]
async fn another_server_is_another_matter() {
    let first = start(vec![refused(400, "stream_options"), text("ok")]).await;
    let second = start(vec![text("ok")]).await;
    let urls = [first.address().to_owned(), second.address().to_owned()];
    let moved = Arc::new(AtomicBool::new(false));
    let second_counts = Arc::clone(&moved);
    let connect: Connect = Arc::new(move || {
        let url = &urls[usize::from(second_counts.load(Relaxed))];
        Ok(endpoint(format!("{url}/v1")))
    });
    let model = Catalog::embedded().lookup("openai:x");
    let model = OpenAi::new(model, connect, options(), Arc::default()).unwrap();
    ask(&model, plain()).await;
    moved.store(true, Relaxed);
    ask(&model, plain()).await;
    assert!(first.asked()[1].body.get("stream_options").is_none());
    assert!(second.asked()[0].body.get("stream_options").is_some());
}

#[tokio::test]
async fn the_roles_alternate_and_each_call_has_one_result() {
    let system = |message: &Value| message["role"] == "system";
    let image = Part::Media(Media::new("image/png", b"png"));
    let texts = vec![Part::Text("a".to_owned()), Part::Text("b".to_owned())];
    let call = |id: &str| Call { id: id.to_owned(), name: "glob".to_owned(), args: json!([1]) };
    let long = "x".repeat(60);
    let said = Assistant { calls: vec![call(&long), call("c2")], ..Assistant::default() };
    let conversation = vec![
        user("one"),
        Arc::new(Message::User(texts)),
        Arc::new(Message::Assistant(said)),
        Arc::new(Message::User(vec![Part::Text("see".to_owned()), image])),
    ];
    let server = start(vec![text("ok")]).await;
    ask(&model(&server, options()), prompt(conversation)).await;
    let told = messages(&server, 0);
    assert_eq!(told.iter().filter(|it| system(it)).count(), 1);
    let roles: Vec<_> = told.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "user"]);
    assert_eq!(told[1]["content"], "one\na\nb");
    let calls = told[2]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["function"]["arguments"], "{\"input\":[1]}");
    assert!(calls[0]["id"].as_str().unwrap().len() <= 40);
    for (call, result) in calls.iter().zip(&told[3..]) {
        assert_eq!(call["id"], result["tool_call_id"]);
    }
    assert_eq!(told[6]["content"][0], json!({ "type": "text", "text": "see" }));
    assert_eq!(told[6]["content"][1]["type"], "image_url");
}

#[tokio::test]
async fn a_thinking_level_is_left_out_where_it_is_refused() {
    let refusal = refused(400, "Unsupported parameter: 'reasoning_effort' is not supported");
    let server = start(vec![refusal, text("ok"), text("ok")]).await;
    let options = RequestOptions { thinking: Some("HIGH".to_owned()), ..options() };
    let model = model(&server, options);
    for _ in 0..2 {
        let (lines, _) = ask(&model, plain()).await;
        assert_lines(&lines, &["text: ok", STOP]);
    }
    let sent: Vec<_> =
        server.asked().iter().map(|asked| asked.body.get("reasoning_effort").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[tokio::test]
async fn how_much_it_thinks_is_said_if_the_user_says_so() {
    let server = start(vec![text("ok")]).await;
    let options = RequestOptions { thinking: Some("HIGH".to_owned()), ..options() };
    ask(&model(&server, options), plain()).await;
    assert_eq!(server.asked()[0].body["reasoning_effort"], "high");
    let options = RequestOptions { thinking: Some("LOUD".to_owned()), ..crate::api::options() };
    let connect: Connect = Arc::new(|| Err(Error::NotAuthenticated(String::new())));
    let model = Catalog::embedded().lookup("openai:x");
    let error = OpenAi::new(model, connect, options, Arc::default()).err();
    expect!["Unknown thinking level `LOUD` for `x`. Known levels: none, minimal, low, medium, high, xhigh."].assert_eq(&error.unwrap().to_string());
}

#[tokio::test]
async fn a_schema_of_the_answer_is_sent_to_models_of_openai_until_it_is_refused() {
    let refusal =
        refused(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported");
    let server = start(vec![refusal, text("ok"), text("ok")]).await;
    let at = || endpoint(format!("{}/v1", server.address()));
    let own = of_model("gpt-5.1", at(), options());
    for model in [&own, &of_model(MODEL, at(), options())] {
        ask(model, wanting(closed_schema())).await;
    }
    let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
    let format = json!({ "type": "json_schema", "json_schema": {
        "name": "answer", "strict": true, "schema": closed_schema() } });
    assert_eq!((bodies.len(), &bodies[0]["response_format"]), (3, &format));
    assert_eq!(bodies[0]["tools"][0]["function"]["name"], "glob");
    assert!(bodies[1..].iter().all(|body| body.get("response_format").is_none()));
}
