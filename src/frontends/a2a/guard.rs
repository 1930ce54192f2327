//! Admission to the server: for programs of this machine, and for no page of a web site.
//!
//! A browser lets any page send requests to a local port. It says so in `Origin`, and a name that
//! was made to lead here stands in `Host`.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};

use super::server::Server;

/// Why a request is not answered, and the status that says so.
pub(super) type Refusal = (StatusCode, &'static str);

impl Server {
    /// Returns an error unless a request may be answered.
    pub(super) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host = only(headers, &HOST).filter(|host| self.is_own(host));
        let host = host.filter(|_| uri.authority().is_none());
        if host.is_none() {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "this server is called 127.0.0.1, localhost or [::1], with its port",
            ));
        }
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
            if !origin.is_some_and(|origin| self.is_own(origin)) {
                return Err((StatusCode::FORBIDDEN, "web pages of other origins are not served"));
            }
        }
        // The card is how a client learns that there is a token.
        let card = uri.path().contains("/.well-known/");
        if !card && !self.knows(uri, headers) {
            return Err((StatusCode::UNAUTHORIZED, "the token is missing or wrong"));
        }
        if method == Method::POST && !is_json(headers) {
            return Err((
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be application/json or application/a2a+json",
            ));
        }
        Ok(())
    }

    /// Returns whether the name of a host, with its port, is this server's.
    fn is_own(&self, host: &str) -> bool {
        let port = format!(":{}", self.port);
        let name = host.strip_suffix(&port);
        name.is_some_and(|name| {
            ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| name.eq_ignore_ascii_case(own))
        })
    }

    /// Returns whether the caller has the token, or none is needed.
    fn knows(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(token) = &self.options.token else { return true };
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
        given.or_else(in_query).is_some_and(|given| same(given.as_bytes(), token.as_bytes()))
    }
}

/// Compares in a time that says nothing of where the two differ.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let differences = given.iter().zip(wanted).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == wanted.len() && differences == 0
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = only(headers, &CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/a2a+json"].iter().any(|it| kind.eq_ignore_ascii_case(it))
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}
