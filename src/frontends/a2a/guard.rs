//! Admission of requests: programs are served, pages of other web sites are not.
//!
//! A browser lets any page send requests to a local port, but names the page's site in `Origin`. An
//! attacker's host name that resolves to this machine (DNS rebinding) appears in `Host`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::body::retry_later;
use super::server::A2aServer;
use tandem_serve::audit::{client_address, for_client};
use tandem_serve::busy;
use tandem_serve::connection_room::ConnectionSlot;
use tandem_serve::principals::AccessError;
use tandem_serve::proxy::PeerAddress;
use tandem_serve::refusals::Refusal;

/// Value of `WWW-Authenticate`: the way to authenticate.
const BEARER_CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tandem\"");

/// The same challenge for a caller that has sent an invalid token (RFC 6750).
const INVALID_TOKEN: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"tandem\", error=\"invalid_token\"");

/// Stand-in for the address of a peer that is not known.
const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Refuses requests for another host than this server, requests of pages of other origins, and requests that
/// bypass the proxy. Handlers behind this layer know the client's address.
pub(super) async fn keep_out_web_pages(
    State(server): State<Arc<A2aServer>>,
    request: Request,
    next: Next,
) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    let peer = request.extensions().get::<PeerAddress>().map_or(UNKNOWN_ADDRESS, |peer| peer.0);
    if !server.network.serves(peer) {
        let why = "plain HTTP is served to the proxy alone: use its https URL\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let client = server.network.client(peer, headers);
    let host = client.host.as_deref().or_else(|| only(headers, &HOST));
    let names = &server.network.names;
    let scheme = client.scheme.as_deref().unwrap_or(server.network.scheme);
    if !host.is_some_and(|host| names.has_host(host, scheme)) || uri.authority().is_some() {
        let why = format!("requests must name this server's host, which is {}\n", names.list());
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    let origin = only(headers, &ORIGIN);
    if headers.contains_key(ORIGIN) && !origin.is_some_and(|it| names.has_origin(it, scheme)) {
        let why = "web pages of other origins are not served\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    for_client(Some(client.address), next.run(request)).await
}

/// Refuses callers without a valid token, and bodies that are not JSON: a page of another origin can send
/// other content types without a CORS preflight.
pub(super) async fn authorize(
    State(server): State<Arc<A2aServer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = token(request.uri(), request.headers());
    let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0);
    let headers = request.headers();
    match server.principals.find(token.as_deref(), peer, headers).await {
        Ok(principal) => {
            if let Some(slot) = request.extensions().get::<Arc<ConnectionSlot>>() {
                slot.mark_authenticated();
            }
            if let Err(refused) = server.meter.request(principal.id()) {
                let (what, why) = (request.uri().path(), refused.message());
                server.audit.denied(principal.id(), what, &why);
                return retry_later(StatusCode::TOO_MANY_REQUESTS, &why, refused.seconds());
            }
            request.extensions_mut().insert(principal);
        }
        Err(error) => return refusal(&server, &request, token.is_some(), &error),
    }
    if request.method() == Method::POST && !is_json(&request) {
        let why = "the body must be application/json or application/a2a+json\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    next.run(request).await
}

/// Returns the response to a caller without a valid token.
fn refusal(
    server: &A2aServer,
    request: &Request,
    has_token: bool,
    error: &AccessError,
) -> Response {
    let (id, why) = match error {
        AccessError::Unknown => (None, "the token is missing or wrong"),
        AccessError::Revoked(id) => (Some(id), "the token is revoked"),
        AccessError::Invalid(why) => (None, why.as_str()),
        AccessError::Unavailable => (None, "the keys of the tokens' issuer cannot be fetched"),
    };
    // An outage of the issuer is no sign of guessing, so the request is not counted.
    let counted = match error {
        AccessError::Unavailable => Refusal::Told,
        _ => server.refusals.count(client_address()),
    };
    if let Refusal::TooMany { seconds, is_first } = counted {
        let too_many = "too many requests without a valid token";
        if is_first {
            let why = format!(
                "{too_many}: further requests of this address are not written for {seconds} s"
            );
            server.audit.denied(None, request.uri().path(), &why);
        }
        return retry_later(StatusCode::TOO_MANY_REQUESTS, too_many, seconds);
    }
    server.audit.denied(id, request.uri().path(), why);
    let why = match error {
        AccessError::Unavailable => {
            return busy::response("the keys of the tokens' issuer cannot be fetched\n");
        }
        AccessError::Invalid(why) => format!("the token is not accepted: {why}\n"),
        _ => "the token is missing or wrong\n".to_owned(),
    };
    let challenge = if has_token { INVALID_TOKEN } else { BEARER_CHALLENGE };
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)], why).into_response()
}

/// Returns the token of a request, from its header or its query.
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

/// Returns `true` if the body is JSON, or if there is no body because the URL says everything.
fn is_json(request: &Request) -> bool {
    let headers = request.headers();
    if !headers.contains_key(CONTENT_TYPE) && request.body().is_end_stream() {
        return true;
    }
    let kind = only(headers, &CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/a2a+json"].iter().any(|it| kind.eq_ignore_ascii_case(it))
}

/// Returns the value of a header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}
