//! Requests to the API, with the key in its header.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, Request};
use serde::Deserialize;

use crate::Error;
use crate::endpoint::Endpoint;
use crate::http::{self, Http};
use crate::provider::Provider;
use crate::report::{Report, RequestInfo};
use crate::request_loop::ApiClient;
use crate::retry::RequestFailure;

/// Header for the key.
const KEY_HEADER: &str = "x-api-key";
/// API version that gateways and other servers know too.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Timeout of small requests, and maximum size of their responses in bytes.
const PATIENCE: Duration = Duration::from_secs(30);
const LIST: usize = 4 << 20;

/// Writes a request without a body; `rest` follows the version.
fn request(endpoint: &Endpoint, method: Method, rest: &str) -> Result<Request, Error> {
    // Some write the version into the address, as other APIs want it.
    let has_version = endpoint.url.trim_end_matches('/').ends_with("/v1");
    let rest = if has_version { rest.to_owned() } else { format!("/v1{rest}") };
    let mut request = endpoint.request(method, &rest, KEY_HEADER)?;
    let (name, version) = VERSION;
    request.headers_mut().entry(name).or_insert(HeaderValue::from_static(version));
    Ok(request)
}

/// Writes a request with a body.
pub(super) fn post(endpoint: &Endpoint, rest: &str, body: Vec<u8>) -> Result<Request, Error> {
    let mut request = request(endpoint, Method::POST, rest)?;
    *request.body_mut() = Some(body.into());
    Ok(request)
}

/// Describes a request, for messages.
pub(super) fn request_info<'a>(endpoint: &'a Endpoint, model: &'a str) -> RequestInfo<'a> {
    RequestInfo { provider: Provider::Anthropic, model, url: &endpoint.url }
}

/// Fetches the ids of models, at most `most`.
pub(super) async fn list(
    http: &Http,
    endpoint: &Endpoint,
    most: usize,
) -> Result<Vec<String>, Error> {
    let ask = async {
        let request = request(endpoint, Method::GET, &format!("/models?limit={most}"))?;
        let failed = |failure: RequestFailure| failure.error;
        let response = http.send(request, PATIENCE).await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(match Report::of(response, PATIENCE).await {
                Report { status: 404, .. } => no_api(endpoint),
                report => report.classify(request_info(endpoint, "")).into_error(),
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
    Error::Rejected(format!("There is no Anthropic API at {url}: it returns no list of models."))
}

/// Parses a list of models.
fn names(body: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        id: String,
    }
    let list: List = serde_json::from_slice(body).ok()?;
    Some(list.data.into_iter().map(|item| item.id).collect())
}

/// Counts the tokens of a prompt; `None` if that fails.
pub(super) async fn count(client: &ApiClient, body: Result<Vec<u8>, Error>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Counted {
        input_tokens: u64,
    }
    let ask = async {
        let endpoint = client.endpoint().ok()?;
        let request = post(&endpoint, "/messages/count_tokens", body.ok()?).ok()?;
        let response = client.http.send(request, PATIENCE).await.ok()?;
        let success = response.status().is_success();
        let body = http::body(response, LIST, PATIENCE).await;
        serde_json::from_slice::<Counted>(&body).ok().filter(|_| success)
    };
    Some(tokio::time::timeout(PATIENCE, ask).await.ok()??.input_tokens)
}
