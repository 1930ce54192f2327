//! Address and key of an API.

use std::fmt;
use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Request};

use super::authorization::Authorization;
use super::provider::Provider;
use super::report::RequestInfo;
use super::{Error, Secret, http, redact};

/// Address and key of an API.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Provider of the API, for messages.
    pub provider: Provider,
    /// Base URL of every request, without a slash at the end. For the Gemini API, it ends with the collection of
    /// models: `https://generativelanguage.googleapis.com/v1beta/models`. For other APIs, it ends with the version,
    /// if they have one: `https://api.openai.com/v1`.
    pub url: String,
    /// Key for the API's own header, or a bearer token. A gateway may need no key.
    pub key: Option<Secret>,
    /// `true` if the key is sent as `Authorization: Bearer`.
    pub bearer: bool,
    /// Headers of every request that the provider has for all users. They are no secrets.
    pub fixed_headers: &'static [(&'static str, &'static str)],
    /// Headers of every request that the user has set. They may be secret.
    pub headers: Vec<(String, String)>,
    /// Authorizer of every request, in place of a key.
    pub authorization: Option<Authorization>,
}

/// A function that looks up the endpoint. It is called for each request, so that a login has an effect at once. The
/// error says what is missing or wrong, and what to do about it. Only a missing key is [`Error::NotAuthenticated`]: a
/// login helps with nothing else.
pub type Connect = Arc<dyn Fn() -> Result<Endpoint, Error> + Send + Sync>;

impl Endpoint {
    /// Returns an endpoint without a key.
    pub fn new(provider: Provider, url: String) -> Self {
        Self {
            provider,
            url,
            key: None,
            bearer: false,
            fixed_headers: &[],
            headers: Vec::new(),
            authorization: None,
        }
    }

    /// Checks that the endpoint may be called: secrets are never sent unencrypted.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.address("").map(drop)
    }

    /// Writes a request without a body; `rest` follows the base URL, and `own` is the API's header
    /// for the key.
    pub(super) fn request(&self, method: Method, rest: &str, own: &str) -> Result<Request, Error> {
        let mut request = Request::new(method, self.address(rest)?);
        *request.headers_mut() = self.headers(own)?;
        Ok(request)
    }

    fn address(&self, rest: &str) -> Result<reqwest::Url, Error> {
        http::address(&format!("{}{rest}", self.url.trim_end_matches('/')), self.has_secret())
    }

    fn headers(&self, own: &str) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.fixed_headers {
            let (name, value) = http::header(name, value)?;
            headers.insert(name, value);
        }
        if let Some(key) = self.key() {
            let (name, value) = if self.bearer {
                http::header("authorization", &format!("Bearer {key}"))
            } else {
                http::header(own, key)
            }
            .map_err(|_| {
                Error::NotAuthenticated(
                    "The API key has characters that no key can have. Copy the key again, and run \
                     `tandem login` or set the variable."
                        .to_owned(),
                )
            })?;
            headers.insert(name, value);
        }
        // Inserted last, so that the user's own headers override the header of the key.
        for (name, value) in &self.headers {
            let (name, value) = http::header(name, value)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Describes a request for a model, for messages.
    pub(super) fn request_info<'a>(&'a self, model: &'a str) -> RequestInfo<'a> {
        RequestInfo { provider: self.provider, model, url: &self.url, has_key: self.has_secret() }
    }

    /// Returns `true` if requests have something secret in them.
    fn has_secret(&self) -> bool {
        // Users of gateways may put the key into a header of any name, so any header of theirs counts as a key.
        self.key().is_some() || !self.headers.is_empty() || self.authorization.is_some()
    }

    fn key(&self) -> Option<&str> {
        self.key.as_ref().map(Secret::expose).filter(|key| !key.is_empty())
    }

    /// Removes the endpoint's secrets from a message for people.
    pub(super) fn redact(&self, text: &mut String) {
        let values = self.headers.iter().map(|(_, value)| value.as_str());
        let authorization = self.authorization.iter().flat_map(|it| it.0.secrets());
        let credentials: Vec<_> = authorization.collect();
        let credentials = credentials.iter().map(Secret::expose);
        let secrets: Vec<_> = self.key().into_iter().chain(values).chain(credentials).collect();
        redact::redact(text, &secrets);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may hold secrets too.
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("url", &self.url)
            .field("key", &self.key)
            .field("bearer", &self.bearer)
            .field("fixed_headers", &self.fixed_headers)
            .field("headers", &names)
            .field("authorization", &self.authorization)
            .finish()
    }
}
