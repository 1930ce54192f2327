//! Paths of the server, and JSON-RPC over them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, LAST_MODIFIED, VARY,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::body::body;
use super::dialect::Dialect;
use super::envelope::{envelope, failure};
use super::methods::{self, Reply, named};
use super::server::{Caller, Server};
use super::{busy, card, read, rest, sse, ws};
use tandem_wire::a2a::Error;
use tandem_wire::development_tool::URI;
use tandem_wire::jsonrpc::Envelope;

/// Value of `WWW-Authenticate`: the way to show that one may use the server.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tandem\"");

/// The whole server.
pub(super) fn router(server: Arc<Server>) -> Router {
    Router::new().fallback(answer).with_state(server)
}

async fn answer(State(server): State<Arc<Server>>, request: Request<Body>) -> Response {
    let refused = server.admit(request.method(), request.uri(), request.headers());
    if let Err((status, why)) = refused {
        let mut response = (status, format!("{why}\n")).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
        }
        return response;
    }
    let activated = activated(request.headers());
    if server.ending.draining() {
        return busy::response("nothing new begins, because the agent ends\n");
    }
    let Ok(_in_flight) = server.in_flight.try_acquire() else {
        return busy::response("too many requests at once\n");
    };
    let mut response = route(&server, request).await;
    if let Some((name, uris)) = activated {
        response.headers_mut().insert(name, uris);
    }
    response
}

async fn route(server: &Arc<Server>, request: Request<Body>) -> Response {
    // A client builds `//.well-known/agent-card.json`.
    let path: Vec<String> = request.uri().path().split('/').map(ToOwned::to_owned).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    match (request.method(), path.as_slice()) {
        (&Method::GET | &Method::HEAD, [".well-known", "agent-card.json" | "agent.json"]) => {
            agent_card(server, request.headers(), false)
        }
        (&Method::GET | &Method::HEAD, ["v1", ".well-known", "agent-card.json"]) => {
            agent_card(server, request.headers(), true)
        }
        (&Method::GET, ["ws" | "acp"]) => ws::upgrade(server, request).await,
        (&Method::GET, ["attach"]) => ws::attach(server, request).await,
        (&Method::POST, [] | ["message", "stream"]) => {
            let bare = !path.is_empty();
            json_rpc(server, request, bare).await
        }
        (&Method::GET | &Method::POST, path) => {
            let (method, path) = (request.method().clone(), path.join("/"));
            rest::answer(server, &method, &path, request).await
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

/// The card, with what caches need.
fn agent_card(server: &Server, headers: &HeaderMap, v1: bool) -> Response {
    let v1 = v1 || version(headers).is_some_and(|version| version.starts_with('1'));
    let body = card::card(server, v1).to_string();
    let etag = format!("\"{}-{}-{}\"", env!("CARGO_PKG_VERSION"), server.port, u8::from(v1));
    let known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let headers = [
        (ETAG, etag.clone()),
        (LAST_MODIFIED, server.begun.clone()),
        (CACHE_CONTROL, "public, max-age=60".to_owned()),
        (VARY, "A2A-Version".to_owned()),
        (CONTENT_TYPE, "application/json".to_owned()),
    ];
    if known.is_some_and(|known| known == "*" || known.contains(&etag)) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, body).into_response()
}

/// A call, and its answer: one response, or a stream. `bare`: at `/message/stream` the body may also
/// be a message without an envelope.
async fn json_rpc(server: &Arc<Server>, request: Request<Body>, bare: bool) -> Response {
    let caller = server.caller(request.headers());
    let version = version(request.headers());
    let body = match body(server, request).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let unknown = version.is_some_and(|version| !speaks(&version)).then(|| {
        let error = Error::new(Error::VERSION_NOT_SUPPORTED, "this agent speaks A2A 0.3 and 1.0");
        Dialect::V1.error(error)
    });
    if bare
        && let Ok(body) = serde_json::from_slice::<Value>(&body)
        && body.get("method").is_none()
    {
        return match unknown {
            Some(error) => json_body(failure("null", &error)),
            None => bare_stream(server, &body, &caller),
        };
    }
    let (id, method, params) = match envelope(&body) {
        Ok(envelope) => envelope,
        Err((id, error)) => return json_body(failure(&id, &error)),
    };
    if let Some(error) = unknown {
        return json_body(failure(&id, &error));
    }
    let streams = named(&method).is_some_and(|(method, dialect)| {
        matches!(method, methods::Method::Stream | methods::Method::Subscribe)
            && dialect == Dialect::V03
    });
    match server.call(&method, params, &caller).await {
        Ok(Reply::Value(value)) => json_body(Envelope::result(&id).around(&value)),
        Ok(Reply::Stream(streaming)) => {
            sse::response(id, streaming.subscribe(), server.over.clone())
        }
        Err(error) if streams => sse::error(&id, &error),
        Err(error) => json_body(failure(&id, &error)),
    }
}

fn bare_stream(server: &Server, body: &Value, caller: &Caller) -> Response {
    let streaming =
        read::bare_message(body).and_then(|sent| server.stream(sent, caller, Dialect::V03));
    match streaming {
        Ok(streaming) => {
            sse::response("null".to_owned(), streaming.subscribe(), server.over.clone())
        }
        Err(error) => sse::error("null", &error),
    }
}

fn json_body(body: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// The version that the client asks for; an empty one is none (1.0, section 3.6.2).
fn version(headers: &HeaderMap) -> Option<String> {
    let version = headers.get("a2a-version")?.to_str().ok()?.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

/// Returns whether a version is one that the server speaks.
fn speaks(version: &str) -> bool {
    let mut numbers = version.split('.');
    matches!((numbers.next(), numbers.next()), (Some("1"), _) | (Some("0"), Some("3")))
}

/// Returns the response's header for the extension, if a client activates that: no other is known.
fn activated(headers: &HeaderMap) -> Option<(HeaderName, HeaderValue)> {
    for name in ["a2a-extensions", "x-a2a-extensions"] {
        let asked = headers.get(name).and_then(|asked| asked.to_str().ok());
        if asked.is_some_and(|asked| asked.split(',').any(|uri| uri.trim() == URI)) {
            return Some((HeaderName::from_static(name), HeaderValue::from_static(URI)));
        }
    }
    None
}
