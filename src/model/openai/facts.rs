//! Facts on a server's models. No catalog can have the models of servers that people run themselves.

use std::borrow::Cow;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::Error;
use crate::endpoint::Endpoint;
use crate::http::{self, Http};
use crate::listing::ListForm;
use crate::provider::Provider;
use crate::queries::{ListedModel, MAX_BODY, MAX_LIST_BODY, ModelList};
use crate::retry::RequestFailure;

/// Header for a key that is not a bearer token.
pub(super) const KEY_HEADER: &str = "api-key";

/// Timeout of all requests together.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Facts on a model from its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Base URL of the server that told these facts; empty if no server has answered.
    pub(super) url: String,
    /// Size of the context window in tokens, if the server reports it.
    pub(super) window: Option<u64>,
    /// `true` if the server reports that the model's template leaves tools out. llama.cpp then drops tools without
    /// an error.
    pub(super) drops_tools: bool,
}

/// Asks the server for its facts on a model.
pub(super) async fn find(http: &Http, endpoint: &Endpoint, model: &str) -> Facts {
    let mut facts = Facts::default();
    // A timeout is no error: the facts that were found before it are used.
    let _ = timeout(TOTAL_TIMEOUT, ask(http, endpoint, model, &mut facts)).await;
    facts
}

async fn ask(http: &Http, endpoint: &Endpoint, model: &str, facts: &mut Facts) {
    // A server that does not answer yet, or is still loading the model, is asked again before a later request.
    let (listing, path) = model_list(endpoint);
    let Some(list) = get(http, &listing, path).await else { return };
    facts.url.clone_from(&endpoint.url);
    let listed = entry_or_only(&list, model);
    let promised = listed.and_then(model_window);
    let known = listed
        .and_then(offered_window)
        .or(promised.filter(|_| !http::is_self_hosted(&endpoint.url)));
    if known.is_some() || !http::is_self_hosted(&endpoint.url) {
        facts.window = known;
        return;
    }
    facts.window = promised;
    let url = endpoint.url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
    let root = Endpoint { url, ..endpoint.clone() };
    // llama.cpp, LM Studio and Ollama tell their window at other paths.
    if let Some(props) = get(http, &root, "/props").await {
        facts.drops_tools = props["chat_template_caps"]["supports_tools"] == false;
        if let Some(tokens) = number(&props["default_generation_settings"], "n_ctx") {
            facts.window = Some(tokens);
            return;
        }
    }
    for path in ["/api/v1/models", "/api/v0/models", "/api/ps"] {
        let list = get(http, &root, path).await;
        if let Some(tokens) = list.as_ref().and_then(|list| loaded(entry(list, model)?)) {
            facts.window = Some(tokens);
            return;
        }
    }
}

const MODEL_LIST: ModelList = ModelList {
    provider: Provider::OpenAi,
    timeout: TOTAL_TIMEOUT,
    classify: |report, info| report.classify(info),
    max_body: MAX_BODY,
    read: ids,
};

/// List of models with the windows that it has.
const WINDOW_LIST: ModelList<ListedModel> = ModelList {
    provider: Provider::OpenAi,
    timeout: TOTAL_TIMEOUT,
    classify: |report, info| report.classify(info),
    max_body: MAX_LIST_BODY,
    read: listed,
};

/// List of models in the form that the API's documentation has.
const DOCUMENTED_LIST: ModelList<ListedModel> = ModelList {
    read: |list| {
        let is_list = list.get("object")? == "list" && list.get("data")?.is_array();
        let models = listed(list).filter(|_| is_list)?;
        // Some other API may list its own things under this name.
        (!models.is_empty() || list["data"] == json!([])).then_some(models)
    },
    ..WINDOW_LIST
};

/// Description of a key, as `OpenRouter` gives it.
const KEY_CHECK: ModelList =
    ModelList { read: |key| key.get("data").map(|_| Vec::new()), ..MODEL_LIST };

/// Fetches the ids of the endpoint's models.
pub(super) async fn models(http: &Http, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
    // Azure lists the models that can be deployed. Requests name a deployment, and Azure does not list deployments.
    if endpoint.provider == Provider::Azure {
        return Ok(Vec::new());
    }
    fetch(&MODEL_LIST, http, endpoint).await.map_err(|failure| failure.error)
}

/// Fetches the endpoint's models, with the windows that the list has.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
    form: ListForm,
) -> Result<Vec<ListedModel>, RequestFailure> {
    // Azure lists models that can be deployed, and not the deployments, whose names the ids are.
    if endpoint.provider == Provider::Azure {
        return Ok(Vec::new());
    }
    match form {
        ListForm::Any => fetch(&WINDOW_LIST, http, endpoint).await,
        ListForm::Documented => fetch(&DOCUMENTED_LIST, http, endpoint).await,
    }
}

async fn fetch<T>(
    list: &ModelList<T>,
    http: &Http,
    endpoint: &Endpoint,
) -> Result<Vec<T>, RequestFailure> {
    let (endpoint, path) = model_list(endpoint);
    let request = endpoint.request(Method::GET, path, KEY_HEADER);
    list.try_fetch(http, &endpoint, request).await
}

/// Checks that the endpoint accepts its key.
pub(super) async fn check(http: &Http, endpoint: &Endpoint) -> Result<(), Error> {
    if endpoint.provider != Provider::OpenRouter {
        return models(http, endpoint).await.map(drop);
    }
    // OpenRouter lists its models for everybody.
    let request = endpoint.request(Method::GET, "/key", KEY_HEADER);
    KEY_CHECK.fetch(http, endpoint, request).await.map(drop)
}

/// Returns the place of the list of models: an endpoint, and a path after its base URL.
fn model_list(endpoint: &Endpoint) -> (Cow<'_, Endpoint>, &'static str) {
    // GitHub lists its models beside the API.
    match endpoint.url.strip_suffix("/inference") {
        Some(root) if endpoint.provider == Provider::GitHub => {
            let root = Endpoint { url: root.to_owned(), ..endpoint.clone() };
            (Cow::Owned(root), "/catalog/models")
        }
        _ => (Cow::Borrowed(endpoint), "/models"),
    }
}

/// Fetches the JSON at a path. Returns null if the server has none there, and `None` if the server fails or does not
/// answer.
async fn get(http: &Http, endpoint: &Endpoint, path: &str) -> Option<Value> {
    let request = endpoint.request(Method::GET, path, KEY_HEADER).ok()?;
    let response = http.send(endpoint, request, TOTAL_TIMEOUT).await.ok()?;
    let status = response.status();
    if status.is_server_error() {
        return None;
    }
    let body = http::body(response, MAX_BODY, TOTAL_TIMEOUT).await;
    let json = status.is_success().then(|| serde_json::from_slice(&body).ok()).flatten();
    Some(json.unwrap_or_default())
}

/// Returns the list of models in a response, whatever object wraps it.
fn items(list: &Value) -> Option<&Vec<Value>> {
    list.get("data").or(list.get("models")).unwrap_or(list).as_array()
}

fn ids(list: &Value) -> Option<Vec<String>> {
    let id = |item: &Value| item.get("id")?.as_str().map(str::to_owned);
    Some(items(list)?.iter().filter_map(id).collect())
}

fn listed(list: &Value) -> Option<Vec<ListedModel>> {
    let model = |item: &Value| {
        let id = item.get("id")?.as_str()?.to_owned();
        // The list of llama.cpp has the window with which it runs the model.
        let running = || number(item.get("meta")?, "n_ctx");
        Some(ListedModel { id, window: offered_window(item).or_else(running) })
    };
    Some(items(list)?.iter().filter_map(model).collect())
}

/// Returns the model's entry in a list.
fn entry<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let is_it = |item: &&Value| {
        ["id", "key", "name", "model"].iter().any(|field| item.get(field) == Some(&model.into()))
    };
    items(list)?.iter().find(is_it)
}

/// Returns the model's entry among all models of a server. If the server has only one model, it uses that model for
/// any id.
fn entry_or_only<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    entry(list, model).or(match items(list)?.as_slice() {
        [only] => Some(only),
        _ => None,
    })
}

/// Returns the context window that the server offers (vLLM, `OpenRouter`, Groq, GitHub).
fn offered_window(entry: &Value) -> Option<u64> {
    let fields = ["max_model_len", "loaded_context_length", "context_length", "context_window"];
    let own = fields.iter().find_map(|field| number(entry, field));
    own.or_else(|| number(entry.get("limits")?, "max_input_tokens"))
}

/// Returns the context window of the model, which the server may have reduced.
fn model_window(entry: &Value) -> Option<u64> {
    number(entry, "max_context_length").or_else(|| number(&entry["meta"], "n_ctx_train"))
}

/// Returns the context window with which a model is loaded (LM Studio, Ollama).
fn loaded(entry: &Value) -> Option<u64> {
    let instance = entry.pointer("/loaded_instances/0");
    let instance = instance.and_then(|it| {
        number(it, "context_length").or_else(|| number(&it["config"], "context_length"))
    });
    instance.or_else(|| offered_window(entry)).or_else(|| model_window(entry))
}

fn number(object: &Value, field: &str) -> Option<u64> {
    object.get(field)?.as_u64().filter(|tokens| *tokens > 0)
}
