//! Texts of errors of connections to servers, for people.

use std::error::Error;

use rmcp::transport::streamable_http_client::StreamableHttpError;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_net as net;

/// Maximum number of characters of an error's text.
const ERROR_CHARS: usize = 300;

/// Text for an answer that is anything else than MCP.
pub(super) const NO_MESSAGE: &str = "it answers with no message of MCP";

/// Returns why a server that a peer has named cannot be asked, without anything that it has
/// answered: it may be any service, and the peer must not be able to read it through this program.
pub(super) fn discreet(error: &(dyn Error + 'static)) -> String {
    tracing::debug!("{}", causes(error));
    let mut cause = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::Client(error)) => return unconnected(error),
            Some(StreamableHttpError::HttpStatus(error)) => return answered(error.status),
            Some(StreamableHttpError::UnexpectedServerResponse(said)) => {
                // rmcp gives the status in no other way.
                let status = said.strip_prefix("HTTP ").and_then(|it| it.get(..3)?.parse().ok());
                return status.map_or_else(|| NO_MESSAGE.to_owned(), answered);
            }
            _ => cause = error.source(),
        }
    }
    NO_MESSAGE.to_owned()
}

fn answered(status: u16) -> String {
    format!("it answers HTTP {status}")
}

/// Returns why a request got no answer; of what a name leads to, no more than that it is out of reach.
fn unconnected(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return answered(status.as_u16());
    }
    let why = match error {
        error if net::refused(error).is_some() => {
            "what its name leads to is not where clients' servers may be"
        }
        error if error.is_timeout() => "it does not answer in time",
        error if error.is_connect() => "nothing answers there",
        _ => "the connection broke off",
    };
    format!("it cannot be reached: {why}")
}

/// Returns the reason for which a web service cannot be asked at all. rmcp's own error says only that it cannot.
pub(super) fn unreachable(mut error: &(dyn Error + 'static)) -> Option<String> {
    loop {
        let failure = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some(StreamableHttpError::Client(error)) = failure {
            return Some(format!("it cannot be reached: {}", net::cause(error)));
        }
        error = error.source()?;
    }
}

/// An error with what caused it, on one line.
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
