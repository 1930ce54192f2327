//! HTTP routes of the server, and JSON-RPC over HTTP.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, LAST_MODIFIED, VARY,
};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde_json::Value;

use super::body::body;
use super::dialect::{Dialect, version};
use super::envelope::{InvalidCall, ReceivedCall, envelope, failure};
use super::methods::Reply;
use super::read::MessageForm;
use super::server::{A2aServer, CallOrigin};
use super::{card, guard, http_json, monitoring, rest, sse, ws};
use tandem_serve::busy;
use tandem_serve::principals::Principal;
use tandem_serve::tokens;
use tandem_wire::a2a::{Fields, Method, ProtocolVersion, error};
use tandem_wire::development_tool::is_uri;
use tandem_wire::jsonrpc::{Envelope, Error};

/// Returns the router of all requests. Requests must have passed [`without_empty_segments`] first.
pub(super) fn router(server: &Arc<A2aServer>) -> Router {
    // A client gets the card without a token, since the client learns from the card that other requests need a token.
    let cards = Router::new()
        .route("/.well-known/agent-card.json", get(agent_card))
        .route("/.well-known/agent.json", get(agent_card))
        .route("/v1/.well-known/agent-card.json", get(agent_card_v1))
        .route("/.well-known/jwks.json", get(card_keys))
        .route(card::DOCUMENTATION_PATH, get(documentation))
        .route(card::ICON_PATH, get(icon));
    let calls = Router::new()
        .route("/", post(json_rpc))
        .route("/message/stream", post(message_stream))
        .route("/ws", get(ws::upgrade))
        .route("/acp", get(ws::upgrade))
        .route("/attach", get(ws::attach))
        .merge(rest::routes())
        .nest(card::HTTP_JSON, http_json::routes())
        .fallback(rest::not_found)
        .layer(from_fn_with_state(Arc::clone(server), guard::authorize));
    let all = cards.merge(calls).layer(from_fn_with_state(Arc::clone(server), begin));
    let all = match server.network.cors() {
        Some(cors) => all.layer(cors),
        None => all,
    };
    all.layer(from_fn_with_state(Arc::clone(server), guard::keep_out_web_pages))
        .layer(from_fn(http_json::answers))
        .layer(from_fn_with_state(Arc::clone(server), monitoring::observe))
        .with_state(Arc::clone(server))
        .merge(monitoring::health(server.health()))
}

/// Returns the request without the empty segments of its path, since some clients build
/// `//.well-known/agent-card.json`. Must run before the router, which takes the path as it is.
pub(super) fn without_empty_segments(mut request: Request) -> Request {
    let path = request.uri().path();
    // `/` and `*` have no empty segments, and the empty path of `CONNECT` names no route.
    if path.len() < 2 || !(path.contains("//") || path.ends_with('/')) {
        return request;
    }
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let mut path = format!("/{}", segments.collect::<Vec<_>>().join("/"));
    if let Some(query) = request.uri().query() {
        path = format!("{path}?{query}");
    }
    // An authority in the URI stays, so that the guard can refuse it.
    let mut uri = request.uri().clone().into_parts();
    uri.path_and_query = PathAndQuery::try_from(path).ok();
    if let Ok(uri) = Uri::from_parts(uri) {
        *request.uri_mut() = uri;
    }
    request
}

/// Handles a request if there is room for it, and names the active extension in the response.
async fn begin(State(server): State<Arc<A2aServer>>, request: Request, next: Next) -> Response {
    if server.ending.draining() {
        return busy::response("the agent is ending, and takes no new requests\n");
    }
    let Ok(_in_flight) = server.in_flight.try_acquire() else {
        return busy::response("too many requests at once\n");
    };
    let activated = activated(request.headers());
    let mut response = next.run(request).await;
    if let Some((name, uris)) = activated {
        response.headers_mut().insert(name, uris);
    }
    response
}

async fn agent_card(State(server): State<Arc<A2aServer>>, headers: HeaderMap) -> Response {
    let v1 = version(&headers).is_some_and(|version| version.starts_with('1'));
    card_response(&server, &headers, v1)
}

async fn agent_card_v1(State(server): State<Arc<A2aServer>>, headers: HeaderMap) -> Response {
    card_response(&server, &headers, true)
}

/// Returns the agent card, with headers for caches.
fn card_response(server: &A2aServer, headers: &HeaderMap, v1: bool) -> Response {
    let body = card::card(server, v1);
    let etag = format!("\"{}\"", tokens::hash(&String::from_utf8_lossy(&body)));
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

/// Returns the manual's page for clients.
async fn documentation() -> Response {
    page("text/markdown; charset=utf-8", include_str!("../../../docs/a2a.md"))
}

/// Returns the icon of the agent.
async fn icon() -> Response {
    page("image/svg+xml", include_str!("icon.svg"))
}

fn page(kind: &'static str, content: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=3600")], content).into_response()
}

/// Returns the public key of the card's signature.
async fn card_keys(State(server): State<Arc<A2aServer>>) -> Response {
    match &server.options.card_key {
        Some(key) => json_body(key.public_set().to_string()),
        None => rest::not_found().await,
    }
}

/// Handles `POST /`.
async fn json_rpc(
    State(server): State<Arc<A2aServer>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    call(&server, principal, request, false).await
}

/// Handles `POST /message/stream`, whose body may also be a message without a JSON-RPC envelope.
async fn message_stream(
    State(server): State<Arc<A2aServer>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    call(&server, principal, request, true).await
}

/// Carries out a call, and returns its response, which may be a stream. `bare`: `true` if the body may be a
/// message without a JSON-RPC envelope.
async fn call(
    server: &Arc<A2aServer>,
    principal: Principal,
    request: Request,
    bare: bool,
) -> Response {
    let caller = server.caller(request.headers(), principal);
    let version = version(request.headers());
    let body = match body(server, request).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let unknown = version.is_some_and(|version| !speaks(&version)).then(|| {
        let error = Error::new(error::VERSION_NOT_SUPPORTED, "this agent speaks A2A 0.3 and 1.0");
        Dialect::V1.error(error)
    });
    if bare
        && let Ok(body) = serde_json::from_slice::<Value>(&body)
        && let body = Fields::from(body)
        && !body.0.contains_key("method")
    {
        return match unknown {
            Some(error) => json_body(failure("null", &error)),
            None => bare_stream(server, body, &caller).await,
        };
    }
    let ReceivedCall { id, method, params } = match envelope(&body) {
        Ok(call) => call,
        Err(InvalidCall { id, error }) => return json_body(failure(&id, &error)),
    };
    if let Some(error) = unknown {
        return json_body(failure(&id, &error));
    }
    let streams = Method::named(&method)
        .is_some_and(|(method, version)| method.streams() && version == ProtocolVersion::V03);
    match server.call(&method, params, &caller).await {
        Ok(Reply::Value(value)) => json_body(Envelope::result(&id).with_payload(&value)),
        Ok(Reply::Stream(streaming)) => sse::response(Some(id), streaming.subscribe(), server),
        Err(error) if streams => sse::error(&id, &error),
        Err(error) => json_body(failure(&id, &error)),
    }
}

async fn bare_stream(server: &Arc<A2aServer>, body: Fields, caller: &CallOrigin) -> Response {
    let streaming = match server.received(MessageForm::Bare, body) {
        Ok(message) => server.stream(message, caller, Dialect::V03).await,
        Err(error) => Err(error),
    };
    match streaming {
        Ok(streaming) => sse::response(Some("null".to_owned()), streaming.subscribe(), server),
        Err(error) => sse::error("null", &error),
    }
}

fn json_body(body: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// Returns `true` if the server supports a protocol version.
fn speaks(version: &str) -> bool {
    let mut numbers = version.split('.');
    matches!((numbers.next(), numbers.next()), (Some("1"), _) | (Some("0"), Some("3")))
}

/// Returns the response header that names the active extension as the client spelled it; `None` if the client
/// activates no extension that the server knows.
fn activated(headers: &HeaderMap) -> Option<(HeaderName, HeaderValue)> {
    for name in ["a2a-extensions", "x-a2a-extensions"] {
        let asked = headers.get(name).and_then(|asked| asked.to_str().ok());
        let mut uris = asked.into_iter().flat_map(|asked| asked.split(',')).map(str::trim);
        if let Some(uri) = uris.find(|uri| is_uri(uri))
            && let Ok(uri) = HeaderValue::from_str(uri)
        {
            return Some((HeaderName::from_static(name), uri));
        }
    }
    None
}
