//! A single attempt to deliver a notification, and the wait before the next one.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio::time::timeout;

use super::delivery::{Delivery, WebhookLimits};
use tandem_net::{self as net, Backoff, Lookup, Reach};

/// Maximum time that an idle connection stays open. Connections are reused to save the next notification a
/// handshake. They lead to addresses that have been checked.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Failure of an attempt. The text names at most the host of the URL.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// Another attempt would fail in the same way.
    Final(String),
    /// Another attempt may succeed.
    Passing {
        why: String,
        /// Wait that the server asks for.
        asked: Option<Duration>,
    },
}

/// HTTP client that makes the attempts.
pub(super) struct WebhookClient {
    /// The client, made when it is first needed because loading the certificates takes a while.
    client: OnceLock<Client>,
    reach: Reach,
    timeout: Duration,
    lookup: Lookup,
}

impl WebhookClient {
    pub(super) fn new(reach: Reach, timeout: Duration, lookup: Lookup) -> Self {
        Self { client: OnceLock::new(), reach, timeout, lookup }
    }

    pub(super) async fn attempt(&self, delivery: &Delivery) -> Result<(), AttemptError> {
        // The resolver checks only names, so an address in the URL is checked here.
        delivery.target.check_host(self.reach).map_err(AttemptError::Final)?;
        let headers = headers(&delivery.headers).map_err(AttemptError::Final)?;
        let request = self
            .client()?
            .post(delivery.target.url().clone())
            .headers(headers)
            .body(delivery.body.clone());
        match timeout(self.timeout, request.send()).await {
            Ok(Ok(response)) => judge_response(&response),
            Ok(Err(error)) => Err(lost(&error)),
            Err(_) => Err(passing(format!("no answer within {:?}", self.timeout))),
        }
    }

    fn client(&self) -> Result<&Client, AttemptError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = net::build(|| {
            net::client(Arc::clone(&self.lookup), self.reach)
                // A proxy would resolve the name a second time, and could get an address that was not
                // checked.
                .no_proxy()
                // The time is shared among the addresses of a name, so that a dead address leaves time for
                // the next one.
                .connect_timeout(self.timeout / 2)
                .pool_idle_timeout(IDLE_TIMEOUT)
                .pool_max_idle_per_host(1)
        });
        let client = client.map_err(|error| {
            AttemptError::Final(format!("no HTTP client: {}", net::cause(&error)))
        })?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Fails unless the server has accepted the notification. The body of the response is not read.
fn judge_response(response: &Response) -> Result<(), AttemptError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let why = format!("it answered {}", status.as_u16());
    let may_pass = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if !may_pass {
        return Err(AttemptError::Final(why));
    }
    let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Err(AttemptError::Passing { why, asked: asked.and_then(net::retry_after) })
}

fn lost(error: &reqwest::Error) -> AttemptError {
    if let Some(refused) = net::refused(error) {
        return AttemptError::Final(refused.to_string());
    }
    let why = net::cause(error);
    if error.is_builder() { AttemptError::Final(why) } else { passing(why) }
}

fn passing(why: String) -> AttemptError {
    AttemptError::Passing { why, asked: None }
}

/// Checks that a header can be sent, before a client's configuration is accepted. The error does not contain
/// the header's value.
pub fn check_header(name: &str, value: &str) -> Result<(), String> {
    header(name, value).map(drop)
}

fn headers(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    headers.iter().map(|(name, value)| header(name, value)).collect()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    net::secret_header(name, value)
        .ok_or_else(|| format!("The header `{}` cannot be sent.", name.escape_debug()))
}

/// Returns the wait after `failed` failed attempts. `asked`: wait that the server asks for; `chance`: random
/// number from 0 to 1.
pub(super) fn wait(
    limits: &WebhookLimits,
    failed: u32,
    asked: Option<Duration>,
    chance: f64,
) -> Duration {
    let WebhookLimits { first_wait, longest_wait, longest_retry_after, .. } = *limits;
    let backoff = Backoff { jitter: 0.5..1.0, ..Backoff::doubling(first_wait, longest_wait) };
    let usual = backoff.delay_at(failed, chance);
    asked.map_or(usual, |asked| asked.min(longest_retry_after).max(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(failed: u32, asked: Option<u64>, chance: f64) -> u128 {
        wait(&WebhookLimits::default(), failed, asked.map(Duration::from_secs), chance).as_millis()
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits = [1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|failed| millis(failed, None, 1.0));
        assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn chance_shortens_a_wait_to_half_at_most() {
        assert_eq!(millis(3, None, 0.0), 2000);
        assert_eq!(millis(3, None, 0.5), 3000);
    }

    #[test]
    fn what_the_server_asks_for_lengthens_a_wait_up_to_a_minute() {
        assert_eq!(millis(1, Some(0), 1.0), 1000);
        assert_eq!(millis(1, Some(20), 0.0), 20_000);
        assert_eq!(millis(1, Some(61), 0.0), 60_000);
        assert_eq!(millis(1, Some(u64::MAX), 0.0), 60_000);
    }
}
