//! An agent whose answers a test chooses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures::stream;
use serde_json::{Value, json};
use tandem_a2a_client::AgentConfig;
use test_fakes::call_agent::reviewer;
use test_support::limit::HANG;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// A call that the agent has got.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// Method of JSON-RPC; of HTTP+JSON, verb and path.
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) headers: HeaderMap,
}

/// The agent.
pub(super) struct FakeAgent {
    pub(super) url: String,
    made: Arc<watch::Sender<Vec<Made>>>,
    _serving: AbortOnDropHandle<()>,
}

type Answer = Box<dyn FnMut(&Made) -> Response + Send>;

impl FakeAgent {
    /// Starts an agent with this card, without its address, that answers each call by `answer`.
    pub(super) async fn new(
        card: Value,
        answer: impl FnMut(&Made) -> Response + Send + 'static,
    ) -> Self {
        let read = move |_: &HeaderMap| json(card.clone());
        Self::with_card(read, answer).await
    }

    /// Starts an agent as [`Self::new`] does, whose card is returned by `card`.
    pub(super) async fn with_card(
        card: impl Fn(&HeaderMap) -> Response + Send + Sync + 'static,
        answer: impl FnMut(&Made) -> Response + Send + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let made = Arc::new(watch::Sender::new(Vec::new()));
        let (card, calls) = (Arc::new(card), Arc::clone(&made));
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        let handle = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let response = if method == Method::GET && uri.path().starts_with("/.well-known/") {
                match uri.path() {
                    "/.well-known/agent-card.json" => card(&headers),
                    _ => StatusCode::NOT_FOUND.into_response(),
                }
            } else {
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let call = match body["method"].as_str() {
                    Some(method) => {
                        Made { method: method.to_owned(), params: body["params"].clone(), headers }
                    }
                    None => Made { method: format!("{method} {uri}"), params: body, headers },
                };
                let response = (answer.lock().unwrap())(&call);
                calls.send_modify(|made| made.push(call));
                response
            };
            async move { response }
        };
        let router = Router::new().fallback(any(handle));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, made, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(super) fn config(&self) -> AgentConfig {
        reviewer(&self.url)
    }

    /// Returns the calls so far.
    pub(super) fn made(&self) -> Vec<Made> {
        self.made.borrow().clone()
    }

    /// Returns the methods of the calls so far.
    pub(super) fn methods(&self) -> Vec<String> {
        self.made().into_iter().map(|made| made.method).collect()
    }

    /// Waits for a call of this method.
    pub(super) async fn called(&self, method: &str) -> Made {
        let mut made = self.made.subscribe();
        let called = made.wait_for(|made| made.iter().any(|made| made.method == method));
        let made = timeout(HANG, called).await.expect("it is not called").unwrap();
        made.iter().find(|made| made.method == method).unwrap().clone()
    }
}

/// Returns a card of version 0.3.
pub(super) fn card_03() -> Value {
    json!({ "name": "Reviewer", "description": "Reads code.", "url": "/rpc", "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC", "capabilities": { "streaming": true },
        "skills": [{ "id": "r", "name": "Review", "description": "Finds faults.", "tags": [] }] })
}

/// Returns a card of version 1.0.
pub(super) fn card_1() -> Value {
    json!({ "name": "Reviewer", "description": "Reads code.", "capabilities": { "streaming": true },
        "supportedInterfaces": [
            { "url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ], "skills": [] })
}

/// Returns a card of version 1.0 that offers only HTTP+JSON.
pub(super) fn card_http_json() -> Value {
    let mut card = card_1();
    card["supportedInterfaces"] =
        json!([{ "url": "/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" }]);
    card
}

/// Returns the card of an agent that follows the extension.
pub(super) fn developing(mut card: Value) -> Value {
    card["capabilities"]["extensions"] =
        json!([{ "uri": tandem_wire::development_tool::EXTENSION_URI }]);
    card
}

pub(super) fn json(value: Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

pub(super) fn result(result: Value) -> Response {
    json(json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

pub(super) fn error(code: i64, message: &str) -> Response {
    json(json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": message } }))
}

/// Returns a stream with these results, which then ends.
pub(super) fn events(results: Vec<Value>) -> Response {
    raw(results.into_iter().map(|it| Step::Send(event(&it))).collect())
}

/// Returns a stream with these items, without envelopes.
pub(super) fn bare_events(items: &[Value]) -> Response {
    raw(items.iter().map(|it| Step::Send(format!("data: {it}\n\n"))).collect())
}

/// Returns an error of HTTP+JSON.
pub(super) fn bare_error(status: u16, reason: &str, message: &str) -> Response {
    let error = json!({ "code": status, "message": message, "details": [{ "reason": reason }] });
    (StatusCode::from_u16(status).unwrap(), json(json!({ "error": error }))).into_response()
}

/// Returns the bytes of an event.
pub(super) fn event(result: &Value) -> String {
    format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

/// A step of a body.
pub(super) enum Step {
    Send(String),
    /// The connection is lost.
    Lose,
    /// Nothing more comes, and nothing ends.
    Hang,
    /// A pause of this length.
    Pause(Duration),
    /// A pause until the test releases it.
    Wait(Arc<Notify>),
}

/// Returns a stream of events with this body.
pub(super) fn raw(steps: Vec<Step>) -> Response {
    let body = stream::unfold(steps.into_iter(), |mut steps| async move {
        loop {
            let item = match steps.next()? {
                Step::Send(text) => Ok(Bytes::from(text)),
                Step::Lose => Err(std::io::Error::other("lost")),
                Step::Hang => std::future::pending().await,
                Step::Pause(time) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                Step::Wait(signal) => {
                    signal.notified().await;
                    continue;
                }
            };
            return Some((item, steps));
        }
    });
    ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
}

/// Returns a status of the task `t` in the context `c`, in version 0.3.
pub(super) fn status(state: &str, said: Value) -> Value {
    let message = match said {
        Value::Null => Value::Null,
        parts => json!({ "kind": "message", "role": "agent", "messageId": "m", "parts": parts }),
    };
    let ends = !matches!(state, "submitted" | "working");
    json!({ "kind": "status-update", "taskId": "t", "contextId": "c", "final": ends,
        "status": { "state": state, "message": message } })
}

/// Returns a status as the extension writes it, with its place in the agent's log.
pub(super) fn status_of(kind: &str, event: &str, state: &str, said: Value) -> Value {
    let mut status = status(state, said);
    status["metadata"] = json!({ "coderAgent": { "kind": kind }, "eventId": event });
    status
}

/// Returns the task `t` in the context `c`, in version 0.3.
pub(super) fn task(state: &str) -> Value {
    json!({ "kind": "task", "id": "t", "contextId": "c", "status": { "state": state } })
}

/// Returns a result of the task, in version 0.3.
pub(super) fn artifact(text: &str, append: bool) -> Value {
    json!({ "kind": "artifact-update", "taskId": "t", "contextId": "c", "append": append,
        "artifact": { "artifactId": "a", "name": "answer", "parts": [{ "kind": "text", "text": text }] } })
}
