//! A proxy that authenticates users and names them in a header.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName};
use tandem_agent::session::PrincipalId;

/// Address that a request's connection comes from.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub IpAddr);

/// A range of addresses, such as `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    /// Number of leading bits that addresses of the range share.
    bits: u32,
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither an address nor a range such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { first, bits })
    }
}

impl AddressRange {
    /// Returns `true` if an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |first: u128, other: u128, length: u32| {
            // For `::/0` the shift is 128, for which `checked_shr` returns `None`.
            let shift = length - self.bits;
            first.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
        };
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(other)) => {
                same(u128::from(first.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(first), IpAddr::V6(other)) => same(first.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// A proxy that is trusted to name the user of each request. It authenticates with the server's own token.
#[derive(Debug, Clone)]
pub struct TrustedProxy {
    addresses: Vec<AddressRange>,
    header: HeaderName,
    tenant: String,
}

impl TrustedProxy {
    /// Describes a proxy: its addresses, the header in which it names the user, and the users' tenant. The
    /// error says which of these is wrong.
    pub fn new(addresses: Vec<AddressRange>, header: &str, tenant: String) -> Result<Self, String> {
        let name = header.parse().map_err(|_| format!("`{header}` is not the name of a header"))?;
        if !PrincipalId::is_name(&tenant) {
            return Err(format!(
                "`{tenant}` is not a tenant: use letters, digits and `._@+-`, at most 64"
            ));
        }
        Ok(Self { addresses, header: name, tenant })
    }

    /// Returns the user of a request, if the request comes from the proxy and names exactly one user.
    pub(super) fn user(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<PrincipalId> {
        let peer = peer?;
        if !self.addresses.iter().any(|range| range.contains(peer)) {
            return None;
        }
        let mut names = headers.get_all(&self.header).iter();
        // If there are two values, the client may have sent one of them itself.
        let (Some(name), None) = (names.next(), names.next()) else { return None };
        let name = name.to_str().ok().filter(|name| PrincipalId::is_name(name))?;
        Some(PrincipalId { tenant: self.tenant.clone(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, address: &str, expected: bool) {
        let range: AddressRange = range.parse().unwrap();
        assert_eq!(range.contains(address.parse().unwrap()), expected, "{range:?} {address}");
    }

    #[test]
    fn a_range_has_the_addresses_that_begin_as_it_does() {
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("127.0.0.1", "::ffff:127.0.0.1", true);
        check("10.1.0.0/16", "10.1.255.255", true);
        check("10.1.0.0/16", "10.2.0.0", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "::1", false);
        check("::1", "::1", true);
        check("fd00::/8", "fd12::1", true);
        check("fd00::/8", "fe80::1", false);
        for wrong in ["", "localhost", "10.0.0.0/33", "10.0.0.0/x", "::/129", "10.0.0/8"] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_user_is_believed_from_the_proxy_alone_and_only_one() {
        let addresses = vec!["127.0.0.1".parse().unwrap()];
        let proxy = TrustedProxy::new(addresses, "X-User", "default".to_owned()).unwrap();
        let here: Option<IpAddr> = "127.0.0.1".parse().ok();
        let user = |peer: Option<IpAddr>, names: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append("x-user", name.parse().unwrap());
            }
            proxy.user(peer, &headers).map(|user| user.name)
        };
        assert_eq!(user(here, &["alice"]), Some("alice".to_owned()));
        assert_eq!(user("127.0.0.2".parse().ok(), &["alice"]), None);
        assert_eq!(user(None, &["alice"]), None);
        for wrong in [&[][..], &["alice", "bob"], &["alice, bob"], &[""], &["a b"]] {
            assert_eq!(user(here, wrong), None, "{wrong:?}");
        }
    }
}
