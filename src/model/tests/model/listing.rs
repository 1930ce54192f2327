//! Lists of models of servers on this machine, of which nothing is trusted.

use std::time::Duration;

use serde_json::{Value, json};
use tandem_model::endpoint::Endpoint;
use tandem_model::listing::{LOCAL_LIST_TIMEOUT, ListForm, ListedModel, Lister};
use tandem_model::model_api::ModelApi;
use tandem_model::provider::Provider;
use test_support::api_server::{Reply, Server};
use tokio::time::{Instant, timeout};

/// Time that one list may take beyond its limit while the machine is busy.
const SLACK: Duration = Duration::from_secs(20);

/// Asks a server for its models, in the form of the documentation.
async fn list(provider: Provider, server: &Server) -> Option<Vec<ListedModel>> {
    let (api, url) = match provider {
        Provider::Ollama => (ModelApi::Ollama, server.address().to_owned()),
        _ => (ModelApi::OpenAi(None), format!("{}/v1", server.address())),
    };
    let endpoint = Endpoint::new(provider, url);
    let listed = Lister::default();
    let listed = listed.list(api, &endpoint, ListForm::Documented);
    timeout(LOCAL_LIST_TIMEOUT + SLACK, listed).await.expect("the limit does not hold").ok()
}

/// Checks the models that are found behind an answer; `None`: no model server is found.
async fn check(provider: Provider, reply: Reply, expected: Option<&[(&str, Option<u64>)]>) {
    // If a server lists one model, the size of the model's context window is asked for at other paths. This server has
    // no such paths.
    let server = Server::start(vec![reply]).await;
    let models = list(provider, &server).await;
    let expected = expected.map(|models| {
        let model = |(id, window): &(&str, Option<u64>)| ListedModel {
            id: (*id).to_owned(),
            window: *window,
        };
        models.iter().map(model).collect::<Vec<_>>()
    });
    assert_eq!(models, expected);
}

fn openai(data: &Value) -> Reply {
    Reply::error(200, json!({ "object": "list", "data": data }).to_string())
}

#[tokio::test]
async fn a_server_of_openais_api_lists_its_models_with_the_windows_that_it_tells() {
    let data = json!([
        { "id": "Qwen/Qwen3-8B", "object": "model", "max_model_len": 32_768 },
        { "id": "text-embedding-nomic", "object": "model" },
        { "id": "gpt-oss-20b", "object": "model" },
        { "id": "smol.gguf", "meta": { "n_ctx": 8192, "n_ctx_train": 131_072 } },
    ]);
    let expected =
        [("Qwen/Qwen3-8B", Some(32_768)), ("gpt-oss-20b", None), ("smol.gguf", Some(8192))];
    check(Provider::Vllm, openai(&data), Some(&expected)).await;
    check(Provider::LmStudio, openai(&json!([])), Some(&[])).await;
}

#[tokio::test]
async fn ollama_lists_its_models() {
    let tags = json!({ "models": [{ "name": "qwen3:8b" }, { "name": "gemma3:latest" }] });
    let expected = [("qwen3:8b", None), ("gemma3", None)];
    check(Provider::Ollama, Reply::error(200, tags.to_string()), Some(&expected)).await;
}

#[tokio::test]
async fn of_an_only_model_of_llama_cpp_the_window_is_asked_for() {
    // The list of an older llama.cpp has the window of the model alone.
    let data = json!([{ "id": "smol.gguf", "meta": { "n_ctx_train": 131_072 } }]);
    let list = json!({ "object": "list", "data": data });
    let props = json!({ "default_generation_settings": { "n_ctx": 8192 } });
    let server = Server::with_pages(Vec::new(), &[("/v1/models", list), ("/props", props)]).await;
    let expected = ListedModel { id: "smol.gguf".to_owned(), window: Some(8192) };
    assert_eq!(self::list(Provider::LlamaCpp, &server).await, Some(vec![expected]));
}

#[tokio::test]
async fn a_program_that_is_no_model_server_is_none() {
    let html = || Reply::error(200, "<!doctype html><title>My app</title>");
    for reply in [
        html(),
        html().header("content-type", "text/html"),
        Reply::error(404, "{}"),
        Reply::error(500, "{}"),
        Reply::error(200, ""),
        Reply::error(200, "null"),
        Reply::error(200, "[]"),
        Reply::error(200, r#"{"data":[{"id":"1"}]}"#),
        Reply::error(200, r#"{"object":"list","data":{"id":"x"}}"#),
        Reply::error(200, r#"{"object":"list","data":[{"name":"x"}]}"#),
        Reply::error(200, r#"{"object":"page","data":[{"id":"x"}]}"#),
        Reply::stream("data: {}\n\n"),
    ] {
        check(Provider::LlamaCpp, reply, None).await;
    }
    let json = ["{}", r#"{"models":{}}"#, r#"{"models":[{"id":"x"}]}"#];
    for reply in json.map(|json| Reply::error(200, json)).into_iter().chain([html()]) {
        check(Provider::Ollama, reply, None).await;
    }
}

#[tokio::test]
async fn names_that_could_do_harm_are_left_out() {
    let long = "x".repeat(1000);
    let data = json!([
        { "id": "evil\u{1b}[2J" }, { "id": "a b" }, { "id": "../../etc/passwd" }, { "id": "" },
        { "id": "$(reboot)" }, { "id": "line\nbreak" }, { "id": long }, { "id": 7 },
        { "id": "good:1" }, { "id": "good:2" },
    ]);
    check(Provider::LlamaCpp, openai(&data), Some(&[("good:1", None), ("good:2", None)])).await;
}

#[tokio::test]
async fn of_a_huge_list_the_beginning_is_taken() {
    let data: Vec<_> = (0..20_000).map(|n| json!({ "id": format!("m{n}") })).collect();
    let server = Server::start(vec![openai(&json!(data))]).await;
    let models = list(Provider::Vllm, &server).await.unwrap();
    assert_eq!((models.len(), models[499].id.as_str()), (500, "m499"));
}

#[tokio::test]
async fn a_body_without_an_end_is_not_read_to_its_end() {
    let begun = r#"{"object":"list","data":["#;
    // More than any list that is read, and then nothing.
    let endless = Reply::error(200, format!("{begun}{}", "{\"id\":\"x\"},".repeat(1000)));
    check(Provider::Vllm, endless.times(10_000), None).await;
    let start = Instant::now();
    check(Provider::Vllm, Reply::error(200, begun).then_hang(), None).await;
    assert!(start.elapsed() < LOCAL_LIST_TIMEOUT + SLACK);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start(vec![openai(&json!([{ "id": "x" }]))]).await;
    let target = format!("{}/v1/models", other.address());
    let reply = Reply::error(302, "").header("location", &target);
    check(Provider::LlamaCpp, reply, None).await;
    let server = Server::start(vec![
        Reply::error(307, "").header("location", "/v1/others"),
        openai(&json!([{ "id": "x" }])),
    ])
    .await;
    assert_eq!(list(Provider::LlamaCpp, &server).await, None);
    assert_eq!((server.asked().len(), other.asked().len()), (1, 0));
}

#[tokio::test]
async fn where_nothing_listens_nothing_is_found() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let endpoint = Endpoint::new(Provider::Vllm, format!("http://{address}/v1"));
    let listed =
        Lister::default().list(ModelApi::OpenAi(None), &endpoint, ListForm::Documented).await;
    assert!(listed.is_err());
}
