//! Requests: calls, results and declarations.

use serde_json::json;
use tandem_content::media::Media;
use tandem_model::{Assistant, Call, ToolResult};

use super::*;

/// Returns the bodies of all requests for an answer.
fn bodies(server: &Server) -> Vec<Value> {
    server.asked().into_iter().map(|asked| asked.body).collect()
}

#[tokio::test]
async fn a_request_holds_what_the_api_wants() {
    let (lines, server) = play(vec![Reply::text("ok")], options()).await;
    assert_lines(&lines, &["text: ok", "finish: Stop 0/0/0/0"]);
    let asked = server.asked().remove(0);
    assert_eq!(asked.what, format!("POST /v1beta/models/{MODEL}:streamGenerateContent?alt=sse"));
    let agent = concat!("tandem/", env!("CARGO_PKG_VERSION"));
    assert_eq!(asked.headers["content-type"], "application/json");
    assert_eq!(asked.headers["user-agent"], agent);
    assert_eq!(asked.headers["x-goog-api-client"], agent);
    assert_eq!(
        asked.body,
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{
                "name": "glob",
                "description": "Finds files.",
                "parametersJsonSchema": {"type": "object"},
            }]}],
            "generationConfig": {"thinkingConfig": {"includeThoughts": true}},
        })
    );
}

#[tokio::test]
async fn what_is_not_there_is_not_sent() {
    let server = Server::start(vec![Reply::text("ok")]).await;
    let gemini = of_model("gemma-4", endpoint(&server), options());
    let prompt = Prompt { messages: vec![user("hi")], ..Prompt::default() };
    assert_eq!(gemini.stream(prompt).count().await, 2);
    assert_eq!(
        bodies(&server),
        [json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})]
    );
}

#[tokio::test]
async fn what_the_user_set_is_sent() {
    let server = Server::start(vec![Reply::text("ok")]).await;
    let options = RequestOptions { thinking: Some("high".to_owned()), ..options() };
    ask(&gemini(&server, options), prompt(vec![user("hi")])).await;
    assert_eq!(
        bodies(&server)[0]["generationConfig"],
        json!({ "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"} })
    );
}

#[test]
fn a_thinking_level_that_the_model_does_not_know_is_refused() {
    let options =
        RequestOptions { thinking: Some("minimal".to_owned()), ..RequestOptions::default() };
    let connect: Connect = Arc::new(|| Err(Error::NotAuthenticated("unused".to_owned())));
    let model = Catalog::embedded().lookup(MODEL);
    let error = Gemini::new(model, connect, options).err().unwrap();
    let why =
        "Unknown thinking level `minimal` for `gemini-3.8-flash`. Known levels: LOW, MEDIUM, HIGH.";
    assert_eq!(error, Error::Rejected(why.to_owned()));
}

#[tokio::test]
async fn any_model_id_is_one_segment_of_the_address() {
    for (id, sent) in [
        ("models/gemini-9", "gemini-9"),
        ("../x?y=1#z", "..%2Fx%3Fy%3D1%23z"),
        ("my model", "my%20model"),
    ] {
        let server = Server::start(vec![Reply::text("ok")]).await;
        let gemini = of_model(id, endpoint(&server), options());
        assert_eq!(gemini.id(), id);
        assert_eq!(gemini.stream(prompt(vec![user("hi")])).count().await, 2);
        let asked = server.asked().remove(0).what;
        assert_eq!(asked, format!("POST /v1beta/models/{sent}:streamGenerateContent?alt=sse"));
    }
}

/// Returns the answer that a session makes of a stream, with its calls and native parts.
async fn answer(gemini: &Gemini, messages: &[Arc<Message>]) -> (Arc<Message>, Vec<Call>) {
    let mut answer = Assistant::default();
    let mut chunks = gemini.stream(prompt(messages.to_vec()));
    while let Some(chunk) = chunks.next().await {
        match chunk.unwrap() {
            Chunk::Text(text) => answer.text.push_str(&text),
            Chunk::Call(call) => answer.calls.push(call),
            Chunk::Finish(finish) => answer.native = finish.native,
            Chunk::Thought(_) => {}
            Chunk::Retry(retry) => panic!("{retry}"),
        }
    }
    let calls = answer.calls.clone();
    (Arc::new(Message::Assistant(answer)), calls)
}

fn results(calls: Vec<Call>) -> Arc<Message> {
    let result = |call: Call| ToolResult {
        text: format!("of {}", call.name),
        call: call.id,
        name: call.name,
        failed: false,
        media: Vec::new(),
    };
    Arc::new(Message::Results(calls.into_iter().map(result).collect()))
}

#[tokio::test]
async fn a_turn_of_several_steps_echoes_every_part() {
    let replies = ["parallel-calls", "step", "text-signed", "text"].map(recorded);
    let server = Server::start(replies.into()).await;
    let gemini = gemini(&server, options());
    let mut messages = vec![user("look")];
    for _ in 0..2 {
        let (said, calls) = answer(&gemini, &messages).await;
        messages.extend([said, results(calls)]);
    }
    let (said, _) = answer(&gemini, &messages).await;
    messages.extend([said, user("thanks")]);
    answer(&gemini, &messages).await;

    let bodies = bodies(&server);
    let sent = contents(&bodies[3]);
    let roles: Vec<_> = sent.iter().map(|content| content["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "model", "user", "model", "user", "model", "user"]);
    for (at, body) in bodies.iter().enumerate() {
        let before = contents(body);
        assert_eq!(before.len(), 2 * at + 1);
        // A message that was sent once is sent unchanged again: otherwise the provider's cache would be of no use.
        assert_eq!(before, &sent[..before.len()]);
    }
    for (native, name) in [(1, "parallel-calls"), (3, "step"), (5, "text-signed")] {
        let stored = match &*messages[native] {
            Message::Assistant(answer) => answer.native.clone().unwrap().parts,
            other => panic!("{other:?}"),
        };
        assert_eq!(sent[native]["parts"], json!(stored), "{name}");
    }
    let response = |id: Value, name: &str| {
        let mut response = json!({"name": name, "response": {"output": format!("of {name}")}});
        if !id.is_null() {
            response["id"] = id;
        }
        json!({ "functionResponse": response })
    };
    let first = ["8f2kq1", "8f2kq2", "8f2kq3"].map(|id| json!(id));
    let [a, b, c] = first;
    let expected = json!([response(a, "read_file"), response(b, "read_file"), response(c, "glob")]);
    assert_eq!(sent[2]["parts"], expected);
    assert_eq!(sent[4]["parts"], json!([response(Value::Null, "run_shell_command")]));
}

#[tokio::test]
async fn refused_signatures_are_replaced_once() {
    let corrupted = r#"{"error":{"code":400,"message":"Corrupted thought signature."}}"#;
    let replies = vec![
        recorded("step"),
        Reply::error(400, corrupted),
        recorded("step"),
        Reply::text("ok"),
        Reply::error(400, corrupted),
        Reply::error(400, corrupted),
    ];
    let server = Server::start(replies).await;
    let gemini = gemini(&server, options());
    let (said, calls) = answer(&gemini, &[user("go")]).await;
    let mut messages = vec![user("go"), said, results(calls)];
    let lines = ask(&gemini, prompt(messages.clone())).await;
    assert_eq!(lines[0], "retry: signatures refused, 2/2");
    assert_eq!(lines[2], "finish: Stop 420/0/15/10");

    // The refused signatures are not sent again. A signature from a later answer was not refused, and is sent.
    let fresh = Native {
        backend: "gemini".to_owned(),
        model: MODEL.to_owned(),
        parts: vec![json!({"text": "so", "thoughtSignature": "RlJFU0g="})],
    };
    let fresh = Assistant { text: "so".to_owned(), calls: Vec::new(), native: Some(fresh) };
    messages.extend([Arc::new(Message::Assistant(fresh)), user("on")]);
    let lines = ask(&gemini, prompt(messages.clone())).await;
    assert_lines(&lines, &["text: ok", "finish: Stop 0/0/0/0"]);
    let bodies = bodies(&server);
    let signature =
        |body: &Value, at: usize| contents(body)[at]["parts"][0]["thoughtSignature"].clone();
    let dummy = "skip_thought_signature_validator";
    assert_eq!(signature(&bodies[1], 1), "U1RFUDI=");
    assert_eq!(signature(&bodies[2], 1), dummy);
    assert_eq!(
        (signature(&bodies[3], 1), signature(&bodies[3], 3)),
        (json!(dummy), json!("RlJFU0g="))
    );

    let lines = ask(&gemini, prompt(messages)).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("error: Rejected(\"The API does not accept the signatures"));
}

#[tokio::test]
async fn tokens_are_counted_by_the_api_only_where_there_are_media() {
    let server =
        Server::start(vec![Reply::error(200, r#"{"totalTokens":1290}"#), Reply::error(500, "no")])
            .await;
    let gemini = gemini(&server, options());
    let text = gemini.count(prompt(vec![user("abcdefgh")])).await;
    assert!(server.asked().is_empty());
    let image = Part::Media(Media::new("image/png", b"x"));
    let messages = vec![Arc::new(Message::User(vec![image]))];
    let rest = text - 2;
    assert_eq!(gemini.count(prompt(messages.clone())).await, 1290 + rest);
    let asked = server.asked().remove(0);
    assert_eq!(asked.what, format!("POST /v1beta/models/{MODEL}:countTokens"));
    assert_eq!(contents(&asked.body)[0]["parts"][0]["inlineData"]["mimeType"], "image/png");
    assert_eq!(gemini.count(prompt(messages)).await, 3000 + rest, "estimated if that fails");
    assert_eq!(gemini.input_limit(), Some(1_048_576));
}

#[tokio::test]
async fn a_schema_of_the_answer_goes_beside_tools_to_models_that_take_both() {
    for (id, field) in [(MODEL, Some(closed_schema())), ("gemini-2.5-pro", None)] {
        let server = Server::start(vec![Reply::text("ok")]).await;
        ask(&of_model(id, endpoint(&server), options()), wanting(closed_schema())).await;
        let body = server.asked().pop().unwrap().body;
        let config = &body["generationConfig"];
        assert_eq!(config.get("responseJsonSchema"), field.as_ref(), "{id}");
        assert_eq!(config.get("responseMimeType").is_some(), field.is_some(), "{id}");
        assert!(body["tools"][0]["functionDeclarations"][0].is_object());
    }
}

#[tokio::test]
async fn a_schema_that_is_refused_beside_tools_is_left_out() {
    let message = "Function calling with a response mime type: 'application/json' is unsupported";
    let error = serde_json::json!({ "error": { "code": 400, "message": message, "status": "INVALID_ARGUMENT" } });
    let replies = vec![Reply::error(400, error.to_string()), Reply::text("ok"), Reply::text("ok")];
    let server = Server::start(replies).await;
    let model = gemini(&server, options());
    for _ in 0..2 {
        let lines = ask(&model, wanting(closed_schema())).await;
        assert_lines(&lines, &["text: ok", "finish: Stop 0/0/0/0"]);
    }
    let sent = server.asked().into_iter().map(|asked| asked.body["generationConfig"].clone());
    let sent: Vec<_> = sent.map(|config| config.get("responseJsonSchema").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[tokio::test]
async fn a_gateway_is_sent_no_schema_of_the_answer() {
    let server = Server::start(vec![Reply::text("ok")]).await;
    let endpoint = endpoint(&server);
    let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
    let model = Gemini::new(Catalog::embedded().lookup(MODEL), connect, options()).unwrap();
    ask(&model, wanting(closed_schema())).await;
    let config = &server.asked()[0].body["generationConfig"];
    assert_eq!(config.get("responseJsonSchema"), None);
}
