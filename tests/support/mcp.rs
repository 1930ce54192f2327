//! Web services that are servers of the Model Context Protocol.

pub mod authority;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// Function that returns the answer to a message. `None`: the message is acknowledged, or refused if it is missing
/// (`null`).
type Answer = Arc<dyn Fn(&Value) -> Option<Response> + Send + Sync>;

/// A web service that records the headers of its requests.
pub struct Service {
    /// Address with a secret in it.
    pub url: String,
    /// Headers of each request so far.
    pub headers: Arc<Mutex<Vec<HeaderMap>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Service {
    /// Starts a service that answers each message so.
    pub async fn new(answer: impl Fn(&Value) -> Option<Response> + Send + Sync + 'static) -> Self {
        let answer: Answer = Arc::new(answer);
        let headers = Arc::<Mutex<Vec<HeaderMap>>>::default();
        let seen = Arc::clone(&headers);
        let router = Router::new().fallback(any(move |sent: HeaderMap, body: Bytes| {
            let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
            async move {
                seen.lock().unwrap().push(sent);
                let message = serde_json::from_slice::<Value>(&body).unwrap_or_default();
                let status = [StatusCode::ACCEPTED, StatusCode::METHOD_NOT_ALLOWED]
                    [usize::from(message.is_null())];
                answer(&message).unwrap_or_else(|| status.into_response())
            }
        }));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp?key=a-secret", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, headers, _serving: AbortOnDropHandle::new(serving) }
    }
}

/// Returns a result as JSON.
pub fn result(message: &Value, result: Value) -> Response {
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    ([("content-type", "application/json"), ("mcp-session-id", "one")], answer.to_string())
        .into_response()
}

/// Returns messages as events.
pub fn events(messages: &[Value]) -> Response {
    let events: String = messages.iter().map(|it| format!("data: {it}\n\n")).collect();
    ([("content-type", "text/event-stream")], events).into_response()
}

/// Starts a service with one tool, `t`, with this result.
pub async fn with_tool(called: impl Fn(&Value) -> Response + Send + Sync + 'static) -> Service {
    Service::new(move |message| match message["method"].as_str()? {
        "tools/call" => Some(called(message)),
        _ => answer_of_one_with_tool(message),
    })
    .await
}

/// Returns the answers of such a service to all messages except calls.
pub fn answer_of_one_with_tool(message: &Value) -> Option<Response> {
    let tools = json!([{ "name": "t", "inputSchema": { "type": "object" } }]);
    Some(match message["method"].as_str()? {
        "initialize" => result(
            message,
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "web", "version": "1" },
            }),
        ),
        "tools/list" => result(message, json!({ "tools": tools })),
        _ => return None,
    })
}

/// Returns the result of a call that says this.
pub fn says_text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}
