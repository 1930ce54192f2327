//! Context windows, asked of each server in its own words.

use futures::StreamExt as _;
use tandem_model::Model as _;
use tokio::time::timeout;

use super::*;
use crate::agent::HANG;

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

    // llama.cpp: what it was started with, or else what the model was made for.
    let trained = || {
        (
            models,
            json!({ "data": [{ "id": "/models/x.gguf", "meta": { "n_ctx_train": 131_072 } }] }),
        )
    };
    let props = json!({ "default_generation_settings": { "n_ctx": 16384 } });
    check(&[trained(), ("/props", props)], 16384).await;
    check(&[trained()], 131_072).await;

    // LM Studio.
    let loaded = json!({ "models": [{ "key": MODEL, "max_context_length": 131_072,
        "loaded_instances": [{ "id": "x", "config": { "context_length": 20000 } }] }, { "key": "y" }] });
    check(&[bare(), ("/api/v1/models", loaded)], 20000).await;
    let older = json!({ "data": [{ "id": MODEL, "max_context_length": 131_072, "loaded_context_length": 9000 }] });
    check(&[bare(), ("/api/v0/models", older)], 9000).await;

    // Ollama, by its other API.
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
async fn what_the_file_of_models_says_counts() {
    let catalog = r#"{"models":[{"id":"openai:some/model*","inputTokens":5000}]}"#;
    let catalog = Catalog::embedded().clone().with_overrides(catalog).unwrap();
    let connect: Connect = Arc::new(|| Err(String::new()));
    let model = catalog.lookup(&format!("openai:{MODEL}"));
    assert_eq!(OpenAi::new(model, connect, options()).unwrap().input_limit(), Some(5000));
}
