//! The client behind a proxy, as the proxy describes it in `X-Forwarded-*` headers. Any client can send such
//! headers, so they are trusted only in requests from the addresses of proxies.

use std::net::IpAddr;

use axum::http::HeaderMap;

use super::proxy::AddressRange;

/// Client of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedClient {
    /// The client's address, as far as trusted proxies tell it.
    pub address: IpAddr,
    /// Scheme of the URL that the client uses, if the proxy reports it.
    pub scheme: Option<String>,
    /// Host in the URL that the client uses, if the proxy reports it.
    pub host: Option<String>,
}

impl ForwardedClient {
    /// Returns the client of a request, given the address `peer` that the connection comes from.
    pub(super) fn from_request(
        peer: IpAddr,
        headers: &HeaderMap,
        proxies: &[AddressRange],
    ) -> Self {
        if !is_proxy(peer, proxies) {
            return Self { address: peer, scheme: None, host: None };
        }
        // Proxies append, so the last value is the one that this proxy wrote.
        let last = |name: &str| values(headers, name).pop();
        let scheme = last("x-forwarded-proto").map(|scheme| scheme.to_ascii_lowercase());
        Self { address: address(peer, headers, proxies), scheme, host: last("x-forwarded-host") }
    }
}

/// Returns `true` if an address belongs to a trusted proxy.
pub(super) fn is_proxy(address: IpAddr, proxies: &[AddressRange]) -> bool {
    proxies.iter().any(|range| range.contains(address))
}

/// Returns the last address in `X-Forwarded-For` that is no proxy's. A client may have invented the addresses
/// before that.
fn address(peer: IpAddr, headers: &HeaderMap, proxies: &[AddressRange]) -> IpAddr {
    let mut address = peer;
    for value in values(headers, "x-forwarded-for").into_iter().rev() {
        let Some(before) = read_address(&value) else { break };
        address = before;
        if !is_proxy(address, proxies) {
            break;
        }
    }
    address.to_canonical()
}

/// Parses an address; some proxies write it with a port, or in brackets.
fn read_address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().ok().map(|address: std::net::SocketAddr| address.ip());
    let in_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    in_brackets.unwrap_or(text).parse().ok().or_else(with_port)
}

/// Returns the values of a header that may be a comma-separated list and may occur several times.
fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|value| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, forwarded: &[&str], expected: &str) {
        let proxies = ["127.0.0.1", "10.0.0.0/8"].map(|range| range.parse().unwrap());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let client = ForwardedClient::from_request(peer.parse().unwrap(), &headers, &proxies);
        assert_eq!(client.address.to_string(), expected, "{peer} {forwarded:?}");
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy() {
        check("127.0.0.1", &[], "127.0.0.1");
        check("127.0.0.1", &["192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["198.51.100.1, 192.0.2.7, 10.1.1.1"], "192.0.2.7");
        check("127.0.0.1", &["198.51.100.1", "192.0.2.7"], "192.0.2.7");
        check("127.0.0.1", &["10.0.0.2"], "10.0.0.2");
        check("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1");
        check("127.0.0.1", &["2001:db8::1"], "2001:db8::1");
        check("::ffff:127.0.0.1", &["192.0.2.7:4711"], "192.0.2.7");
    }

    #[test]
    fn what_is_no_address_ends_the_way() {
        check("127.0.0.1", &["192.0.2.7, unknown"], "127.0.0.1");
        check("127.0.0.1", &["192.0.2.7, unknown, 10.1.1.1"], "10.1.1.1");
    }

    #[test]
    fn whoever_is_no_proxy_is_not_believed() {
        check("192.0.2.1", &["127.0.0.1"], "192.0.2.1");
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-host", "tandem.example".parse().unwrap());
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        let of = |peer: &str| {
            let proxies = ["127.0.0.1".parse().unwrap()];
            let client = ForwardedClient::from_request(peer.parse().unwrap(), &headers, &proxies);
            (client.scheme, client.host)
        };
        assert_eq!(of("192.0.2.1"), (None, None));
        let named = (Some("https".to_owned()), Some("tandem.example".to_owned()));
        assert_eq!(of("127.0.0.1"), named);
    }
}
