//! Error texts for people about connections to servers.

use std::error::Error;

use rmcp::transport::streamable_http_client::StreamableHttpError;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_net as net;

/// Maximum number of characters of an error's text.
const ERROR_CHARS: usize = 300;

/// Text for an answer that is not an MCP message.
pub(super) const NO_MESSAGE: &str = "its answer is not a message of MCP";

/// Returns the reason why a server that a peer has named cannot be used, without any part of its answer: the server
/// may be any service, and the peer must not be able to read it through this program.
pub(super) fn discreet(error: &(dyn Error + 'static)) -> String {
    tracing::debug!("{}", causes(error));
    if let Some(status) = http_status(error) {
        return format!("it answers HTTP {status}");
    }
    match transport_error(error) {
        Some(StreamableHttpError::Client(error)) => unconnected(error),
        _ => NO_MESSAGE.to_owned(),
    }
}

/// Returns the status of the response that is the cause of an error, if there was a response with a status.
pub(super) fn http_status(error: &(dyn Error + 'static)) -> Option<u16> {
    match transport_error(error)? {
        StreamableHttpError::Client(error) => error.status().map(|status| status.as_u16()),
        StreamableHttpError::HttpStatus(error) => Some(error.status),
        // The text is the only place where rmcp gives the status.
        StreamableHttpError::UnexpectedServerResponse(said) => {
            said.strip_prefix("HTTP ").and_then(|it| it.get(..3)?.parse().ok())
        }
        _ => None,
    }
}

/// Returns the first error among an error and its causes that says how a request of the HTTP transport ended.
fn transport_error<'a>(
    mut error: &'a (dyn Error + 'static),
) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    loop {
        let failure = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some(
            StreamableHttpError::Client(_)
            | StreamableHttpError::HttpStatus(_)
            | StreamableHttpError::UnexpectedServerResponse(_),
        ) = failure
        {
            return failure;
        }
        error = error.source()?;
    }
}

/// Returns the reason why a request got no answer. If the name leads to addresses out of reach, the text does not
/// name them.
fn unconnected(error: &reqwest::Error) -> String {
    let why = match error {
        error if net::refused(error).is_some() => {
            "its name leads to an address where servers that clients name may not be"
        }
        error if error.is_timeout() => "it does not answer in time",
        error if error.is_connect() => "nothing answers there",
        _ => "the connection broke off",
    };
    format!("it cannot be reached: {why}")
}

/// Returns the reason why a web service cannot be reached. The text of rmcp's own error does not have it.
pub(super) fn unreachable(mut error: &(dyn Error + 'static)) -> Option<String> {
    loop {
        let failure = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some(StreamableHttpError::Client(error)) = failure {
            return Some(format!("it cannot be reached: {}", net::cause(error)));
        }
        error = error.source()?;
    }
}

/// Returns the text of an error and of its causes, on one line.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    one_line(&plain(words.as_bytes()), ERROR_CHARS)
}
