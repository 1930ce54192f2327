//! Requests to the API, with the key in its header.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, Request};
use serde_json::Value;

use super::errors;
use crate::Error;
use crate::endpoint::Endpoint;
use crate::http::{self, Http};
use crate::provider::Provider;
use crate::queries::{self, MAX_BODY, ModelList};
use crate::request_loop::ApiClient;
use tandem_net::USER_AGENT;

/// Header for the key.
const KEY_HEADER: &str = "x-goog-api-key";

/// Writes a request without a body; `rest` follows the collection of models.
fn request(endpoint: &Endpoint, method: Method, rest: &str) -> Result<Request, Error> {
    let mut request = endpoint.request(method, rest, KEY_HEADER)?;
    request.headers_mut().insert("x-goog-api-client", HeaderValue::from_static(USER_AGENT));
    Ok(request)
}

/// Returns the path of a model's method.
fn path(model: &str, method: &str) -> String {
    http::model_path(model.strip_prefix("models/").unwrap_or(model), method)
}

/// Writes a request to a model.
pub(super) fn post(
    endpoint: &Endpoint,
    model: &str,
    method: &str,
    body: Vec<u8>,
) -> Result<Request, Error> {
    let mut request = request(endpoint, Method::POST, &path(model, method))?;
    *request.body_mut() = Some(body.into());
    Ok(request)
}

const MODEL_LIST: ModelList = ModelList {
    provider: Provider::Gemini,
    timeout: Duration::from_secs(30),
    classify: |report, info| errors::classify(report, info, &[]),
    max_body: MAX_BODY,
    read: ids,
};

/// Fetches the ids of models for conversations, at most `most`.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
    most: usize,
) -> Result<Vec<String>, Error> {
    let request = request(endpoint, Method::GET, &format!("?pageSize={most}"));
    MODEL_LIST.fetch(http, endpoint, request).await
}

/// Returns the ids of the models that answer prompts. Other models compute embeddings or make images.
fn ids(list: &Value) -> Option<Vec<String>> {
    // The API omits the field if there are no models.
    let models = list
        .as_object()?
        .get("models")
        .map_or(Some(&[][..]), |models| models.as_array().map(Vec::as_slice))?;
    let converses = |model: &&Value| match model.get("supportedGenerationMethods") {
        Some(Value::Array(methods)) => methods.iter().any(|method| method == "generateContent"),
        _ => true,
    };
    let id = |model: &Value| model.get("name")?.as_str()?.rsplit('/').next().map(str::to_owned);
    models.iter().filter(converses).map(id).collect()
}

/// Counts the tokens of a conversation; `None` if that fails.
pub(super) async fn count(
    client: &ApiClient,
    model: &str,
    body: Result<Vec<u8>, Error>,
) -> Option<u64> {
    let request = |endpoint: &Endpoint| post(endpoint, model, "countTokens", body?);
    queries::count_tokens(client, request, "totalTokens").await
}
