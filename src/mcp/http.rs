//! The HTTP client for servers that are web services.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Url, redirect};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use tandem_net::{self as net, Lookup, Reach};

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// Timeout of the request that finds out whether a server speaks only the old transport.
const OLD_TRANSPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Text about a server that speaks only the old transport.
pub(super) const OLD_TRANSPORT_ERROR: &str = "it speaks only the old transport HTTP with SSE, which tandem does \
    not support: use its address for streamable HTTP (often `/mcp`), or a bridge, such as the program \
    `mcp-remote`";

/// Headers of a request.
pub(super) type Headers = HashMap<HeaderName, HeaderValue>;

/// Rules for requests to one server.
#[derive(Clone)]
pub(super) struct NetworkPolicy {
    /// Network that the requests may reach, if a peer has named the server; `None` without a limit.
    pub(super) confined: Option<Reach>,
    /// Resolver of names for a limited server.
    pub(super) lookup: Lookup,
}

impl NetworkPolicy {
    /// Returns an error if a request may not go to an address, as far as this is known without resolving its name.
    /// The addresses behind a name are judged when a client connects.
    pub(super) fn judge(&self, url: &Url) -> Result<(), String> {
        let Some(reach) = self.confined else { return Ok(()) };
        let Err(why) = net::judge_host(url, reach) else { return Ok(()) };
        let host = url.host_str().unwrap_or_default();
        let remedy = match net::judge_host(url, Reach::Private) {
            Ok(()) => "; `--a2a-private-servers` lets clients name such servers",
            Err(_) => "",
        };
        Err(format!("a server that a client names may not be at {host}, {why}{remedy}"))
    }

    /// Returns the builder of a client that connects only to addresses within reach. The client must be built with
    /// [`net::build`].
    pub(super) fn client(&self) -> ClientBuilder {
        match self.confined {
            // No proxy is used: a proxy would resolve the name again, and could get an address that was not judged.
            Some(reach) => net::client(Lookup::clone(&self.lookup), reach).no_proxy(),
            None => Client::builder().user_agent(net::USER_AGENT),
        }
    }
}

/// Returns a client for the server at this address, which sends requests nowhere else.
pub(super) fn client(url: &str, network: &NetworkPolicy) -> Result<Client, String> {
    let url = Url::parse(url).map_err(|err| format!("its address is not a URL: {err}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its address begins with {}:, not http: or https:", url.scheme()));
    }
    network.judge(&url)?;
    let client = net::build(|| {
        network
            .client()
            .redirect(redirect::Policy::custom(stay))
            // Streams are often dropped before their end, and their connections cannot be reused.
            .pool_max_idle_per_host(0)
    });
    client.map_err(|err| format!("the HTTP client could not be made: {err}"))
}

/// Follows only redirects that keep the method and the body, and only on the same server.
fn stay(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first();
    let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps && same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Returns `true` if a server that has answered no message speaks only the old transport: a GET request for its
/// address returns a stream of events.
pub(super) async fn is_old(client: &Client, url: &str, headers: &Headers) -> bool {
    let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let asked = client
        .get(url)
        .headers(headers)
        .header(ACCEPT, "text/event-stream")
        .timeout(OLD_TRANSPORT_TIMEOUT);
    let Ok(answer) = asked.send().await else { return false };
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    answer.status().is_success() && kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// A client that recognises servers which have lost the session. After a restart, many servers report an unknown
/// session with an error that names no request, so the request would wait for its answer in vain.
#[derive(Clone)]
pub(super) struct SessionAwareClient(pub(super) Client);

type HttpError = StreamableHttpError<reqwest::Error>;
type SseEvents = BoxStream<'static, Result<Sse, SseError>>;

impl StreamableHttpClient for SessionAwareClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let most = usize::MAX;
        self.post_message_with_max_sse_event_size(uri, message, session_id, token, headers, most)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let in_session = session_id.is_some();
        let answer = self
            .0
            .post_message_with_max_sse_event_size(uri, message, session_id, token, headers, most)
            .await?;
        match (answer, id) {
            (
                StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session),
                Some(id),
            ) if error.id.is_none() => {
                if in_session {
                    return Err(StreamableHttpError::SessionExpired);
                }
                let error = ServerJsonRpcMessage::error(error.error, Some(id));
                Ok(StreamableHttpPostResponse::Json(error, session))
            }
            (answer, _) => Ok(answer),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session_id, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<SseEvents, HttpError> {
        let most = usize::MAX;
        self.get_stream_with_max_sse_event_size(uri, session_id, last, token, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<SseEvents, HttpError> {
        let goes_on = last.is_some();
        let opened = self
            .0
            .get_stream_with_max_sse_event_size(uri, session_id, last, token, headers, most)
            .await;
        opened.map_err(|failure| match failure {
            // The server does not know the stream that should go on. Another attempt would not bring the answer.
            StreamableHttpError::Client(error)
                if goes_on && error.status().is_some_and(|status| status.is_client_error()) =>
            {
                StreamableHttpError::ServerDoesNotSupportSse
            }
            failure => failure,
        })
    }
}
