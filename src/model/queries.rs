//! Short requests beside the conversation: the list of a provider's models, the tokens of a prompt.

use std::time::Duration;

use reqwest::Request;
use serde_json::Value;

use super::Error;
use super::endpoint::Endpoint;
use super::http::{self, Http};
use super::provider::Provider;
use super::report::{Report, RequestInfo};
use super::request_loop::ApiClient;
use super::retry::{AttemptFailure, RequestFailure};

/// Maximum size of a response in bytes: servers with hundreds of models describe each at length.
pub(super) const MAX_BODY: usize = 8 << 20;
/// Maximum size in bytes of a list of models that people choose from. Nothing is known of the server.
pub(super) const MAX_LIST_BODY: usize = 2 << 20;
/// Timeout of counting tokens.
const COUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// A model that a server lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Id in the server's API.
    pub id: String,
    /// Size of the context window in tokens, if the list has it.
    pub window: Option<u64>,
}

/// A provider's way of listing its models, of which `T` is read.
pub(super) struct ModelList<T = String> {
    pub(super) provider: Provider,
    /// Timeout of the request, and a second time of reading its response.
    pub(super) timeout: Duration,
    /// Function that classifies an error that the server reports.
    pub(super) classify: fn(&Report, RequestInfo<'_>) -> AttemptFailure,
    /// Maximum size of the response in bytes.
    pub(super) max_body: usize,
    /// Function that finds the models in the response; it returns `None` if the response is not a list of models.
    pub(super) read: fn(&Value) -> Option<Vec<T>>,
}

impl<T> ModelList<T> {
    /// Fetches the endpoint's models. One page is enough: no provider has more models than `request` asks for.
    pub(super) async fn fetch(
        &self,
        http: &Http,
        endpoint: &Endpoint,
        request: Result<Request, Error>,
    ) -> Result<Vec<T>, Error> {
        self.try_fetch(http, endpoint, request).await.map_err(|failure| failure.error)
    }

    /// Fetches the endpoint's models as [`Self::fetch`] does. The failure says if another attempt may succeed.
    pub(super) async fn try_fetch(
        &self,
        http: &Http,
        endpoint: &Endpoint,
        request: Result<Request, Error>,
    ) -> Result<Vec<T>, RequestFailure> {
        self.ask(http, endpoint, request).await.map_err(|mut failure| {
            // Servers repeat parts of requests in their messages, and also keys.
            endpoint.redact(failure.error.text_mut());
            failure
        })
    }

    async fn ask(
        &self,
        http: &Http,
        endpoint: &Endpoint,
        request: Result<Request, Error>,
    ) -> Result<Vec<T>, RequestFailure> {
        let request = request.map_err(RequestFailure::terminal)?;
        let response = http.send(endpoint, request, self.timeout).await?;
        if !response.status().is_success() {
            let report = Report::from_response(response, self.timeout).await;
            // The path is the same on every server of this API: if it is not found, the server has another API.
            if report.status == 404 {
                return Err(RequestFailure::terminal(self.no_api(endpoint)));
            }
            let info = endpoint.request_info("");
            return Err((self.classify)(&report, info).into_failure());
        }
        let body = http::body(response, self.max_body, self.timeout).await;
        let list = serde_json::from_slice(&body).ok();
        let models = list.as_ref().and_then(self.read);
        models.ok_or_else(|| RequestFailure::terminal(self.no_api(endpoint)))
    }

    fn no_api(&self, endpoint: &Endpoint) -> Error {
        let api = match self.provider {
            Provider::Ollama => "Ollama".to_owned(),
            provider => format!("{} API", provider.title()),
        };
        // Only addresses of this API include the version.
        let version = match self.provider {
            Provider::OpenAi => ": most end with a version, such as `/v1`",
            _ => "",
        };
        Error::Rejected(format!(
            "There is no {api} at {}: it returns no list of models. Check the address{version}.",
            endpoint.url
        ))
    }
}

/// Counts the tokens of a prompt with a request; `None` if that fails. `field` of the response has
/// the number.
pub(super) async fn count_tokens(
    client: &ApiClient,
    request: impl FnOnce(&Endpoint) -> Result<Request, Error>,
    field: &str,
) -> Option<u64> {
    let ask = async {
        let endpoint = client.endpoint().ok()?;
        let request = request(&endpoint).ok()?;
        let response = client.http.send(&endpoint, request, COUNT_TIMEOUT).await.ok()?;
        let success = response.status().is_success();
        let body = http::body(response, MAX_BODY, COUNT_TIMEOUT).await;
        let counted: Value = serde_json::from_slice(&body).ok().filter(|_| success)?;
        counted.get(field)?.as_u64()
    };
    tokio::time::timeout(COUNT_TIMEOUT, ask).await.ok()?
}
