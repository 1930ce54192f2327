//! Admission to the server: for programs of this machine, and for no page of a web site.
//!
//! A browser lets any page send requests to a local port. It says so in `Origin`, and a name that
//! was made to lead here stands in `Host`.

use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::body::used_up;
use super::principals::AccessError;
use super::proxy::PeerAddress;
use super::server::A2aServer;

/// Value of `WWW-Authenticate`: the way to show that one may use the server.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tandem\"");

/// Refuses what is sent to another name than this server's, or by a page of another origin.
pub(super) async fn keep_out_web_pages(
    State(server): State<Arc<A2aServer>>,
    request: Request,
    next: Next,
) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    let is_named = only(headers, &HOST).is_some_and(|host| server.is_own(host));
    if !is_named || uri.authority().is_some() {
        let why = "this server is called 127.0.0.1, localhost or [::1], with its port\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    let origin = only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
    if headers.contains_key(ORIGIN) && !origin.is_some_and(|origin| server.is_own(origin)) {
        let why = "web pages of other origins are not served\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// Refuses whoever lacks the token, and a body that says that it is no JSON: a page of another origin
/// can send such a one without asking first.
pub(super) async fn authorize(
    State(server): State<Arc<A2aServer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = token(request.uri(), request.headers());
    let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
    let headers = request.headers();
    match server.principals.find(token.as_deref(), (peer, headers)).await {
        Ok(principal) => {
            if let Err(refused) = server.meter.request(principal.id()) {
                let (what, why) = (request.uri().path(), refused.message());
                server.audit.denied(principal.id(), what, &why);
                return used_up(&why, refused.seconds());
            }
            request.extensions_mut().insert(principal);
        }
        Err(error) => {
            let (id, why) = match &error {
                AccessError::Unknown => (None, "the token is missing or wrong"),
                AccessError::Revoked(id) => (Some(id), "the token is revoked"),
            };
            server.audit.denied(id, request.uri().path(), why);
            let why = "the token is missing or wrong\n";
            let challenge = [(WWW_AUTHENTICATE, CHALLENGE)];
            return (StatusCode::UNAUTHORIZED, challenge, why).into_response();
        }
    }
    if request.method() == Method::POST && !is_json(&request) {
        let why = "the body must be application/json or application/a2a+json\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    next.run(request).await
}

impl A2aServer {
    /// Returns whether the name of a host, with its port, is this server's.
    fn is_own(&self, host: &str) -> bool {
        let port = format!(":{}", self.port);
        let name = host.strip_suffix(&port);
        name.is_some_and(|name| {
            ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
        })
    }
}

/// Returns the token that a caller shows.
fn token(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let header = only(headers, &AUTHORIZATION);
    let given = header.and_then(|value| {
        let (scheme, given) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| given.trim().to_owned())
    });
    let query = uri.query().unwrap_or_default().as_bytes();
    let in_query = || {
        let mut pairs = form_urlencoded::parse(query);
        pairs.find(|(name, _)| name == "token").map(|(_, value)| value.into_owned())
    };
    given.or_else(in_query)
}

/// Returns whether the body is JSON; there may be none, where the address says all.
fn is_json(request: &Request) -> bool {
    let headers = request.headers();
    if !headers.contains_key(CONTENT_TYPE) && request.body().is_end_stream() {
        return true;
    }
    let kind = only(headers, &CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/a2a+json"].iter().any(|it| kind.eq_ignore_ascii_case(it))
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}
