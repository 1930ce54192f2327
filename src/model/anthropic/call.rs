//! Requests to the API, with the key in its header.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, Request};

use crate::Error;
use crate::endpoint::Endpoint;
use crate::http::{self, Http};
use crate::provider::Provider;
use crate::queries::{self, MAX_BODY, ModelList};
use crate::request_loop::ApiClient;

/// Header for the key.
const KEY_HEADER: &str = "x-api-key";
/// API version that gateways and other servers also know.
const VERSION_HEADER: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Method of a model at Vertex AI.
const VERTEX_METHOD: &str = "streamRawPredict";
/// Path of the method that counts tokens at Vertex AI.
const VERTEX_COUNT_PATH: &str = "/count-tokens:rawPredict";

/// Writes a request without a body; `rest` follows the version.
fn request(endpoint: &Endpoint, method: Method, rest: &str) -> Result<Request, Error> {
    // Some users write the version into the address, as other APIs require.
    let has_version = endpoint.url.trim_end_matches('/').ends_with("/v1");
    let rest = if has_version { rest.to_owned() } else { format!("/v1{rest}") };
    let mut request = endpoint.request(method, &rest, KEY_HEADER)?;
    let (name, version) = VERSION_HEADER;
    // The user's headers may have another version, which some gateways require.
    request.headers_mut().entry(name).or_insert(HeaderValue::from_static(version));
    Ok(request)
}

/// Writes the request for an answer of a model.
pub(super) fn answer(endpoint: &Endpoint, model: &str, body: Vec<u8>) -> Result<Request, Error> {
    if endpoint.provider == Provider::Vertex {
        return post_to_vertex(endpoint, &http::model_path(model, VERTEX_METHOD), body);
    }
    post(endpoint, "/messages", body)
}

/// Writes a request to Vertex AI, where the body names the version of the API.
fn post_to_vertex(endpoint: &Endpoint, path: &str, body: Vec<u8>) -> Result<Request, Error> {
    let mut request = endpoint.request(Method::POST, path, KEY_HEADER)?;
    *request.body_mut() = Some(body.into());
    Ok(request)
}

/// Writes a request with a body.
fn post(endpoint: &Endpoint, rest: &str, body: Vec<u8>) -> Result<Request, Error> {
    let mut request = request(endpoint, Method::POST, rest)?;
    *request.body_mut() = Some(body.into());
    Ok(request)
}

const MODEL_LIST: ModelList = ModelList {
    provider: Provider::Anthropic,
    timeout: Duration::from_secs(30),
    classify: |report, info| report.classify(info),
    max_body: MAX_BODY,
    read: |list| {
        let ids = list.get("data")?.as_array()?.iter().map(|model| model.get("id")?.as_str());
        ids.map(|id| id.map(str::to_owned)).collect()
    },
};

/// Fetches the ids of models, at most `most`.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
    most: usize,
) -> Result<Vec<String>, Error> {
    // Vertex AI does not list the models of Anthropic.
    if endpoint.provider == Provider::Vertex {
        return Ok(Vec::new());
    }
    let request = request(endpoint, Method::GET, &format!("/models?limit={most}"));
    MODEL_LIST.fetch(http, endpoint, request).await
}

/// Counts the tokens of a prompt; `None` if that fails.
pub(super) async fn count(client: &ApiClient, body: Result<Vec<u8>, Error>) -> Option<u64> {
    let request = |endpoint: &Endpoint| match endpoint.provider {
        Provider::Vertex => post_to_vertex(endpoint, VERTEX_COUNT_PATH, body?),
        _ => post(endpoint, "/messages/count_tokens", body?),
    };
    queries::count_tokens(client, request, "input_tokens").await
}
