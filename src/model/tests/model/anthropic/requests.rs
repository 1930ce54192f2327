//! Requests: the rules of the API, one by one.

use expect_test::expect;
use tandem_content::media::Media;
use tandem_model::{Assistant, Call, Message, Model as _, Part, ToolDeclaration, ToolResult};

use super::*;

/// Returns an answer with these calls, each with a name and an id.
pub(super) fn calls(calls: &[(&str, &str)]) -> Arc<Message> {
    let calls = calls.iter().map(|(name, id)| Call {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        args: json!({ "x": 1 }),
    });
    let calls = calls.collect();
    Arc::new(Message::Assistant(Assistant { calls, ..Assistant::default() }))
}

pub(super) fn result(name: &str, id: &str, text: &str) -> ToolResult {
    ToolResult {
        call: id.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
        failed: false,
        media: Vec::new(),
    }
}

pub(super) fn results(results: Vec<ToolResult>) -> Arc<Message> {
    Arc::new(Message::Results(results))
}

async fn messages(prompt: Prompt) -> Vec<Value> {
    let mut body = sent(MODEL, prompt).await;
    serde_json::from_value(body["messages"].take()).unwrap()
}

#[tokio::test]
async fn a_request_has_the_key_the_version_and_what_the_api_needs() {
    let server = Server::start(vec![says("ok")]).await;
    ask(&anthropic(&server, options()), prompt(vec![user("hi")])).await;
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.what, "POST /v1/messages");
    assert_eq!(asked.headers["x-api-key"], KEY);
    assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    assert_eq!(asked.headers["content-type"], "application/json");
    assert!(!asked.headers.contains_key("authorization"));
    let cached = json!({ "type": "ephemeral" });
    assert_eq!(
        asked.body,
        json!({
            "model": MODEL,
            "max_tokens": 128_000,
            "stream": true,
            "thinking": { "type": "adaptive", "display": "summarized" },
            "tools": [{
                "name": "glob",
                "description": "Finds files.",
                "input_schema": { "type": "object" },
                "cache_control": cached
            }],
            "system": [{ "type": "text", "text": "Be brief.", "cache_control": cached }],
            "messages": [{
                "role": "user",
                "content": [{ "type": "text", "text": "hi", "cache_control": cached }]
            }]
        })
    );
}

#[tokio::test]
async fn a_gateway_may_take_a_bearer_token_and_have_the_version_in_its_address() {
    let server = Server::start(vec![says("ok")]).await;
    let headers = vec![("anthropic-version".to_owned(), "2026-10-21".to_owned())];
    let url = format!("{}/api/v1/", server.address());
    let endpoint = Endpoint { url, bearer: true, headers, ..endpoint(&server) };
    ask(&of_model(MODEL, endpoint, options()), prompt(vec![user("hi")])).await;
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.what, "POST /api/v1/messages");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked.headers["anthropic-version"], "2026-10-21");
    assert!(!asked.headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn nothing_empty_is_sent() {
    let bare = Prompt { messages: vec![user("hi")], ..Prompt::default() };
    let body = sent(MODEL, bare).await;
    assert_eq!((body.get("tools"), body.get("system")), (None, None));
    let blank = Assistant { text: " \n".to_owned(), ..Assistant::default() };
    let told = messages(prompt(vec![
        user("hi"),
        Arc::new(Message::Assistant(blank)),
        user(" "),
        user("go on"),
    ]));
    assert_eq!(told.await.len(), 1);
}

#[tokio::test]
async fn the_last_two_turns_of_the_user_are_where_the_cache_ends() {
    let answer = |text: &str| {
        Arc::new(Message::Assistant(Assistant { text: text.to_owned(), ..Assistant::default() }))
    };
    let mut conversation = vec![user("1"), answer("a"), user("2"), answer("b")];
    conversation.extend([user("3"), calls(&[("glob", "c1"), ("glob", "c2")])]);
    conversation.push(results(vec![result("glob", "c1", "x"), result("glob", "c2", "y")]));
    let told = messages(prompt(conversation)).await;
    let marks = told.iter().map(|turn| {
        let blocks = turn["content"].as_array().unwrap();
        let marks = blocks.iter().map(|block| u8::from(block.get("cache_control").is_some()));
        marks.collect::<Vec<_>>()
    });
    let marks: Vec<_> = marks.collect();
    assert_eq!(marks, [vec![0], vec![0], vec![0], vec![0], vec![1], vec![0, 0], vec![0, 1]]);
}

#[tokio::test]
async fn results_come_first_all_together_and_an_error_holds_text_alone() {
    let image = Media::new("image/png", b"png");
    let told = messages(prompt(vec![
        user("hi"),
        calls(&[("a", "c1"), ("b", "c2"), ("c", "c3"), ("d", "c4")]),
        results(vec![
            ToolResult { media: vec![image.clone()], ..result("a", "c1", "seen") },
            ToolResult { media: vec![image], failed: true, ..result("b", "c2", "broken") },
            ToolResult { failed: true, ..result("c", "c3", " ") },
            result("d", "c4", ""),
        ]),
    ]))
    .await;
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "cG5n" });
    let result = |id: &str, more: Value| {
        let mut result = json!({ "type": "tool_result", "tool_use_id": id });
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        result
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "source": source });
    let nothing = "It failed, and nothing is known of why.";
    assert_eq!(
        told[2]["content"],
        json!([
            result("c1", json!({ "content": [text("seen"), image] })),
            result("c2", json!({ "content": [text("broken")], "is_error": true })),
            result("c3", json!({ "content": [text(nothing)], "is_error": true })),
            result("c4", json!({})),
            { "type": "image", "source": source, "cache_control": { "type": "ephemeral" } }
        ])
    );
}

#[tokio::test]
async fn images_and_pdfs_are_shown_and_what_cannot_be_is_named() {
    let media = |kind| Part::Media(Media::new(kind, b"x"));
    let parts = vec![
        media("image/webp"),
        media("application/pdf"),
        media("audio/mpeg"),
        media("image/bmp"),
        Part::Text("what is it?".to_owned()),
    ];
    let told = messages(prompt(vec![Arc::new(Message::User(parts))])).await;
    let blocks = told[0]["content"].as_array().unwrap();
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["image", "document", "text", "text", "text"]);
    assert_eq!(blocks[1]["source"]["media_type"], "application/pdf");
    expect!["[Something of the type audio/mpeg is here, which you cannot be shown.]"]
        .assert_eq(blocks[2]["text"].as_str().unwrap());
}

#[tokio::test]
async fn names_ids_and_arguments_of_others_are_made_to_fit() {
    let odd = Call { id: "a:1".to_owned(), name: "mcp.read".to_owned(), args: json!([1]) };
    let null = Call { id: String::new(), name: "glob".to_owned(), args: Value::Null };
    let answer = Assistant {
        calls: vec![odd, null.clone(), Call { id: "call".to_owned(), ..null }],
        ..Assistant::default()
    };
    let told = messages(prompt(vec![
        user("hi"),
        Arc::new(Message::Assistant(answer)),
        results(vec![
            result("mcp.read", "a:1", "one"),
            result("glob", "", "two"),
            result("glob", "call", "three"),
        ]),
    ]))
    .await;
    let calls = told[1]["content"].as_array().unwrap();
    let valid = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    for (n, call) in calls.iter().enumerate() {
        let id = call["id"].as_str().unwrap();
        assert!(valid(id) && !id.is_empty() && valid(call["name"].as_str().unwrap()), "{call}");
        assert_eq!(told[2]["content"][n]["tool_use_id"], id);
    }
    assert_ne!(calls[1]["id"], calls[2]["id"]);
    assert_eq!(calls[0]["input"], json!({ "input": [1] }));
    assert_eq!(calls[1]["input"], json!({}));
}

#[tokio::test]
async fn a_tool_is_called_by_its_own_name_whatever_the_api_calls_it() {
    let tool = ToolDeclaration::new("mcp.files:read", "", json!({}));
    let prompt = Prompt { messages: vec![user("hi")], tools: [tool].into(), ..Prompt::default() };
    let name = sent(MODEL, prompt.clone()).await["tools"][0]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("mcp_files_read_"), "{name}");
    let stream = String::from_utf8(api::recorded("anthropic/step.sse")).unwrap();
    let server =
        Server::start(vec![Reply::stream(stream.replace("run_shell_command", &name))]).await;
    let lines = ask(&anthropic(&server, options()), prompt).await;
    assert!(lines[0].starts_with("call: mcp.files:read("), "{lines:?}");
}

#[tokio::test]
async fn a_schema_says_that_it_is_an_objects_and_has_no_alternatives_on_top() {
    let properties = json!({ "a": { "anyOf": [{ "type": "string" }, { "type": "null" }] } });
    for (parameters, expected) in [
        (json!({}), json!({ "type": "object" })),
        (Value::Null, json!({ "type": "object" })),
        (
            json!({ "properties": properties, "anyOf": [{ "required": ["a"] }] }),
            json!({ "properties": properties, "type": "object" }),
        ),
        (
            json!({ "type": "object", "properties": properties }),
            json!({ "type": "object", "properties": properties }),
        ),
    ] {
        let tools = [ToolDeclaration::new("t", "", parameters)].into();
        let prompt = Prompt { messages: vec![user("hi")], tools, ..Prompt::default() };
        assert_eq!(sent(MODEL, prompt).await["tools"][0]["input_schema"], expected);
    }
}

#[tokio::test]
async fn images_are_counted_by_the_api_and_text_is_estimated() {
    let server = Server::start(vec![Reply::error(200, r#"{"input_tokens":1234}"#)]).await;
    let model = anthropic(&server, options());
    let text = model.count(prompt(vec![user("hi")])).await;
    assert!(text < 100 && server.asked().is_empty());
    let image = || vec![Arc::new(Message::User(vec![Part::Media(Media::new("image/png", b"x"))]))];
    assert_eq!(model.count(prompt(image())).await, 1234);
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.what, "POST /v1/messages/count_tokens");
    let fields: Vec<_> = asked.body.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["model", "tools", "system", "messages"]);
    // The server has no reply left, so counting fails. The model then returns an estimate.
    assert!(model.count(prompt(image())).await > 1000);
}

#[tokio::test]
async fn a_schema_of_the_answer_is_the_format_of_the_output() {
    let format = json!({ "type": "json_schema", "schema": closed_schema() });
    let body = sent(MODEL, wanting(closed_schema())).await;
    assert_eq!(body["output_config"], json!({ "format": format }));
    let body =
        sent(MODEL, Prompt { thinking: Some("low".to_owned()), ..wanting(closed_schema()) }).await;
    assert_eq!(body["output_config"], json!({ "effort": "low", "format": format }));
    // The API has no schemas of open objects, and its older models have none at all.
    let body = sent(MODEL, wanting(json!({ "type": "object" }))).await;
    assert_eq!(body.get("output_config"), None);
    let body = sent("claude-opus-4-1", wanting(closed_schema())).await;
    assert_eq!(body.get("output_config"), None);
}

#[tokio::test]
async fn a_schema_that_is_refused_is_left_out_and_the_effort_stays() {
    let error = json!({ "type": "error", "error": { "type": "invalid_request_error",
        "message": "output_config.format.schema: Compiled grammar is too large" } });
    let server =
        Server::start(vec![Reply::error(400, error.to_string()), says("ok"), says("ok")]).await;
    let model = anthropic(&server, options());
    let prompt = Prompt { thinking: Some("low".to_owned()), ..wanting(closed_schema()) };
    for _ in 0..2 {
        let lines = ask(&model, prompt.clone()).await;
        assert_eq!(lines, ["text: ok", "finish: Stop 1/0/1/0"]);
    }
    let sent: Vec<_> =
        server.asked().into_iter().map(|it| it.body["output_config"].clone()).collect();
    assert!(sent[0]["format"].is_object());
    assert_eq!(sent[1..], [json!({ "effort": "low" }), json!({ "effort": "low" })]);
}

#[tokio::test]
async fn a_gateway_is_sent_no_schema_of_the_answer() {
    let server = Server::start(vec![says("ok")]).await;
    let endpoint = endpoint(&server);
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let model = Catalog::embedded().lookup(&format!("anthropic:{MODEL}"));
    let model = Anthropic::new(model, connect, options()).unwrap();
    ask(&model, wanting(closed_schema())).await;
    assert_eq!(server.asked()[0].body.get("output_config"), None);
}
