//! Short requests to the services that give credentials.

use std::time::Duration;

use reqwest::{Client, Request, redirect};
use serde::de::DeserializeOwned;
use tandem_model::Error;
use tandem_net::{self as net, USER_AGENT};
use tokio::time::timeout;

/// Maximum size of a response in bytes. Credentials have a few thousand.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Maximum length of a message of a service that is shown, in bytes.
const MAX_MESSAGE_BYTES: usize = 300;

/// The network in which a service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// The internet, perhaps through a proxy.
    Internet,
    /// The machine's own link, which leads to the cloud that runs the machine. No proxy is asked.
    Link,
}

impl Network {
    fn timeout(self) -> Duration {
        match self {
            Self::Internet => Duration::from_secs(30),
            // On a machine that is in no cloud, nothing answers. The user waits meanwhile.
            Self::Link => Duration::from_secs(2),
        }
    }
}

/// Failure of a request to a service.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// The service could not be reached, or has failed: it may answer later.
    Unreachable(String),
    /// The service refused the request: the HTTP status and the service's message.
    Refused(u16, String),
}

impl FetchError {
    /// Returns the error for people. `what` names the request as the subject of a sentence, `advice` says what to do.
    pub(crate) fn into_error(self, what: &str, advice: &str) -> Error {
        match self {
            Self::Unreachable(why) => Error::Unavailable(format!("{what} failed: {why}.")),
            Self::Refused(status, why) => Error::NotAuthenticated(format!(
                "{what} was refused (HTTP {status}). {advice} The server says: {why}"
            )),
        }
    }
}

/// Sends a request, and reads the JSON of its response.
pub(crate) async fn json<T: DeserializeOwned>(
    network: Network,
    request: Request,
) -> Result<T, FetchError> {
    let host = request.url().host_str().unwrap_or_default().to_owned();
    let body = text(network, request).await?;
    // The parser's own message may repeat a part of the response, which may be secret.
    serde_json::from_str(&body)
        .map_err(|_| FetchError::Unreachable(format!("the answer of {host} is no valid JSON")))
}

/// Sends a request, and reads its response as text.
pub(crate) async fn text(network: Network, request: Request) -> Result<String, FetchError> {
    let host = request.url().host_str().unwrap_or_default().to_owned();
    let sent = timeout(network.timeout(), send(network, request)).await;
    sent.unwrap_or_else(|_| {
        let seconds = network.timeout().as_secs();
        Err(FetchError::Unreachable(format!("{host} did not answer within {seconds} seconds")))
    })
}

async fn send(network: Network, request: Request) -> Result<String, FetchError> {
    let unreachable =
        |error: reqwest::Error| FetchError::Unreachable(net::cause(&error.without_url()));
    let client = net::build(|| {
        // A redirect would carry the credentials to another place.
        let client = Client::builder().user_agent(USER_AGENT).redirect(redirect::Policy::none());
        if network == Network::Link { client.no_proxy() } else { client }
    });
    let mut response = client.map_err(unreachable)?.execute(request).await.map_err(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(unreachable)? {
        if body.len() + bytes.len() > MAX_RESPONSE_BYTES {
            return Err(FetchError::Unreachable("the answer is too long".to_owned()));
        }
        body.extend_from_slice(&bytes);
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    if status.is_success() {
        return Ok(text);
    }
    if status.is_server_error() {
        return Err(FetchError::Unreachable(format!("the server failed (HTTP {status})")));
    }
    Err(FetchError::Refused(status.as_u16(), message(&text)))
}

/// Returns the text of the first element of this name in XML that has no attributes.
pub(crate) fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

/// Returns the message of an error on one line: that of the fields in which services write it, else the body.
fn message(body: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let fields = ["error_description", "message", "Message", "error"];
    let told = json.as_ref().and_then(|json| {
        fields.iter().find_map(|field| json.get(field)?.as_str().map(str::to_owned))
    });
    let told = told.as_deref().or_else(|| element(body, "Message"));
    let words: Vec<_> = told.unwrap_or(body).split_whitespace().collect();
    let mut line = words.join(" ");
    line.truncate(line.floor_char_boundary(MAX_MESSAGE_BYTES));
    if line.is_empty() { "nothing".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn the_message_of_a_refusal_is_one_short_line() {
        assert_eq!(message(r#"{"error": "invalid_grant", "error_description": "a\nb"}"#), "a b");
        assert_eq!(message(r#"{"message": "no such role"}"#), "no such role");
        assert_eq!(message(" Forbidden\n"), "Forbidden");
        assert_eq!(
            message("<Error><Code>A</Code><Message>not\nyours</Message></Error>"),
            "not yours"
        );
        assert_eq!(message(""), "nothing");
        assert_eq!(message(&"ä".repeat(300)).len(), 300);
    }
}
