//! Choice between the two APIs: by the id, by an earlier answer, or by the catalog.

use super::*;

const CHAT: &str = "POST /v1/chat/completions";
const RESPONSES: &str = "POST /v1/responses";

/// Returns an answer of chat completions.
fn chat_text() -> Reply {
    let said = json!({ "choices": [{ "delta": { "content": "ok" }, "finish_reason": "stop" }] });
    Reply::stream(event(&said) + "data: [DONE]\n\n")
}

fn nowhere(message: &str) -> Reply {
    refused(404, message, "", "")
}

/// Sends two prompts to a model whose server has these replies. Checks the first text, and the addresses of the
/// requests.
async fn check(id: &str, replies: Vec<Reply>, first: &str, asked: &[&str]) {
    let server = lenient(replies).await;
    let learned = Arc::default();
    for time in 0..2 {
        // Each pass stands for another session of the same process, which shares what was learned of the server.
        let model = learning(id, endpoint(&server), options(), &learned);
        let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
        if time == 0 {
            assert!(lines[0].starts_with(first), "{id}: {lines:?}");
        }
    }
    let whats: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(whats, asked, "{id}");
}

#[tokio::test]
async fn the_catalog_says_where_to_begin_and_unknown_ids_begin_at_chat_completions() {
    for id in ["openai:gpt-5.4", "openai:gpt-5.6-sol", "openai:gpt-6.1-sol", "openai:gpt-6.9-nova"]
    {
        check(id, vec![text("ok"), text("ok")], "text: ok", &[RESPONSES, RESPONSES]).await;
    }
    for id in ["openai:gpt-5.1", "openai:some/model-7b", "openai:gpt-oss-120b"] {
        check(id, vec![chat_text(), chat_text()], "text: ok", &[CHAT, CHAT]).await;
    }
}

#[tokio::test]
async fn a_404_of_any_text_or_a_400_that_names_the_other_api_is_tried_there_once_and_remembered() {
    let named = "Function tools with reasoning_effort are not supported for x in \
         /v1/chat/completions. Please use /v1/responses instead.";
    for refusal in [
        nowhere(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
        ),
        nowhere(""),
        refused(400, named, "reasoning_effort", ""),
    ] {
        let replies = vec![refusal, text("ok"), text("ok")];
        check("openai:new", replies, "text: ok", &[CHAT, RESPONSES, RESPONSES]).await;
    }
}

#[tokio::test]
async fn a_server_without_the_responses_api_is_asked_for_chat_completions() {
    let named = "gpt-6-sol is only supported in v1/chat/completions here";
    for refusal in [
        nowhere("File Not Found"),
        Reply::error(405, "Method Not Allowed"),
        Reply::error(501, "{}"),
        refused(400, named, "", ""),
    ] {
        let replies = vec![refusal, chat_text(), chat_text()];
        check(MODEL, replies, "text: ok", &[RESPONSES, CHAT, CHAT]).await;
    }
}

/// Sends `times` prompts to a model whose server has these replies, and checks the addresses of the requests.
async fn check_requests(id: &str, times: usize, replies: Vec<Reply>, asked: &[&str]) {
    let server = lenient(replies).await;
    let model = of_model(id, endpoint(&server), options());
    for _ in 0..times {
        let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
        assert_eq!(lines[0], "text: ok", "{id}");
    }
    let whats: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(whats, asked, "{id}");
}

#[tokio::test]
async fn an_api_that_has_answered_is_asked_first_again_after_one_404_and_not_after_two() {
    let replies = vec![chat_text(), nowhere(""), text("ok"), chat_text()];
    check_requests("openai:new", 3, replies, &[CHAT, CHAT, RESPONSES, CHAT]).await;
    let replies = vec![text("ok"), Reply::error(501, "{}"), chat_text(), text("ok")];
    check_requests(MODEL, 3, replies, &[RESPONSES, RESPONSES, CHAT, RESPONSES]).await;
    let replies = vec![chat_text(), nowhere(""), text("ok"), nowhere(""), text("ok"), text("ok")];
    let asked = [CHAT, CHAT, RESPONSES, CHAT, RESPONSES, RESPONSES];
    check_requests("openai:new", 4, replies, &asked).await;
}

#[tokio::test]
async fn a_model_that_is_nowhere_is_told_as_the_first_api_tells_it_and_nothing_is_remembered() {
    let replies = || {
        let other = || nowhere("There is nothing here.");
        vec![nowhere("The model `x` does not exist"), other(), chat_text()]
    };
    let first = "error: Rejected(\"Unknown model `new`, or not available with this key. The server \
         says: The model `x` does not exist";
    check("openai:new", replies(), first, &[CHAT, RESPONSES, CHAT]).await;
}

#[tokio::test]
async fn another_failure_of_the_other_api_is_the_one_to_tell() {
    let replies = vec![nowhere(""), refused(401, "Wrong key.", "", "invalid_api_key"), chat_text()];
    check("openai:new", replies, "error: NotAuthenticated(", &[CHAT, RESPONSES, CHAT]).await;
}

#[tokio::test]
async fn an_id_that_names_the_api_gets_no_other() {
    let refusal = || nowhere("The model does not exist");
    for (id, path) in
        [("openai-chat:gpt-6-sol", CHAT), ("openai-responses:some/model-7b", RESPONSES)]
    {
        let ok = if path == CHAT { chat_text() } else { text("ok") };
        let said = "error: Rejected(\"Unknown model `";
        check(id, vec![refusal(), ok], said, &[path, path]).await;
        let connect: Connect = Arc::new(|| Err(Error::NotAuthenticated(String::new())));
        let model = Catalog::embedded().lookup(id);
        let model = OpenAi::new(model, connect, options(), Arc::default()).unwrap();
        assert_eq!(tandem_model::Model::id(&model), id, "a loaded session asks the same API");
    }
}

#[tokio::test]
async fn a_model_of_the_file_of_models_begins_where_the_file_says() {
    let rows = r#"{"models": [{"id": "openai:some/*", "wire": "responses", "inputTokens": 65536},
        {"id": "openai:gpt-6-sol", "wire": "chat"}]}"#;
    let catalog = Catalog::embedded().clone().with_overrides(rows).unwrap();
    for (id, reply, path) in
        [("openai:some/model-7b", text("ok"), RESPONSES), (MODEL, chat_text(), CHAT)]
    {
        let server = lenient(vec![reply]).await;
        let endpoint = endpoint(&server);
        let connect: Connect = Arc::new(move || Ok(endpoint.clone()));
        let model = OpenAi::new(catalog.lookup(id), connect, options(), Arc::default()).unwrap();
        ask(&model, prompt(vec![user("hi")])).await;
        let asked = server.asked().remove(0);
        assert_eq!(asked.what, path);
        let fields = ["max_output_tokens", "max_tokens", "max_completion_tokens"];
        let is_limited = fields.iter().any(|field| asked.body.get(*field).is_some());
        assert_eq!(is_limited, id != MODEL, "only OpenAI's own models have a limit of their own");
    }
}

#[tokio::test]
async fn the_models_of_this_api_take_no_tools_in_chat_completions() {
    let server = start(vec![text("ok")]).await;
    let (lines, _) =
        ask(&of_model("openai:unheard-of", endpoint(&server), options()), prompt(vec![user("hi")]))
            .await;
    assert_lines(&lines, &["text: ok", STOP]);
    let whats: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(whats, [CHAT, RESPONSES]);
}

#[tokio::test]
async fn an_answer_that_has_begun_is_of_the_api_that_has_the_model() {
    let said = items(&[message("msg_1", "Well, ", "final_answer")]);
    let lost = event(&json!({ "type": "error", "error": { "code": "not_found", "message": "x" } }));
    let server = lenient(vec![Reply::stream(said + &lost), chat_text()]).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    assert!(lines[1].starts_with("error: Rejected("), "{lines:?}");
    assert_eq!(server.asked().len(), 1);
}
