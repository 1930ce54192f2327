//! Which API is called, and with which key: decided by variables and by the key that is stored.

use std::net::IpAddr;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use super::env::{KEYS, Var, Vars};
use crate::model::Secret;
use crate::model::gemini::Endpoint;

const GEMINI: &str = "https://generativelanguage.googleapis.com";
const GEMINI_URL: &str = "GOOGLE_GEMINI_BASE_URL";
const VERTEX: &str = "https://aiplatform.googleapis.com";
const VERTEX_URL: &str = "GOOGLE_VERTEX_BASE_URL";
const USE_VERTEX: &str = "GOOGLE_GENAI_USE_VERTEXAI";
const VERSION: &str = "GOOGLE_GENAI_API_VERSION";
const MECHANISM: &str = "GEMINI_API_KEY_AUTH_MECHANISM";
/// What is in it may be secret too.
pub(super) const HEADERS: &str = "GEMINI_CLI_CUSTOM_HEADERS";

/// Where to call, and where the key for it was set.
pub(super) struct Found {
    pub endpoint: Endpoint,
    /// The variable, unless the key is the stored one or none is needed.
    pub variable: Option<String>,
}

/// Why there is nothing to call.
pub(super) enum Unusable {
    /// There is no key.
    NoKey,
    /// Something is set that cannot be used: what, and what to do.
    Wrong(String),
}

impl From<String> for Unusable {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// Decides. `stored` is asked only if no variable has a key.
pub(super) fn find(
    vars: Vars<'_>,
    stored: impl FnOnce() -> Result<Option<Secret>, String>,
) -> Result<Found, Unusable> {
    if vars.get(USE_VERTEX).is_some_and(|var| is_true(var.value)) {
        let var = vars.get("GOOGLE_API_KEY").ok_or_else(|| {
            format!(
                "{USE_VERTEX} is set, and Vertex AI is called with an API key only: set \
                 GOOGLE_API_KEY too, or unset {USE_VERTEX}."
            )
        })?;
        let models = "publishers/google/models";
        let endpoint = endpoint(vars, (VERTEX_URL, VERTEX, "v1beta1", models), Some(key(var)?))?;
        return Ok(Found { endpoint, variable: Some(var.to_string()) });
    }
    let var = vars.first(&KEYS);
    let key = match var {
        Some(var) => Some(key(var)?),
        None => stored()?,
    };
    if key.is_none() && vars.get(GEMINI_URL).is_none() {
        return Err(Unusable::NoKey);
    }
    let endpoint = gemini(vars, key)?;
    Ok(Found { endpoint, variable: var.map(|var| var.to_string()) })
}

/// The endpoint for a key that would be stored.
pub(super) fn gemini(vars: Vars<'_>, key: Option<Secret>) -> Result<Endpoint, String> {
    endpoint(vars, (GEMINI_URL, GEMINI, "v1beta", "models"), key)
}

/// A key as people copy it: white space and quotes around it are not of it. The error goes on
/// after what the key is called.
pub(super) fn clean_key(text: &str) -> Result<Secret, &'static str> {
    let key = text.trim_matches(|c: char| c.is_whitespace() || "\"'`".contains(c));
    if key.is_empty() {
        return Err("is empty");
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has characters in it that are in no key, such as white space: copy it again");
    }
    Ok(Secret::new(key))
}

fn key(var: Var<'_>) -> Result<Secret, String> {
    clean_key(var.value).map_err(|why| format!("{var} {why}."))
}

/// `api`: the variable that replaces the base URL, that URL, the version, the collection.
fn endpoint(
    vars: Vars<'_>,
    api: (&str, &str, &str, &str),
    key: Option<Secret>,
) -> Result<Endpoint, String> {
    let (variable, base, version, models) = api;
    let base = match vars.get(variable) {
        Some(var) => base_url(var.value).map_err(|why| format!("{var} {why}."))?,
        None => base.to_owned(),
    };
    let version = match vars.get(VERSION) {
        Some(var) if var.value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) => {
            var.value
        }
        Some(var) => return Err(format!("{var} is no version such as v1beta.")),
        None => version,
    };
    let bearer = match vars.get(MECHANISM) {
        Some(var) if var.value.eq_ignore_ascii_case("bearer") => true,
        Some(var) if !var.value.eq_ignore_ascii_case("x-goog-api-key") => {
            return Err(format!("{var} must be bearer or x-goog-api-key."));
        }
        _ => false,
    };
    let headers = match vars.get(HEADERS) {
        Some(var) => headers(var.value).map_err(|why| format!("{var} {why}."))?,
        None => Vec::new(),
    };
    Ok(Endpoint { models_url: format!("{base}/{version}/{models}"), key, bearer, headers })
}

fn is_true(value: &str) -> bool {
    value.eq_ignore_ascii_case("true") || value == "1"
}

/// Without the slash at the end. Nothing of the URL is in the error: people put keys into URLs.
fn base_url(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "is not a URL")?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
        return Err("must begin with https:// (http:// is for this computer only)");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a name or password in it: use GEMINI_CLI_CUSTOM_HEADERS");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a `?` or `#` in it");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// `Name: value, Name2: value2`. A comma is a part of the value unless a name and a colon follow.
fn headers(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        let header = part.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        match (header, headers.last_mut()) {
            (Some((name, value)), _) if is_header_name(name) => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            (_, Some((_, value))) => {
                value.push(',');
                value.push_str(part.trim_end());
            }
            (_, None) if part.trim().is_empty() => {}
            (_, None) => return Err("must be like `Name: value, Name2: value2`"),
        }
    }
    // A comma at the end separates nothing.
    for (_, value) in &mut headers {
        value.truncate(value.trim_end_matches(',').len());
    }
    if headers.iter().any(|(_, value)| HeaderValue::from_str(value).is_err()) {
        return Err("has a value with characters in it that no header can have");
    }
    Ok(headers)
}

fn is_header_name(name: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{base_url, clean_key, headers};

    fn check_key(text: &str, expected: Option<&str>) {
        let key = clean_key(text).ok();
        assert_eq!(key.as_ref().map(crate::model::Secret::expose), expected, "{text:?}");
    }

    fn check_url(text: &str, expected: Option<&str>) {
        assert_eq!(base_url(text).ok().as_deref(), expected, "{text:?}");
    }

    fn check_headers(text: &str, expected: Option<&[(&str, &str)]>) {
        let found = headers(text).ok();
        let found: Option<Vec<_>> = found
            .as_ref()
            .map(|found| found.iter().map(|(name, value)| (&**name, &**value)).collect());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn what_is_around_a_key_is_not_of_it() {
        check_key(" \"AIza-x_1\"\r\n", Some("AIza-x_1"));
        check_key("'k'", Some("k"));
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        check_key("", None);
        check_key(" '' ", None);
        check_key("AIza\u{7}x", None);
        check_key("AIza\nx", None);
        check_key("AIza x", None);
        check_key("sch\u{fc}ssel", None);
    }

    #[test]
    fn base_urls_are_https_or_of_this_computer() {
        check_url("https://gate.example/gemini/", Some("https://gate.example/gemini"));
        check_url("http://localhost:8080", Some("http://localhost:8080"));
        check_url("http://127.0.0.1:8080/", Some("http://127.0.0.1:8080"));
        check_url("http://[::1]:8080", Some("http://[::1]:8080"));
        check_url("http://gate.example", None);
        check_url("http://localhost.example", None);
        check_url("http://127.0.0.1.example", None);
        check_url("ftp://localhost", None);
        check_url("gate.example", None);
    }

    #[test]
    fn base_urls_are_nothing_more() {
        check_url("https://u:p@gate.example", None);
        check_url("https://gate.example/?key=x", None);
        check_url("https://gate.example/#x", None);
    }

    #[test]
    fn headers_are_separated_by_commas() {
        check_headers("A: 1", Some(&[("A", "1")]));
        check_headers("A: 1, X-B:2,", Some(&[("A", "1"), ("X-B", "2")]));
    }

    #[test]
    fn values_of_headers_may_have_colons_and_commas() {
        check_headers("A: b:c:d, E: f", Some(&[("A", "b:c:d"), ("E", "f")]));
        check_headers("A: x, y, E: f", Some(&[("A", "x, y"), ("E", "f")]));
        check_headers("A: http://x:1/y", Some(&[("A", "http://x:1/y")]));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        check_headers("A", None);
        check_headers("A B: c", None);
        check_headers(": c", None);
        check_headers("A: b\nC", None);
        check_headers("A: b\u{1}", None);
    }
}
