//! One attempt to deliver a notification, and when another may follow.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio::time::timeout;

use super::{Delivery, Limits};
use crate::net::{self, Lookup, Reach};

/// How long a connection may stay open with nothing to send. Connections are kept to save the next
/// notification a handshake; they lead to an address that has been judged.
const IDLE: Duration = Duration::from_secs(30);

/// What went wrong. The words name no more of an address than its host.
#[derive(Debug)]
pub(super) enum Failure {
    /// It would again.
    Final(String),
    /// It may pass.
    Passing {
        why: String,
        /// How long the server has asked us to wait.
        asked: Option<Duration>,
    },
}

/// Makes attempts.
pub(super) struct Courier {
    /// Made when first needed: loading certificates takes a while.
    client: OnceLock<Client>,
    reach: Reach,
    timeout: Duration,
    lookup: Lookup,
}

impl Courier {
    pub(super) fn new(reach: Reach, timeout: Duration, lookup: Lookup) -> Self {
        Self { client: OnceLock::new(), reach, timeout, lookup }
    }

    pub(super) async fn attempt(&self, delivery: &Delivery) -> Result<(), Failure> {
        // The resolver judges names only.
        delivery.target.judge(self.reach).map_err(Failure::Final)?;
        let headers = headers(&delivery.headers).map_err(Failure::Final)?;
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

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = net::build(|| {
            net::client(Arc::clone(&self.lookup), self.reach)
                // A proxy would look the name up once more.
                .no_proxy()
                // Shared among a name's addresses, so that one that is dead leaves time for the next.
                .connect_timeout(self.timeout / 2)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(1)
        });
        let client = client
            .map_err(|error| Failure::Final(format!("no HTTP client: {}", net::cause(&error))))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Whether the server has taken it. The body of the response is not read.
fn judge_response(response: &Response) -> Result<(), Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let why = format!("it answered {}", status.as_u16());
    let may_pass = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if !may_pass {
        return Err(Failure::Final(why));
    }
    let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Err(Failure::Passing {
        why,
        asked: asked.and_then(|text| retry_after(text, SystemTime::now())),
    })
}

fn lost(error: &reqwest::Error) -> Failure {
    if let Some(refused) = net::refused(error) {
        return Failure::Final(refused.to_string());
    }
    let why = net::cause(error);
    if error.is_builder() { Failure::Final(why) } else { passing(why) }
}

fn passing(why: String) -> Failure {
    Failure::Passing { why, asked: None }
}

/// Whether a header can be sent, for a client's token before it is accepted; a sentence that does
/// not say the value if not.
pub fn check_header(name: &str, value: &str) -> Result<(), String> {
    header(name, value).map(drop)
}

fn headers(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    headers.iter().map(|(name, value)| header(name, value)).collect()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let bad = || format!("The header `{}` cannot be sent.", name.escape_debug());
    let name = HeaderName::try_from(name).map_err(|_| bad())?;
    let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// How long to wait when this many attempts have failed; `chance` is a random number from 0 to 1.
pub(super) fn wait(limits: &Limits, failed: u32, asked: Option<Duration>, chance: f64) -> Duration {
    let factor = 2_u32.saturating_pow(failed.saturating_sub(1));
    let grown = limits.first_wait.saturating_mul(factor).min(limits.longest_wait);
    // From half of it to all of it: many that fail together do not come back together.
    let usual = grown / 2 + (grown / 2).mul_f64(chance);
    asked.map_or(usual, |asked| asked.min(limits.longest_retry_after).max(usual))
}

/// Reads a `Retry-After` header: seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(failed: u32, asked: Option<u64>, chance: f64) -> u128 {
        wait(&Limits::default(), failed, asked.map(Duration::from_secs), chance).as_millis()
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

    #[test]
    fn a_server_asks_for_seconds_or_names_a_time() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let read = |text| retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(read(" 7 "), Some(7));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:30 GMT"), Some(30));
        assert_eq!(read("Wed, 21 Oct 2015 07:27:30 GMT"), None);
        assert_eq!(read("-1"), None);
        assert_eq!(read("soon"), None);
    }
}
