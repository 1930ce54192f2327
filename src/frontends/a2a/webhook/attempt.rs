//! One attempt to deliver a notification, and when another may follow.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures::future::{self, BoxFuture};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, redirect};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::place::{is_this_machine, judge};
use super::{Delivery, Limits};

const AGENT: &str = concat!("tandem/", env!("CARGO_PKG_VERSION"));
/// How long a connection may stay open with nothing to send. Connections are kept to save the next
/// notification a handshake; they lead to an address that has been judged.
const IDLE: Duration = Duration::from_secs(30);

/// Finds the addresses of a name.
pub type Lookup = Arc<dyn Fn(String) -> Found + Send + Sync>;
/// The addresses of a name, in the order in which they are tried.
pub type Found = BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Asks the operating system.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

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
    allow_loopback: bool,
    timeout: Duration,
    lookup: Lookup,
}

impl Courier {
    pub(super) fn new(allow_loopback: bool, timeout: Duration, lookup: Lookup) -> Self {
        Self { client: OnceLock::new(), allow_loopback, timeout, lookup }
    }

    pub(super) async fn attempt(&self, delivery: &Delivery) -> Result<(), Failure> {
        // The resolver judges names only.
        delivery.target.judge(self.allow_loopback).map_err(Failure::Final)?;
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
        // Fails only if a provider is installed, which will do.
        drop(rustls::crypto::ring::default_provider().install_default());
        let judged =
            Judged { lookup: Arc::clone(&self.lookup), allow_loopback: self.allow_loopback };
        let client = Client::builder()
            .user_agent(AGENT)
            .redirect(redirect::Policy::none())
            .referer(false)
            // A proxy would look the name up once more.
            .no_proxy()
            .dns_resolver(judged)
            // Shared among a name's addresses, so that one that is dead leaves time for the next.
            .connect_timeout(self.timeout / 2)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|error| Failure::Final(format!("no HTTP client: {}", cause(&error))))?;
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
    if let Some(refused) = refused(error) {
        return Failure::Final(refused.to_string());
    }
    let why = cause(error);
    if error.is_builder() { Failure::Final(why) } else { passing(why) }
}

fn passing(why: String) -> Failure {
    Failure::Passing { why, asked: None }
}

fn refused<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a Refused> {
    loop {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        error = error.source()?;
    }
}

/// The innermost error: the outer ones say the whole address, and only that something failed.
fn cause(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request failed".to_owned() };
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Finds a name's addresses once and lets none through that may not be connected to: the
/// connection is made to what is let through, and the name is not looked up again.
struct Judged {
    lookup: Lookup,
    allow_loopback: bool,
}

impl Resolve for Judged {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let allow_loopback = self.allow_loopback;
        let found = if is_this_machine(&name) {
            // Not everywhere does the system know these names, and elsewhere they must not lead.
            let both = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            Box::pin(future::ready(Ok(both)))
        } else {
            (self.lookup)(name.clone())
        };
        Box::pin(async move { let_through(&name, found.await?, allow_loopback) })
    }
}

fn let_through(
    name: &str,
    found: Vec<IpAddr>,
    allow_loopback: bool,
) -> Result<Addrs, Box<dyn Error + Send + Sync>> {
    let mut why = None;
    let mut good = Vec::new();
    for address in found {
        match judge(address, allow_loopback) {
            // Port 0 stands for the one that the address of the webhook says.
            Ok(()) => good.push(SocketAddr::new(address, 0)),
            Err(is) => why = Some(Refused(format!("{name} leads to {address}, {is}"))),
        }
    }
    if !good.is_empty() {
        return Ok(Box::new(good.into_iter()));
    }
    Err(why.map_or_else(|| format!("{name} has no address").into(), Into::into))
}

/// Why no address of a name may be connected to.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refused {}

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
