//! HTTP for the models' APIs: a client that is built at the first request, and failures with messages for people.

use std::error::Error as _;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Request, Response, Url, redirect};
use tokio::time::timeout;

use super::Error;
use super::endpoint::Endpoint;
use super::retry::RequestFailure;
use tandem_net::{self as net, USER_AGENT};
use tandem_trace as trace;

/// Maximum size of an error's body in bytes, and maximum time to read it.
pub(super) const ERROR_BODY: usize = 64 * 1024;
const ERROR_TIME: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
/// Value of [`RequestFailure::reason`] if no connection could be made.
pub(super) const NO_CONNECTION: &str = "the connection failed";

/// An HTTP client that is built at the first request, because loading certificates takes a while.
pub(super) struct Http {
    client: OnceLock<Client>,
    connect_timeout: Duration,
    /// `true` if only programs on this machine are called, over `http:`.
    is_local: bool,
}

impl Http {
    pub(super) fn new(connect_timeout: Duration) -> Self {
        Self { client: OnceLock::new(), connect_timeout, is_local: false }
    }

    /// Returns a client for programs on this machine of which nothing is known, over `http:` alone. It follows no
    /// redirects, and uses no proxy, which would look for the programs on its own machine.
    pub(super) fn on_this_machine(connect_timeout: Duration) -> Self {
        Self { is_local: true, ..Self::new(connect_timeout) }
    }

    pub(super) fn client(&self) -> Result<&Client, RequestFailure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let begin =
            || Client::builder().user_agent(USER_AGENT).connect_timeout(self.connect_timeout);
        let client = if self.is_local {
            net::build_without_tls(begin().redirect(redirect::Policy::none()).no_proxy())
        } else {
            net::build(|| begin().redirect(redirect::Policy::custom(stay)))
        };
        let client = client.map_err(|error| {
            let why = format!("The HTTP client could not be built: {}", cause(&error));
            RequestFailure::terminal(Error::Unavailable(why))
        })?;
        // Two first requests at the same time may both build a client; the first one built is used.
        Ok(self.client.get_or_init(|| client))
    }

    /// Authorizes and sends a request, and waits for the head of the response, with any status.
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        mut request: Request,
        patience: Duration,
    ) -> Result<Response, RequestFailure> {
        trace::add_to(&mut request);
        // A signature covers the request as it is sent, so nothing may change the request after this.
        if let Some(authorization) = &endpoint.authorization {
            authorization.0.authorize(&mut request).await.map_err(unauthorized)?;
        }
        let host = host(request.url());
        // The client's own timeout is not used, because it would also end a long stream.
        let response = timeout(patience, self.client()?.execute(request)).await;
        let response = response
            .map_err(|_| silent(&host, patience))?
            .map_err(|error| lost(&host, &error.without_url()))?;
        // The user may log in anew before the next request.
        let is_refused = matches!(response.status().as_u16(), 401 | 403);
        if let Some(authorization) = endpoint.authorization.as_ref().filter(|_| is_refused) {
            authorization.0.forget();
        }
        Ok(response)
    }
}

/// Follows redirects only within the same host: no other host gets the key.
fn stay(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let next = attempt.url();
    let same = attempt.previous().last().is_some_and(|last| {
        last.scheme() == next.scheme()
            && last.host_str() == next.host_str()
            && last.port_or_known_default() == next.port_or_known_default()
    });
    // The redirect is stopped, and is not an error: the status and the header then say where the address redirects.
    if same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Headers of an error response.
pub(super) struct Head {
    pub(super) status: u16,
    /// Wait until the server takes requests again.
    pub(super) retry_after: Option<Duration>,
    /// Statement of the server on whether to retry.
    pub(super) should_retry: Option<bool>,
    /// Target of a redirect.
    pub(super) location: Option<String>,
}

impl Head {
    pub(super) fn from_response(response: &Response) -> Self {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let millis = header("retry-after-ms").and_then(|it| it.trim().parse::<f64>().ok());
        let millis = millis.and_then(|it| Duration::try_from_secs_f64(it / 1000.0).ok());
        Self {
            status: response.status().as_u16(),
            retry_after: millis.or_else(|| net::retry_after(header("retry-after")?)),
            should_retry: header("x-should-retry").and_then(|it| it.trim().parse().ok()),
            location: header("location").map(str::to_owned),
        }
    }
}

/// Reads the next bytes of a body; `None` at its end.
pub(super) async fn next_bytes(
    response: &mut Response,
    patience: Duration,
) -> Result<Option<impl Deref<Target = [u8]> + use<>>, RequestFailure> {
    match timeout(patience, response.chunk()).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(lost(&host(response.url()), &error.without_url())),
        Err(_) => Err(silent(&host(response.url()), patience)),
    }
}

/// Reads the body of an error, up to the limits of size and time.
pub(super) async fn error_body(response: Response, patience: Duration) -> Vec<u8> {
    body(response, ERROR_BODY, patience.min(ERROR_TIME)).await
}

/// Reads a short body. Leaves out bytes beyond the limit of size or time.
pub(super) async fn body(mut response: Response, max: usize, patience: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = next_bytes(&mut response, patience).await {
            body.extend_from_slice(&bytes[..bytes.len().min(max - body.len())]);
            if body.len() == max {
                break;
            }
        }
    };
    // After the timeout, the bytes that have arrived are used.
    drop(timeout(patience, read).await);
    body
}

/// Characters that are not percent-encoded in a model's id.
const ID_CHARACTERS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@');

/// Returns the path of a model's method in an API of Google.
pub(super) fn model_path(id: &str, method: &str) -> String {
    format!("/{}:{method}", utf8_percent_encode(id, ID_CHARACTERS))
}

/// Parses an address. A request with a `secret` must be encrypted, unless it stays on this machine.
pub(super) fn address(text: &str, secret: bool) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|error| {
        Error::Rejected(format!(
            "`{text}` is not a valid API address ({error}). Correct the address."
        ))
    })?;
    let local = url.host_str().is_some_and(is_loopback);
    match url.scheme() {
        "https" => Ok(url),
        "http" if local || !secret => Ok(url),
        scheme => Err(Error::Rejected(format!(
            "The API's address {scheme}://{} is not https, so the key was not sent: others on the network could \
             read the key. Use an https address; http is for servers on this machine only.",
            host(&url)
        ))),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns `true` if an address is on this host, or on a host whose name is below the host's: providers have such names
/// for regions, such as `eu.api.openai.com`.
pub(super) fn is_on_host(url: &str, host: &str) -> bool {
    let is_same_or_below = |name: &str| {
        let before = name.strip_suffix(host);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(is_same_or_below))
}

/// Returns `true` if an address is on this machine.
pub fn is_local(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(is_loopback))
}

/// Returns `true` if an address is on this machine or in its network, where people run servers themselves.
pub(super) fn is_self_hosted(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| net::is_self_hosted(&url))
}

/// Makes a header whose value is not shown in logs.
pub(super) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Error> {
    net::secret_header(name, value).ok_or_else(|| {
        Error::Rejected(format!(
            "The header `{}` cannot be sent: its name or value has characters that no header can \
             have. Correct the custom headers.",
            name.escape_debug()
        ))
    })
}

fn host(url: &Url) -> Arc<str> {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}").into(),
        None => host.into(),
    }
}

/// Returns the failure of a request that could not be authorized.
fn unauthorized(error: Error) -> RequestFailure {
    match error {
        Error::Unavailable(_) => RequestFailure::passing("no credentials", error),
        error => RequestFailure::terminal(error),
    }
}

fn silent(host: &str, patience: Duration) -> RequestFailure {
    let seconds = patience.as_secs_f64();
    let error = Error::Unavailable(format!(
        "{host} sent nothing for {seconds} seconds. Try again, or try another model."
    ));
    RequestFailure::passing("server silent", error)
}

fn lost(host: &str, error: &reqwest::Error) -> RequestFailure {
    if let Some(why) = net::lacks_certificates(error) {
        let why = format!("{host} cannot be reached: {why}.");
        return RequestFailure::terminal(Error::Unavailable(why));
    }
    let why = cause(error);
    if let Some(reason) = distrusted(error) {
        return RequestFailure::terminal(Error::Unavailable(format!(
            "The certificate of {host} is not trusted: {reason}. If there is a proxy of your organisation in \
             between, install the proxy's certificate on this machine, or name a file with the certificate in \
             SSL_CERT_FILE."
        )));
    }
    if speaks_no_tls(error) {
        return RequestFailure::terminal(Error::Unavailable(format!(
            "{host} does not speak https. If this server speaks http, begin its address with `http://`."
        )));
    }
    if error.is_builder() {
        let why = format!("The request to {host} could not be made: {why}.");
        return RequestFailure::terminal(Error::Rejected(why));
    }
    let (what, reason) = if error.is_connect() {
        ("could not be reached", NO_CONNECTION)
    } else {
        ("broke off", "the connection was lost")
    };
    let error =
        Error::Unavailable(format!("{host} {what}: {why}. Check the network and try again."));
    RequestFailure::passing(reason, error)
}

/// Returns the reason why a certificate was not accepted, if the error is about a certificate.
fn distrusted(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match net::tls_error(error)? {
        rustls::Error::InvalidCertificate(reason) => Some(reason.to_string()),
        _ => None,
    }
}

/// Returns `true` if the server has answered the first TLS message with something that is not TLS.
fn speaks_no_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(net::tls_error(error), Some(rustls::Error::InvalidMessage(_)))
}

/// Returns the message of the innermost error. The outer errors only say that something failed.
fn cause(error: &reqwest::Error) -> String {
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    cause
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[track_caller]
    fn check(text: &str, accepted: bool) {
        assert_eq!(address(text, true).is_ok(), accepted, "{text}");
    }

    #[test]
    fn only_this_machine_is_called_without_https() {
        check("https://generativelanguage.googleapis.com/v1beta/models", true);
        check("http://localhost:8080/x", true);
        check("http://127.0.0.1/x", true);
        check("http://[::1]:9/x", true);
        check("http://example.com/x", false);
        check("http://localhost.example.com/x", false);
        check("http://127.0.0.1.example.com/x", false);
        check("http://10.0.0.1/x", false);
        check("ftp://localhost/x", false);
        check("file:///etc/passwd", false);
        check("example.com", false);
        check("", false);
        assert!(address("http://10.0.0.1:8000/v1", false).is_ok(), "nothing secret is sent");
        assert!(address("ftp://10.0.0.1/v1", false).is_err());
    }

    #[test]
    fn an_address_that_is_refused_is_named_without_its_password() {
        let error = address("http://user:secret@example.com:81/x", true).unwrap_err().to_string();
        assert!(error.contains("http://example.com:81 "), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn hosts_are_compared_whole() {
        assert!(is_local("http://[::1]:80/v1") && !is_local("http://gpu-box/v1"));
        assert!(is_on_host("https://api.openai.com/v1", "api.openai.com"));
        assert!(is_on_host("https://eu.api.openai.com/v1", "api.openai.com"));
        for other in ["api.openai.com.example", "my-api.openai.com", "openai.com", "localhost"] {
            assert!(!is_on_host(&format!("https://{other}/v1"), "api.openai.com"), "{other}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_found_however_it_is_wrapped() {
        let certificate = || rustls::Error::from(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::other(certificate()));
        assert_eq!(distrusted(&certificate()), Some("UnknownIssuer".into()));
        assert_eq!(distrusted(&wrapped), distrusted(&certificate()));
        assert_eq!(distrusted(&io::Error::other("bad record mac")), None);
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named_and_its_value_is_not() {
        let error = header("x-key", "secret\nx").unwrap_err().to_string();
        assert!(error.contains("`x-key`") && !error.contains("secret"), "{error}");
        let shown = format!("{:?}", header("x-key", "secret").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
