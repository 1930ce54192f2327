//! Requests: each field, and the ways to set how much the model thinks.

use super::*;
use tandem_content::media::Media;
use tandem_model::Part;
use tandem_model::history::CONTINUE_PROMPT;

#[tokio::test]
async fn a_request_stores_nothing_and_asks_for_encrypted_reasoning_with_summaries() {
    let server = start(vec![text("ok")]).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    assert_lines(&lines, &["text: ok", STOP]);
    let asked = server.asked().pop().unwrap();
    assert_eq!(asked.what, "POST /v1/responses");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    let mut body = asked.body;
    let key = body.as_object_mut().unwrap().shift_remove("prompt_cache_key").unwrap();
    assert!(key.as_str().unwrap().starts_with("tandem-"), "{key}");
    assert_eq!(
        body,
        json!({
            "model": "gpt-6-sol", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "instructions": "Be brief.",
            "input": [{ "type": "message", "role": "user",
                "content": [{ "type": "input_text", "text": "hi" }] }],
            "tools": [{ "type": "function", "name": "glob", "description": "Finds files.",
                "parameters": { "type": "object", "properties": {} }, "strict": false }],
            "parallel_tool_calls": true,
            "reasoning": { "summary": "auto" },
        })
    );
}

#[tokio::test]
async fn a_conversation_keeps_the_key_of_its_cache_and_another_one_has_another() {
    let key =
        async |messages| sent(MODEL, prompt(messages), options()).await["prompt_cache_key"].clone();
    let first = key(vec![user("hi")]).await;
    let said = Assistant { text: "Hello.".to_owned(), ..Assistant::default() };
    let later = vec![user("hi"), Arc::new(Message::Assistant(said)), user("and now?")];
    assert_eq!(key(later).await, first);
    assert_ne!(key(vec![user("ho")]).await, first);
}

#[tokio::test]
async fn a_level_is_the_effort_and_without_thinking_there_is_no_summary() {
    for (level, reasoning) in [
        ("HIGH", json!({ "effort": "high", "summary": "auto" })),
        ("max", json!({ "effort": "max", "summary": "auto" })),
        ("none", json!({ "effort": "none" })),
    ] {
        let set = RequestOptions { thinking: Some(level.to_owned()), ..options() };
        let body = sent(MODEL, prompt(vec![user("hi")]), set).await;
        assert_eq!(body["reasoning"], reasoning);
        let asked = Prompt { thinking: Some(level.to_owned()), ..prompt(vec![user("hi")]) };
        assert_eq!(sent(MODEL, asked, options()).await["reasoning"], reasoning);
    }
}

#[tokio::test]
async fn a_level_that_the_model_does_not_have_is_refused_here() {
    for (id, level, known) in [
        ("openai:gpt-6.1-sol", "none", "low, medium, high, xhigh, max"),
        ("openai:gpt-6-sol", "minimal", "none, low, medium, high, xhigh, max"),
        ("openai:gpt-5.4", "max", "none, low, medium, high, xhigh"),
    ] {
        let options = RequestOptions { thinking: Some(level.to_owned()), ..options() };
        let connect: Connect = Arc::new(|| Err(Error::NotAuthenticated(String::new())));
        let model = Catalog::embedded().lookup(id);
        let own = model.id.clone();
        let error = OpenAi::new(model, connect, options, Arc::default()).err().unwrap();
        let expected =
            format!("Unknown thinking level `{level}` for `{own}`. Known levels: {known}.");
        assert_eq!(error.to_string(), expected);
    }
}

/// Returns an image, a document and a sound, which no model reads.
fn media() -> Vec<Media> {
    ["image/png", "application/pdf", "audio/wav"].map(|kind| Media::new(kind, b"x")).to_vec()
}

fn shown() -> [Value; 3] {
    [
        json!({ "type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,eA==" }),
        json!({ "type": "input_file", "filename": "document.pdf",
            "file_data": "data:application/pdf;base64,eA==" }),
        json!({ "type": "input_text", "text": "[audio/wav: this model cannot read it.]" }),
    ]
}

#[tokio::test]
async fn images_and_documents_are_parts_of_a_message_or_of_an_output() {
    let parts = media().into_iter().map(Part::Media);
    let parts = [Part::Text("look".to_owned())].into_iter().chain(parts).collect();
    let calls = vec![Call { id: "c1".to_owned(), name: "glob".to_owned(), args: json!({}) }];
    let said = Assistant { calls, ..Assistant::default() };
    let seen = ToolResult { media: media(), ..result("c1", "done") };
    let messages = vec![
        Arc::new(Message::User(parts)),
        Arc::new(Message::Assistant(said)),
        Arc::new(Message::Results(vec![seen])),
    ];
    let body = sent(MODEL, prompt(messages), options()).await;
    let text = |text: &str| json!({ "type": "input_text", "text": text });
    let [image, document, sound] = shown();
    let first = json!([text("look"), image, document, sound]);
    assert_eq!(body["input"][0]["content"], first);
    assert_eq!(body["input"][1]["type"], "function_call");
    let [image, document, sound] = shown();
    let output = json!([text("done"), image, document, sound]);
    assert_eq!(
        body["input"][2],
        json!({ "type": "function_call_output", "call_id": "c1", "output": output })
    );
}

#[tokio::test]
async fn a_conversation_that_ends_with_the_model_is_asked_to_go_on() {
    let said = Assistant { text: "Hello.".to_owned(), ..Assistant::default() };
    let body =
        sent(MODEL, prompt(vec![user("hi"), Arc::new(Message::Assistant(said))]), options()).await;
    let expected = json!({ "type": "message", "role": "assistant", "content": "Hello." });
    assert_eq!(body["input"][1], expected);
    assert_eq!(body["input"][2]["content"][0]["text"], CONTINUE_PROMPT);
}

#[tokio::test]
async fn a_schema_of_the_answer_is_the_format_of_the_text_beside_tools() {
    let body = sent(MODEL, wanting(closed_schema()), options()).await;
    let format = |strict, schema| json!({ "type": "json_schema", "name": "answer", "strict": strict, "schema": schema });
    assert_eq!(body["text"], json!({ "format": format(true, closed_schema()) }));
    assert_eq!(body["tools"][0]["name"], "glob");
    // The API refuses a strict schema of an open object.
    let open = json!({ "type": "object" });
    let body = sent(MODEL, wanting(open.clone()), options()).await;
    assert_eq!(body["text"]["format"], format(false, open));
}

#[tokio::test]
async fn models_that_are_not_known_to_take_a_schema_are_sent_none() {
    let body = sent("openai:some-model", wanting(closed_schema()), options()).await;
    assert_eq!(body.get("text"), None);
}

#[tokio::test]
async fn a_gateway_is_sent_no_schema_of_the_answer() {
    let server = start(vec![text("ok")]).await;
    let endpoint = endpoint(&server);
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let model = Catalog::embedded().lookup(MODEL);
    let model = OpenAi::new(model, connect, options(), Arc::default()).unwrap();
    ask(&model, wanting(closed_schema())).await;
    assert_eq!(server.asked()[0].body.get("text"), None);
}
