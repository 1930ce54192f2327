//! Requests to the API, with the key in its header.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::HeaderValue;
use reqwest::{Method, Request};
use serde::Deserialize;

use super::errors;
use crate::Error;
use crate::endpoint::Endpoint;
use crate::http::{self, Http};
use crate::provider::Provider;
use crate::report::{Report, RequestInfo};
use crate::request_loop::ApiClient;
use crate::retry::{RequestFailure, Trouble};
use tandem_net::AGENT;

/// Header for the key.
const KEY_HEADER: &str = "x-goog-api-key";

/// Characters that are not percent-encoded in a model's id.
const ID: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@');

/// Timeout of small requests, and maximum size of their responses in bytes.
const PATIENCE: Duration = Duration::from_secs(30);
const LIST: usize = 4 << 20;

/// Writes a request without a body; `rest` follows the collection of models.
fn request(endpoint: &Endpoint, method: Method, rest: &str) -> Result<Request, Error> {
    let mut request = endpoint.request(method, rest, KEY_HEADER)?;
    request.headers_mut().insert("x-goog-api-client", HeaderValue::from_static(AGENT));
    Ok(request)
}

/// Returns the path of a model's method.
fn path(model: &str, method: &str) -> String {
    let id = model.strip_prefix("models/").unwrap_or(model);
    format!("/{}:{method}", utf8_percent_encode(id, ID))
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

/// Describes a request, for messages.
pub(super) fn request_info<'a>(endpoint: &'a Endpoint, model: &'a str) -> RequestInfo<'a> {
    RequestInfo { provider: Provider::Gemini, model, url: &endpoint.url }
}

/// Fetches the ids of models for conversations, at most `most`.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
    most: usize,
) -> Result<Vec<String>, Error> {
    let ask = async {
        let request = request(endpoint, Method::GET, &format!("?pageSize={most}"))?;
        let failed = |failure: RequestFailure| failure.error;
        let response = http.send(request, PATIENCE).await.map_err(failed)?;
        if !response.status().is_success() {
            let report = Report::of(response, PATIENCE).await;
            return Err(match errors::classify(&report, request_info(endpoint, ""), &[]) {
                Trouble::NoModel(_) => no_api(endpoint),
                trouble => trouble.into_error(),
            });
        }
        names(&http::body(response, LIST, PATIENCE).await).ok_or_else(|| no_api(endpoint))
    };
    ask.await.map_err(|mut error| {
        endpoint.redact(error.text_mut());
        error
    })
}

fn no_api(endpoint: &Endpoint) -> Error {
    let url = &endpoint.url;
    Error::Rejected(format!("There is no Gemini API at {url}: it returns no list of models."))
}

/// Parses a list of models.
fn names(body: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        models: Vec<Item>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item {
        name: String,
        supported_generation_methods: Option<Vec<String>>,
    }
    let talks = |item: &Item| {
        let methods = item.supported_generation_methods.as_ref();
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    };
    let list: List = serde_json::from_slice(body).ok()?;
    let ids = list.models.into_iter().filter(talks);
    Some(ids.map(|item| item.name.rsplit('/').next().unwrap_or_default().to_owned()).collect())
}

/// Counts the tokens of a conversation; `None` if that fails.
pub(super) async fn count(
    client: &ApiClient,
    model: &str,
    body: Result<Vec<u8>, Error>,
) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Counted {
        total_tokens: u64,
    }
    let ask = async {
        let endpoint = client.endpoint().ok()?;
        let request = post(&endpoint, model, "countTokens", body.ok()?).ok()?;
        let response = client.http.send(request, PATIENCE).await.ok()?;
        let success = response.status().is_success();
        let body = http::body(response, LIST, PATIENCE).await;
        serde_json::from_slice::<Counted>(&body).ok().filter(|_| success)
    };
    Some(tokio::time::timeout(PATIENCE, ask).await.ok()??.total_tokens)
}
