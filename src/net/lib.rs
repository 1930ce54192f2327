//! HTTP clients. Requests to URLs from the model, a peer or a web page reach public addresses, and by default no
//! address that only this machine or its network can reach.
//!
//! A client resolves a name once, checks the addresses, and connects to one of the checked addresses. A name that
//! resolves differently the next time (DNS rebinding) therefore gains nothing.

mod backoff;
mod certificates;
mod reach;
mod self_hosted;

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::future::{self, BoxFuture};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, redirect};
use tokio::net::lookup_host;

pub use self::backoff::{Backoff, retry_after};
pub use self::certificates::tls;
use self::certificates::{NO_CERTIFICATES, no_certificates};
pub use self::reach::{Reach, is_this_machine, judge, judge_host};
pub use self::self_hosted::is_self_hosted;

/// Value of the `User-Agent` header.
pub const USER_AGENT: &str = concat!("tandem/", env!("CARGO_PKG_VERSION"));

/// A function that resolves a DNS name.
pub type Lookup = Arc<dyn Fn(String) -> Addresses + Send + Sync>;
/// Future of a name's addresses, in the order in which they are tried.
pub type Addresses = BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Returns the operating system's resolver.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Builds a client from the builder that `begin` returns. On a machine without root certificates,
/// `http:` still works, and a request with `https:` fails with an error that says what to do.
pub fn build(begin: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    // This fails only if a provider is installed already, and any provider is good enough.
    drop(rustls::crypto::ring::default_provider().install_default());
    begin().build().or_else(|error| {
        let Some(config) = no_certificates() else { return Err(error) };
        tracing::warn!("{NO_CERTIFICATES}: {}", cause(&error));
        begin().tls_backend_preconfigured(config).build().map_err(|_| error)
    })
}

/// Builds a client from a builder, for `http:` alone. It loads no root certificates, which takes a while.
pub fn build_without_tls(builder: ClientBuilder) -> reqwest::Result<Client> {
    drop(rustls::crypto::ring::default_provider().install_default());
    match no_certificates() {
        Some(config) => builder.tls_backend_preconfigured(config).build(),
        None => builder.build(),
    }
}

/// Returns the builder, for [`build`], of a client that connects only to names within `reach` and follows no redirects.
/// The caller must check literal addresses with [`judge_host`], since no resolver sees them.
pub fn client(lookup: Lookup, reach: Reach) -> ClientBuilder {
    Client::builder()
        .user_agent(USER_AGENT)
        // A redirect could lead to a literal address, which no resolver sees.
        .redirect(redirect::Policy::none())
        .referer(false)
        .dns_resolver(CheckedResolver { lookup, reach })
}

/// Makes a header whose value is not shown in logs; `None` if its name or value cannot be sent.
pub fn secret_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::try_from(name).ok()?;
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

/// Returns the reason why a request was not sent, if its host's name has no address within reach.
pub fn refused<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a OutOfReach> {
    loop {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        error = error.source()?;
    }
}

/// Returns the TLS error in an error's chain of sources.
pub fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    // `source` of an `io::Error` skips the error that it wraps, and returns that error's source.
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => tls_error(wrapped),
        None => tls_error(error.source()?),
    }
}

/// Returns the sentence that says that this machine has no root certificates, if a request failed for that reason.
pub fn lacks_certificates(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let lacks = |error: &rustls::Error| matches!(error, rustls::Error::General(why) if why == NO_CERTIFICATES);
    tls_error(error).is_some_and(lacks).then_some(NO_CERTIFICATES)
}

/// Returns advice for the user, if a certificate was not accepted because its authority is unknown.
pub fn unknown_authority(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    tls_error(error).is_some_and(|error| *error == unknown).then_some(
        "install the certificate of its authority on this machine, or name a file in SSL_CERT_FILE that has it",
    )
}

/// Returns the message of the innermost error, since the outer errors repeat the URL, and say only that the request
/// failed.
pub fn cause(error: &reqwest::Error) -> String {
    if let Some(why) = lacks_certificates(error) {
        return why.to_owned();
    }
    if let Some(advice) = unknown_authority(error) {
        return format!("its certificate is not trusted (UnknownIssuer): {advice}");
    }
    let Some(mut cause) = error.source() else { return "the request failed".to_owned() };
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A resolver that drops addresses out of reach. The client connects to one of the remaining addresses, and does not
/// resolve the name again.
struct CheckedResolver {
    lookup: Lookup,
    reach: Reach,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let reach = self.reach;
        let found = if is_this_machine(&name) {
            // Not every system resolves all of these names, and a resolver must not lead them to another machine.
            let both = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            Box::pin(future::ready(Ok(both)))
        } else {
            (self.lookup)(name.clone())
        };
        Box::pin(async move { within_reach(&name, found.await?, reach) })
    }
}

fn within_reach(
    name: &str,
    found: Vec<IpAddr>,
    reach: Reach,
) -> Result<Addrs, Box<dyn Error + Send + Sync>> {
    let mut why = None;
    let mut good = Vec::new();
    for address in found {
        match judge(address, reach) {
            // Port 0 stands for the port in the request's URL.
            Ok(()) => good.push(SocketAddr::new(address, 0)),
            Err(is) => why = Some(OutOfReach(format!("{name} leads to {address}, {is}"))),
        }
    }
    if !good.is_empty() {
        return Ok(Box::new(good.into_iter()));
    }
    Err(why.map_or_else(|| format!("{name} has no address").into(), Into::into))
}

/// Reason why no address of a name may be connected to.
#[derive(Debug)]
pub struct OutOfReach(String);

impl fmt::Display for OutOfReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for OutOfReach {}
