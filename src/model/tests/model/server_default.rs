//! A model that its server chooses.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use serde_json::{Value, json};
use tandem_model::endpoint::Endpoint;
use tandem_model::lazy::Lazy;
use tandem_model::model_api::ModelApi;
use tandem_model::provider::Provider;
use tandem_model::server_default::ServerDefault;
use tandem_model::{Error, Model, Secret, ServerModel};
use test_support::api_server::{Reply, Server};

/// Returns the model of a server. Opening one fails, and notes the id.
fn model(url: &str, usual: Option<&str>) -> (ServerDefault, Arc<Mutex<Vec<String>>>) {
    let endpoint = Endpoint::new(Provider::OpenAi, url.to_owned());
    let connect = Arc::new(move || Ok(endpoint.clone()));
    let opened = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&opened);
    let open = move |id: &str| {
        noted.lock().unwrap().push(id.to_owned());
        Err(Error::Rejected("opened".to_owned()))
    };
    let usual = usual.map(str::to_owned);
    let api = ModelApi::OpenAi(None);
    (ServerDefault::new(Provider::OpenAi, api, connect, usual, Box::new(open)), opened)
}

/// Returns the model that a server with this list chooses.
async fn chosen(data: Value, usual: Option<&str>) -> Result<ServerModel, Error> {
    let list = json!({ "data": data }).to_string();
    let server = Server::start(vec![Reply::error(200, list)]).await;
    let (model, _) = model(&format!("{}/v1", server.address()), usual);
    assert_eq!(server.asked().len(), 0, "it is asked when it is needed");
    let found = model.server_model().await?.unwrap();
    assert_eq!(found.address, server.address());
    Ok(found)
}

#[tokio::test]
async fn the_first_model_that_can_chat_is_chosen() {
    let data = json!([{ "id": "nomic-embed-text" }, { "id": "smol" }, { "id": "large" }]);
    let found = chosen(data.clone(), None).await.unwrap();
    assert_eq!((found.id.as_str(), found.is_first), ("openai:smol", true));
    let found = chosen(data, Some("gpt-6.1-sol")).await.unwrap();
    assert_eq!((found.id.as_str(), found.is_first), ("openai:smol", true));
}

#[tokio::test]
async fn the_usual_model_is_chosen_if_the_server_has_it() {
    let data = json!([{ "id": "a" }, { "id": "gpt-6.1-sol" }]);
    let found = chosen(data, Some("gpt-6.1-sol")).await.unwrap();
    assert_eq!((found.id.as_str(), found.is_first), ("openai:gpt-6.1-sol", false));
}

#[tokio::test]
async fn a_server_without_models_is_an_error_that_says_what_to_do() {
    let error = chosen(json!([]), None).await.unwrap_err().to_string();
    assert!(error.contains("lists no model that can chat. Load a model there"), "{error}");
}

#[tokio::test]
async fn a_server_of_this_machine_that_does_not_run_is_to_be_started() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let (model, _) = model(&url, Some("gpt-6.1-sol"));
    let error = model.server_model().await.unwrap_err();
    let expected = format!("Nothing answers at {url}. Start the server, or correct the address.");
    assert_eq!(error, Error::Unavailable(expected));
}

#[tokio::test]
async fn a_server_that_is_still_loading_its_model_is_waited_for() {
    let loading = json!({ "error": { "code": 503, "message": "Loading model" } }).to_string();
    let list = json!({ "data": [{ "id": "smol" }] }).to_string();
    let replies = vec![Reply::error(503, loading), Reply::error(200, list)];
    let server = Server::start(replies).await;
    let (model, _) = model(&format!("{}/v1", server.address()), Some("gpt-6.1-sol"));
    let found = model.server_model().await.unwrap().unwrap();
    assert_eq!(found.id, "openai:smol");
}

#[tokio::test]
async fn a_server_that_answers_with_a_fault_is_not_said_to_be_absent() {
    let fault = json!({ "error": { "message": "no memory left" } }).to_string();
    let reply = Reply::error(500, fault).header("x-should-retry", "false");
    let server = Server::start(vec![reply]).await;
    let (model, _) = model(&format!("{}/v1", server.address()), None);
    let error = model.server_model().await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable(why) if why.contains("no memory left")), "{error}");
}

#[tokio::test]
async fn a_model_that_is_built_late_is_prepared_before_its_server_is_asked() {
    let server = Server::start(vec![Reply::error(200, r#"{"data":[{"id":"smol"}]}"#)]).await;
    let url = format!("{}/v1", server.address());
    let key = Arc::<Mutex<Option<Secret>>>::default();
    let (looked_up, found) = (Arc::clone(&key), Arc::clone(&key));
    let connect = Arc::new(move || {
        let key = looked_up.lock().unwrap().clone();
        Ok(Endpoint { key, bearer: true, ..Endpoint::new(Provider::OpenAi, url.clone()) })
    });
    let make = move || -> Result<Arc<dyn Model>, Error> {
        let (provider, api) = (Provider::OpenAi, ModelApi::OpenAi(None));
        let open = Box::new(|_: &str| Err(Error::Rejected("opened".to_owned())));
        Ok(Arc::new(ServerDefault::new(provider, api, connect.clone(), None, open)))
    };
    let lazy = Lazy::new(|| Ok(()), make).prepared(move || {
        let found = Arc::clone(&found);
        async move { *found.lock().unwrap() = Some(Secret::new("of-the-shell")) }.boxed()
    });
    lazy.server_model().await.unwrap();
    assert_eq!(server.asked()[0].headers["authorization"], "Bearer of-the-shell");
}

#[tokio::test]
async fn a_prompt_is_sent_to_the_chosen_model() {
    use futures::StreamExt as _;
    let list = json!({ "data": [{ "id": "smol" }] }).to_string();
    let server = Server::start(vec![Reply::error(200, list)]).await;
    let (model, opened) = model(&format!("{}/v1", server.address()), None);
    assert_eq!(model.id(), "openai:");
    assert!(model.ready().is_ok());
    let first = model.stream(tandem_model::Prompt::default()).next().await.unwrap();
    assert_eq!(first, Err(Error::Rejected("opened".to_owned())));
    assert_eq!(*opened.lock().unwrap(), ["openai:smol"]);
}
