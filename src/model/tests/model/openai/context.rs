//! Context windows, requested from each server in its own way.

use expect_test::expect;
use futures::StreamExt as _;
use tandem_model::{Error, Model as _};
use test_support::limit::HANG;
use tokio::time::timeout;

use super::*;

/// Checks the input limit that is known while a server with these pages answers.
async fn check(pages: &[(&str, Value)], expected: u64) {
    let slow = Reply::stream(delta(json!({ "content": "Well" }))).then_hang();
    let server = Server::with_pages(vec![slow], pages).await;
    let model = model(&server, options());
    assert_eq!(model.input_limit(), None);
    let answer = model.stream(prompt(vec![user("hi")])).for_each(|_| async {});
    let known = async {
        while model.input_limit().is_none() {
            tokio::task::yield_now().await;
        }
    };
    let looked = async {
        tokio::select! {
            () = answer => {}
            () = known => {}
        }
    };
    timeout(HANG, looked).await.expect("it is not found out");
    assert_eq!(model.input_limit(), Some(expected), "{pages:?}");
}

#[tokio::test]
async fn a_local_server_says_it_before_the_first_request() {
    let pages = [("/v1/models", list(json!({ "id": MODEL, "max_model_len": 8192 })))];
    let server = Server::with_pages(Vec::new(), &pages).await;
    let model = model(&server, options());
    model.learn_window().await;
    assert_eq!(model.input_limit(), Some(8192));
}

fn list(entry: Value) -> Value {
    json!({ "object": "list", "data": [{ "id": "another", "max_model_len": 1 }, entry] })
}

#[tokio::test]
async fn every_server_says_it_in_its_own_way() {
    let models = "/v1/models";
    let bare = || (models, list(json!({ "id": MODEL, "owned_by": "somebody" })));
    check(&[(models, list(json!({ "id": MODEL, "max_model_len": 32768 })))], 32768).await;
    check(&[(models, list(json!({ "id": MODEL, "context_length": 200_000 })))], 200_000).await;
    check(&[(models, list(json!({ "id": MODEL, "context_window": 8192 })))], 8192).await;
    check(&[(models, json!([{ "id": MODEL, "context_length": 4096 }]))], 4096).await;

    // llama.cpp tells the window that it was started with. A server that does not is asked for the window that the
    // model was trained with.
    let trained = || {
        (
            models,
            json!({ "data": [{ "id": "/models/x.gguf", "meta": { "n_ctx_train": 131_072 } }] }),
        )
    };
    let props = json!({ "default_generation_settings": { "n_ctx": 16384 } });
    check(&[trained(), ("/props", props)], 16384).await;
    check(&[trained()], 131_072).await;

    // LM Studio tells its window at an address of its own, which differs between versions.
    let loaded = json!({ "models": [{ "key": MODEL, "max_context_length": 131_072,
        "loaded_instances": [{ "id": "x", "config": { "context_length": 20000 } }] }, { "key": "y" }] });
    check(&[bare(), ("/api/v1/models", loaded)], 20000).await;
    let older = json!({ "data": [{ "id": MODEL, "max_context_length": 131_072, "loaded_context_length": 9000 }] });
    check(&[bare(), ("/api/v0/models", older)], 9000).await;

    // Ollama tells the window of a running model through its own API.
    let running = json!({ "models": [{ "name": MODEL, "model": MODEL, "context_length": 4096 }] });
    check(&[bare(), ("/api/ps", running)], 4096).await;
}

#[tokio::test]
async fn where_nobody_says_it_nothing_is_known_and_nobody_waits() {
    let list = json!({ "data": [{ "id": MODEL }] });
    for pages in [vec![], vec![("/v1/models", list)], vec![("/v1/models", json!("odd"))]] {
        let server = Server::with_pages(vec![text("ok")], &pages).await;
        let model = model(&server, options());
        let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
        assert_lines(&lines, &["text: ok", STOP]);
        assert_eq!(model.input_limit(), None);
    }
}

#[tokio::test]
async fn a_local_server_is_asked_for_each_fact_once() {
    let list = json!({ "data": [{ "id": MODEL }] });
    let server = Server::with_pages(vec![text("ok"), text("ok")], &[("/v1/models", list)]).await;
    let model = model(&server, options());
    for _ in 0..2 {
        let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
        assert_lines(&lines, &["text: ok", STOP]);
        assert_eq!(
            server.pages_asked(),
            ["/v1/models", "/props", "/api/v1/models", "/api/v0/models", "/api/ps"]
        );
    }
}

#[tokio::test]
async fn what_the_file_of_models_says_counts() {
    let catalog = r#"{"models":[{"id":"openai:some/model*","inputTokens":5000}]}"#;
    let catalog = Catalog::embedded().clone().with_overrides(catalog).unwrap();
    let connect: Connect = Arc::new(|| Err(Error::NotAuthenticated(String::new())));
    let model = catalog.lookup(&format!("openai:{MODEL}"));
    assert_eq!(
        OpenAi::new(model, connect, options(), Arc::default()).unwrap().input_limit(),
        Some(5000)
    );
}

/// Sends a prompt to a server whose context window has this size in tokens.
async fn ask_with_window(tokens: u64, replies: Vec<Reply>) -> (Vec<String>, Server) {
    let list = list(json!({ "id": MODEL, "max_model_len": tokens }));
    let server = Server::with_pages(replies, &[("/v1/models", list)]).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    (lines, server)
}

#[tokio::test]
async fn a_window_smaller_than_the_instructions_is_told_before_anything_is_sent() {
    let (lines, server) = ask_with_window(8, vec![]).await;
    expect![[r#"error: Rejected("The model's context window of 8 tokens is too small: instructions and tools alone take about 12. Start the server with a larger context window (`--ctx-size` of llama.cpp, `--max-model-len` of vLLM, OLLAMA_CONTEXT_LENGTH or `inputTokens` in `models.json` for Ollama, the context length of LM Studio), or choose another model.")"#]].assert_eq(&lines.join("\n"));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_request_that_is_too_long_before_much_is_said_names_the_way_to_a_larger_window() {
    let refusal = refused(400, "the request exceeds the available context size (4096 tokens)");
    let (lines, _) = play(vec![refusal]).await;
    expect![[r#"error: Rejected("The model's context window is too small: instructions and tools alone take about 12 tokens. Start the server with a larger context window (`--ctx-size` of llama.cpp, `--max-model-len` of vLLM, OLLAMA_CONTEXT_LENGTH or `inputTokens` in `models.json` for Ollama, the context length of LM Studio), or choose another model. The server says: the request exceeds the available context size (4096 tokens)")"#]].assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn a_template_that_leaves_tools_out_is_told_before_anything_is_sent() {
    let props = json!({ "default_generation_settings": { "n_ctx": 16384 },
        "chat_template_caps": { "supports_tools": false, "supports_tool_calls": false } });
    let server = Server::with_pages(vec![], &[("/props", props)]).await;
    let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
    let said = lines.join("\n").replace(server.address(), "http://SERVER");
    expect![[r#"error: Rejected("The chat template of the model `some/model-7b` has no place for tools, so the server at http://SERVER/v1 leaves the tools out and the model can do nothing. Start the server with a template that has one (`--chat-template-file` of llama.cpp), or choose another model.")"#]].assert_eq(&said);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn an_answer_of_a_server_that_people_run_has_half_of_the_window() {
    let (lines, server) = ask_with_window(32_000, vec![text("ok")]).await;
    assert_lines(&lines, &["text: ok", STOP]);
    assert_eq!(server.asked()[0].body["max_tokens"], 16_000);
}

#[tokio::test]
async fn a_limit_that_does_not_fit_beside_the_prompt_is_left_out() {
    let refusal = refused(
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length \
         is 32000 tokens and your request has 17000 input tokens (16000 > 32000 - 17000).",
    );
    let (lines, server) = ask_with_window(32_000, vec![refusal, text("ok")]).await;
    assert_lines(&lines, &["text: ok", STOP]);
    assert_eq!(server.asked()[1].body.get("max_tokens"), None);
}

#[tokio::test]
async fn a_server_that_is_started_anew_with_a_larger_window_is_asked_again() {
    let window = |tokens: u64| json!({ "data": [{ "id": MODEL, "max_model_len": tokens }] });
    let server = Server::with_pages(vec![text("ok")], &[("/v1/models", window(8))]).await;
    let model = model(&server, options());
    let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
    assert!(lines[0].starts_with("error: Rejected("), "{lines:?}");
    server.set_page("/v1/models", window(8000));
    let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
    assert_lines(&lines, &["text: ok", STOP]);
}

#[tokio::test]
async fn the_window_of_another_model_that_alone_is_loaded_does_not_count() {
    let list = json!({ "data": [{ "id": MODEL }, { "id": "embeds" }] });
    let loaded = json!({ "models": [{ "name": "embeds", "context_length": 8 }] });
    let pages = [("/v1/models", list), ("/api/ps", loaded)];
    let server = Server::with_pages(vec![text("ok")], &pages).await;
    let model = model(&server, options());
    let (lines, _) = ask(&model, prompt(vec![user("hi")])).await;
    assert_lines(&lines, &["text: ok", STOP]);
    assert_eq!(model.input_limit(), None);
}
