//! Requests to one agent: a card, a call, a stream of events.

use std::fmt;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::card::{Binding, CheckedCard};
use super::config::{AgentConfig, AgentLimits};
use super::http_json::{self, CallRequest, failure_in};
use super::outgoing::CallParams;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_content::sse::{Events, ServerEvent};
use tandem_net as net;
use tandem_trace as trace;
use tandem_wire::a2a::{Fields, Method, ProtocolVersion, StreamEvent};
use tandem_wire::development_tool::EXTENSION_URI;

/// Maximum length of an agent's own words in an error, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// Message about a call that HTTP+JSON does not have.
const NO_ADDRESS: &str = "its interface has no address for this call";

/// Maximum size of a card, in bytes.
const MAX_CARD_BYTES: usize = 1 << 20;

/// Reason for which a request has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// The agent answered with an error of the protocol.
    Rpc { code: i64, message: String },
    /// The agent's server answered with a status other than success.
    Status(u16, String),
    /// The connection could not be made, or was lost.
    Connection(String),
    /// The agent has sent nothing for this time.
    Silent(Duration),
    /// An answer or an event had more than the allowed number of bytes.
    TooLong(usize),
    /// An answer or an event was not valid in A2A.
    Odd(String),
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rpc { code, message } => {
                write!(f, "it answered with an error: {message} ({code})")
            }
            Self::Status(401 | 403, said) => {
                write!(
                    f,
                    "it does not accept the credentials{said}: correct its `token` or `headers` in the settings"
                )
            }
            Self::Status(status @ 300..=399, said) => {
                write!(f, "it redirects{said} (HTTP {status}): name that address in the settings")
            }
            Self::Status(status, said) => write!(f, "it answered with HTTP {status}{said}"),
            Self::Connection(why) => write!(f, "it cannot be reached: {why}"),
            Self::Silent(time) => write!(f, "nothing came from it for {} s", time.as_secs_f64()),
            Self::TooLong(bytes) => write!(f, "it sent more than {bytes} bytes at once"),
            Self::Odd(what) => write!(f, "{what}"),
        }
    }
}

/// HTTP client for one agent.
pub(super) struct AgentClient {
    client: Client,
    headers: HeaderMap,
    /// Maximum time without a byte from the agent during a call.
    idle: Duration,
    connect: Duration,
    message_bytes: usize,
}

/// Outcome of a call: one result, or a stream of results.
pub(super) enum Answer {
    /// The result; `None` if it is of no known kind.
    Result(Option<StreamEvent>),
    Stream(Box<ResultStream>),
}

impl AgentClient {
    pub(super) fn new(config: &AgentConfig, limits: &AgentLimits) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let header = net::secret_header(name, value);
            let (name, value) =
                header.ok_or_else(|| format!("its header {name:?} cannot be sent"))?;
            headers.append(name, value);
        }
        let client = net::build(|| {
            Client::builder()
                .user_agent(net::USER_AGENT)
                .connect_timeout(limits.connect)
                // Messages and secrets go only to the server that the user has named.
                .redirect(redirect::Policy::none())
                .referer(false)
                // Streams are left before their end, and their connections cannot be used again.
                .pool_max_idle_per_host(0)
        });
        Ok(Self {
            client: client.map_err(|err| format!("the HTTP client could not be made: {err}"))?,
            headers,
            idle: config.timeout.unwrap_or(limits.idle),
            connect: limits.connect,
            message_bytes: limits.message_bytes,
        })
    }

    /// Reads the card at an address; `None` if there is none.
    pub(super) async fn card(&self, url: Url) -> Result<Option<Value>, RequestFailure> {
        let request =
            self.client.get(url).headers(self.headers.clone()).header(ACCEPT, "application/json");
        let read = async {
            let response = request.send().await.map_err(|err| lost(&err))?;
            if response.status() == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            let response = successful(response, Binding::JsonRpc, self.connect).await?;
            json_of(response, MAX_CARD_BYTES, self.connect).await.map(Some)
        };
        timeout(self.connect, read).await.unwrap_or(Err(RequestFailure::Silent(self.connect)))
    }

    /// Makes a call. `after` is the id of the last event of a stream that was seen.
    pub(super) async fn call(
        &self,
        card: &CheckedCard,
        method: Method,
        params: &CallParams,
        after: Option<&str>,
    ) -> Result<Answer, RequestFailure> {
        let request = self.request(card, method, params);
        let request = request.ok_or_else(|| RequestFailure::Odd(NO_ADDRESS.to_owned()))?;
        let mut request = request.headers(self.headers.clone());
        if let Some(after) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
            request = request.header("Last-Event-ID", after);
        }
        for (name, value) in trace::outgoing(&card.endpoint) {
            request = request.header(name, value);
        }
        if card.version == ProtocolVersion::V1 {
            request = request.header("A2A-Version", "1.0");
        }
        if card.develops {
            request = request
                .header("A2A-Extensions", EXTENSION_URI)
                .header("X-A2A-Extensions", EXTENSION_URI);
        }
        let response = timeout(self.idle, request.send()).await;
        let response = response.map_err(|_| RequestFailure::Silent(self.idle))?;
        let response = response.map_err(|err| lost(&err))?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let streams = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        if streams && response.status().is_success() {
            let parser = Events::new(self.message_bytes);
            let (binding, idle, bytes) = (card.binding, self.idle, self.message_bytes);
            let stream = ResultStream { response, binding, parser, idle, bytes };
            return Ok(Answer::Stream(Box::new(stream)));
        }
        let response = successful(response, card.binding, self.idle).await?;
        let body = json_of(response, self.message_bytes, self.idle).await?;
        result(card.binding, body).map(Answer::Result)
    }

    /// Returns the request that makes a call, without the headers that all calls share; `None` if the agent's binding
    /// does not have the method.
    fn request(
        &self,
        card: &CheckedCard,
        method: Method,
        params: &CallParams,
    ) -> Option<RequestBuilder> {
        Some(match card.binding {
            Binding::JsonRpc => {
                let name = method.name(card.version);
                let params = params.json(card.version).ok()?;
                let call = JsonRpcCall { jsonrpc: "2.0", id: 1, method: name, params };
                let request = self.client.post(card.endpoint.clone());
                let request = request.header(CONTENT_TYPE, "application/json");
                let request = request.header(ACCEPT, "text/event-stream, application/json");
                request.body(serde_json::to_vec(&call).ok()?)
            }
            Binding::HttpJson => {
                let CallRequest { verb, url, body } =
                    CallRequest::new(&card.endpoint, method, params)?;
                let request = self.client.request(verb, url);
                let request = request.header(ACCEPT, http_json::ANSWER_TYPES);
                match body {
                    Some(body) => request.header(CONTENT_TYPE, "application/json").body(body),
                    None => request,
                }
            }
        })
    }
}

/// A call in the envelope of JSON-RPC.
#[derive(Serialize)]
struct JsonRpcCall {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: Box<RawValue>,
}

/// Stream of the results of a call.
pub(super) struct ResultStream {
    response: Response,
    binding: Binding,
    parser: Events,
    idle: Duration,
    bytes: usize,
}

/// A result in a stream, and the id of its event.
pub(super) struct StreamItem {
    /// The update; `None` if it is of no known kind.
    pub(super) update: Option<StreamEvent>,
    pub(super) id: Option<String>,
}

impl ResultStream {
    /// Returns the next result; `None` at the end. Cancel safe: if this future is dropped, no event is lost.
    pub(super) async fn next(&mut self) -> Result<Option<StreamItem>, RequestFailure> {
        loop {
            let event = self.parser.next_event();
            if let Some(ServerEvent { data, id }) =
                event.map_err(|_| RequestFailure::TooLong(self.bytes))?
            {
                let envelope = serde_json::from_slice::<Value>(&data).map_err(|_| {
                    RequestFailure::Odd("it sent an event that is not JSON".to_owned())
                })?;
                let id = id.map(ToOwned::to_owned);
                let update = result(self.binding, envelope)?;
                return Ok(Some(StreamItem { update, id }));
            }
            let chunk = timeout(self.idle, self.response.chunk()).await;
            match chunk.map_err(|_| RequestFailure::Silent(self.idle))? {
                Ok(Some(bytes)) => self.parser.push(&bytes),
                Ok(None) => return Ok(None),
                Err(err) => return Err(lost(&err)),
            }
        }
    }
}

/// Returns the result or the error that a body or an event contains; `None` for a result of no known kind.
fn result(binding: Binding, body: Value) -> Result<Option<StreamEvent>, RequestFailure> {
    let body = Fields::from(body);
    match binding {
        Binding::JsonRpc => enveloped(body),
        Binding::HttpJson => failure_in(&body, 500).map_or(Ok(body.try_into().ok()), Err),
    }
}

/// Returns the result or the error in an envelope of JSON-RPC.
fn enveloped(mut envelope: Fields) -> Result<Option<StreamEvent>, RequestFailure> {
    if let Some(mut error) = envelope.object("error") {
        let message = words(error.text("message").unwrap_or_default());
        return Err(RequestFailure::Rpc { code: error.take_or_default("code"), message });
    }
    let result = envelope.0.get_mut("result").map(Value::take);
    let none = || RequestFailure::Odd("its answer is not one of JSON-RPC".to_owned());
    result.ok_or_else(none).map(|result| StreamEvent::deserialize(result).ok())
}

/// Returns the response if its status is a success. The error comes from the body, or else from the status.
async fn successful(
    response: Response,
    binding: Binding,
    time: Duration,
) -> Result<Response, RequestFailure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.is_redirection() {
        let to = response.headers().get("location").and_then(|to| to.to_str().ok());
        let to = to.map_or_else(String::new, |to| format!(" to {}", words(to)));
        return Err(RequestFailure::Status(status.as_u16(), to));
    }
    let Ok(body) = body_of(response, MAX_CARD_BYTES, time).await else {
        return Err(RequestFailure::Status(status.as_u16(), String::new()));
    };
    let json = Fields::from(serde_json::from_slice::<Value>(&body).unwrap_or_default());
    match binding {
        // Some servers send an error of the protocol with an HTTP status of failure.
        Binding::JsonRpc => {
            let error = json.object("error");
            if error.is_some_and(|error| error.value("code").is_some_and(Value::is_i64)) {
                enveloped(json)?;
            }
        }
        Binding::HttpJson => failure_in(&json, status.as_u16()).map_or(Ok(()), Err)?,
    }
    let said = words(&String::from_utf8_lossy(&body));
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(RequestFailure::Status(status.as_u16(), said))
}

async fn json_of(response: Response, most: usize, time: Duration) -> Result<Value, RequestFailure> {
    let body = body_of(response, most, time).await?;
    serde_json::from_slice(&body)
        .map_err(|_| RequestFailure::Odd("its answer is not JSON".to_owned()))
}

async fn body_of(
    mut response: Response,
    most: usize,
    time: Duration,
) -> Result<Vec<u8>, RequestFailure> {
    let mut body = Vec::new();
    loop {
        let chunk =
            timeout(time, response.chunk()).await.map_err(|_| RequestFailure::Silent(time))?;
        let Some(chunk) = chunk.map_err(|err| lost(&err))? else { return Ok(body) };
        if body.len() + chunk.len() > most {
            return Err(RequestFailure::TooLong(most));
        }
        body.extend_from_slice(&chunk);
    }
}

fn lost(error: &reqwest::Error) -> RequestFailure {
    RequestFailure::Connection(net::cause(error))
}

/// Returns an agent's own words on one line.
pub(super) fn words(text: &str) -> String {
    one_line(plain(text.as_bytes()).trim(), MAX_ERROR_CHARS)
}
