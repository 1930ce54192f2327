//! Upstream proxies from the agent's own environment, for machines that reach the network only through them.

use std::fmt;
use std::io;
use std::sync::Arc;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::hosts::Destination;

/// Maximum size of the head of a proxy's answer, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Port of a proxy whose address names none, and of `http:`.
const DEFAULT_PORT: u16 = 80;

/// Choice of a proxy by the destination.
#[derive(Clone)]
pub struct UpstreamProxies(Arc<Matcher>);

impl UpstreamProxies {
    /// Returns a choice without proxies.
    pub fn none() -> Self {
        Self(Arc::new(Matcher::builder().build()))
    }

    /// Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    pub fn from_env() -> Self {
        Self(Arc::new(Matcher::from_env()))
    }

    /// Returns a choice of one proxy for every destination.
    pub fn all(url: &str) -> Self {
        Self(Arc::new(Matcher::builder().all(url).build()))
    }

    /// Returns the proxy of a destination, if it has one.
    pub(super) fn for_destination(&self, destination: &Destination) -> Option<Intercept> {
        let scheme = if destination.port == DEFAULT_PORT { "http" } else { "https" };
        self.0.intercept(&format!("{scheme}://{destination}/").parse().ok()?)
    }
}

impl fmt::Debug for UpstreamProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The addresses of proxies may contain passwords, so they are not shown.
        f.write_str("UpstreamProxies")
    }
}

/// Connects to a destination by way of a proxy.
pub(super) async fn connect(proxy: &Intercept, destination: &Destination) -> io::Result<TcpStream> {
    let uri = proxy.uri();
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(io::Error::other(
            "the proxy that the environment names does not have an `http:` address",
        ));
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = TcpStream::connect((host, uri.port_u16().unwrap_or(DEFAULT_PORT))).await?;
    let mut request =
        format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n").into_bytes();
    if let Some(credentials) = proxy.basic_auth() {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(credentials.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD_BYTES {
            return Err(io::Error::other("the answer of the environment's proxy is too long"));
        }
        // Bytes are read one by one, as the bytes after the head belong to the server.
        head.push(stream.read_u8().await?);
    }
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if !head.starts_with(b"HTTP/1.") || status.first() != Some(&b'2') {
        let status = String::from_utf8_lossy(status).into_owned();
        return Err(io::Error::other(format!("the environment's proxy answers {status}")));
    }
    Ok(stream)
}
