//! Facts on a model from Ollama: its capabilities and its context window.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::catalog;
use crate::endpoint::Endpoint;
use crate::http::{self, Http};
use crate::provider::Provider;
use crate::queries::{MAX_BODY, MAX_LIST_BODY, ModelList};
use crate::retry::RequestFailure;

/// Header for a key that is not a bearer token.
pub(super) const KEY_HEADER: &str = "x-api-key";

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum default context window in tokens: larger windows take a lot of memory.
const MAX_DEFAULT_WINDOW: u64 = 32_768;

/// Facts on a model from Ollama.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Base URL of the server that told these facts; empty if they are assumed.
    pub(super) url: String,
    /// Size of the context window in tokens.
    pub(super) context: Option<u64>,
    /// Context window that requests ask for, if any.
    pub(super) sent_context: Option<u64>,
    /// Capabilities: tools, images, thinking.
    pub(super) tools: bool,
    pub(super) images: bool,
    pub(super) thinks: bool,
}

impl Default for Facts {
    /// Returns the facts that are assumed for an unknown model: it can call tools and see images.
    fn default() -> Self {
        let (context, sent_context) = (None, None);
        Self { url: String::new(), context, sent_context, tools: true, images: true, thinks: false }
    }
}

/// Fetches the facts. If Ollama is too old to tell them, usual values are assumed.
pub(super) async fn find(
    http: &Http,
    endpoint: &Endpoint,
    model: &catalog::ModelProperties,
) -> Result<Facts, RequestFailure> {
    let body = json!({ "model": model.id });
    let response = ask(http, endpoint, Method::POST, "/api/show", Some(body)).await?;
    let show = if response.status().is_success() { read(response).await } else { None };
    // If the model does not exist, the request itself fails with an error that says what to do. The empty URL makes
    // the next request ask again, because the model may exist by then.
    let url = if show.is_some() { endpoint.url.clone() } else { String::new() };
    let show = show.unwrap_or_default();
    let running = ask(http, endpoint, Method::GET, "/api/ps", None).await?;
    let running = if running.status().is_success() { read(running).await } else { None };
    let running = running.as_ref().and_then(|list| loaded(list, &model.id));
    let wanted = Some(model.input_tokens).filter(|tokens| *tokens > 0);
    let (context, sent_context) = context(&show, running, wanted);
    let can = |what: &str| match show.get("capabilities").and_then(Value::as_array) {
        Some(capabilities) => capabilities.iter().any(|it| it == what),
        None => what != "thinking",
    };
    let (tools, images, thinks) = (can("tools"), can("vision"), can("thinking"));
    Ok(Facts { url, context, sent_context, tools, images, thinks })
}

/// Returns the size of the context window, and the size that requests ask for. `wanted` is the user's setting.
fn context(show: &Value, running: Option<u64>, wanted: Option<u64>) -> (Option<u64>, Option<u64>) {
    let longest = show.get("model_info").and_then(Value::as_object).and_then(|info| {
        let length = info.iter().find(|(name, _)| name.ends_with(".context_length"));
        length.and_then(|(_, tokens)| tokens.as_u64())
    });
    if let Some(wanted) = wanted {
        return (Some(wanted), Some(wanted));
    }
    // A model on a remote host has its full context window.
    if show.get("remote_host").and_then(Value::as_str).is_some_and(|host| !host.is_empty()) {
        return (longest, None);
    }
    // The maker of the model has set the window in its file.
    if let Some(tokens) = written(show) {
        return (Some(tokens), None);
    }
    let usual = longest.map_or(MAX_DEFAULT_WINDOW, |longest| longest.min(MAX_DEFAULT_WINDOW));
    match running {
        // Another window would make Ollama load the model again.
        Some(running) if running >= usual => (Some(running), Some(running)),
        _ => (Some(usual), Some(usual)),
    }
}

/// Returns the context window that the model's own file sets.
fn written(show: &Value) -> Option<u64> {
    let lines = show.get("parameters")?.as_str()?.lines();
    lines.filter_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok()).next_back()
}

/// Returns the context window with which a model is loaded now.
fn loaded(list: &Value, model: &str) -> Option<u64> {
    let is_it = |entry: &&Value| {
        ["name", "model"]
            .iter()
            .filter_map(|field| entry.get(field)?.as_str())
            .any(|name| name == model || name.strip_suffix(":latest") == Some(model))
    };
    list.get("models")?.as_array()?.iter().find(is_it)?.get("context_length")?.as_u64()
}

const MODEL_LIST: ModelList = ModelList {
    provider: Provider::Ollama,
    timeout: REQUEST_TIMEOUT,
    classify: |report, info| report.classify(info),
    max_body: MAX_LIST_BODY,
    read: |list| {
        let models = list.get("models")?.as_array()?;
        let names = models.iter().filter_map(|model| model.get("name")?.as_str());
        // Ollama itself assumes the tag `latest`.
        let short = |name: &str| name.strip_suffix(":latest").unwrap_or(name).to_owned();
        let names: Vec<_> = names.map(short).collect();
        // Another program may list its own things under this name.
        (!names.is_empty() || models.is_empty()).then_some(names)
    },
};

/// Fetches the names of the models.
pub(super) async fn models(
    http: &Http,
    endpoint: &Endpoint,
) -> Result<Vec<String>, RequestFailure> {
    let request = endpoint.request(Method::GET, "/api/tags", KEY_HEADER);
    MODEL_LIST.try_fetch(http, endpoint, request).await
}

async fn ask(
    http: &Http,
    endpoint: &Endpoint,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Response, RequestFailure> {
    let mut request =
        endpoint.request(method, path, KEY_HEADER).map_err(RequestFailure::terminal)?;
    *request.body_mut() = body.map(|body| body.to_string().into());
    http.send(endpoint, request, REQUEST_TIMEOUT).await
}

async fn read(response: Response) -> Option<Value> {
    serde_json::from_slice(&http::body(response, MAX_BODY, REQUEST_TIMEOUT).await).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        show: &Value,
        running: Option<u64>,
        wanted: Option<u64>,
        expected: (u64, Option<u64>),
    ) {
        assert_eq!(context(show, running, wanted), (Some(expected.0), expected.1), "{show}");
    }

    #[test]
    fn the_context_is_the_models_own_up_to_what_is_usual() {
        let made_for = |tokens: u64| {
            json!({ "model_info": { "general.architecture": "qwen3",
            "qwen3.context_length": tokens } })
        };
        check(&made_for(8192), None, None, (8192, Some(8192)));
        check(&made_for(262_144), None, None, (MAX_DEFAULT_WINDOW, Some(MAX_DEFAULT_WINDOW)));
        check(&json!({}), None, None, (MAX_DEFAULT_WINDOW, Some(MAX_DEFAULT_WINDOW)));
        // The window with which the model is loaded, unless it is too short.
        check(&made_for(262_144), Some(65536), None, (65536, Some(65536)));
        check(&made_for(262_144), Some(4096), None, (MAX_DEFAULT_WINDOW, Some(MAX_DEFAULT_WINDOW)));
        // The window that the user has set.
        check(&made_for(262_144), Some(65536), Some(100_000), (100_000, Some(100_000)));
        // If the model's file sets the window, or the model runs on a remote host, requests ask for no window.
        let written =
            json!({ "parameters": "stop \"<x>\"\nnum_ctx                        16384\n" });
        check(&written, None, None, (16384, None));
        let remote = json!({ "remote_host": "https://ollama.com", "model_info": { "x.context_length": 131_072 } });
        check(&remote, None, None, (131_072, None));
    }

    #[test]
    fn a_model_runs_under_its_full_name() {
        let list = json!({ "models": [{ "name": "a:8b" }, { "name": "qwen3:latest", "context_length": 7 }] });
        assert_eq!(loaded(&list, "qwen3"), Some(7));
        assert_eq!(loaded(&list, "qwen3:8b"), None);
        assert_eq!(loaded(&json!([]), "qwen3"), None);
    }
}
