//! Where a webhook may be: not where this machine gets and the client does not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// In bytes; longer addresses are refused.
const LONGEST: usize = 4096;

const PRIVATE: &str = "a private address";
const SHARED: &str = "an address that a provider shares among its customers";
const LINK_LOCAL: &str = "a link-local address, where clouds keep the secrets of their machines";
const METADATA: &str = "an address where a cloud answers its machines";
const UNSPECIFIED: &str = "an unspecified address";
const LOOPBACK: &str = "this machine itself, and webhooks on it are not allowed";
const MULTICAST: &str = "a multicast address";
const BROADCAST: &str = "the broadcast address";
const BENCHMARK: &str = "an address for benchmarks";
const DOCUMENTATION: &str = "an address for documentation";
const RESERVED: &str = "a reserved address";

/// Networks that are refused, with the length of their prefix in bits; the first that fits counts.
const REFUSED_V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::UNSPECIFIED, 32, UNSPECIFIED),
    (Ipv4Addr::UNSPECIFIED, 8, RESERVED),
    (Ipv4Addr::new(10, 0, 0, 0), 8, PRIVATE),
    (Ipv4Addr::new(100, 64, 0, 0), 10, SHARED),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK),
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA),
    (Ipv4Addr::new(169, 254, 0, 0), 16, LINK_LOCAL),
    (Ipv4Addr::new(172, 16, 0, 0), 12, PRIVATE),
    (Ipv4Addr::new(192, 0, 0, 0), 24, RESERVED),
    (Ipv4Addr::new(192, 0, 2, 0), 24, DOCUMENTATION),
    (Ipv4Addr::new(192, 88, 99, 0), 24, RESERVED),
    (Ipv4Addr::new(192, 168, 0, 0), 16, PRIVATE),
    (Ipv4Addr::new(198, 18, 0, 0), 15, BENCHMARK),
    (Ipv4Addr::new(198, 51, 100, 0), 24, DOCUMENTATION),
    (Ipv4Addr::new(203, 0, 113, 0), 24, DOCUMENTATION),
    (Ipv4Addr::new(224, 0, 0, 0), 4, MULTICAST),
    (Ipv4Addr::BROADCAST, 32, BROADCAST),
    (Ipv4Addr::new(240, 0, 0, 0), 4, RESERVED),
];

/// The same for IPv6. What is in none of these must be global unicast, which is `2000::/3`.
const REFUSED_V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, UNSPECIFIED),
    (Ipv6Addr::LOCALHOST, 128, LOOPBACK),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, BENCHMARK),
    // Teredo, which leads to any IPv4 address, and other protocols' own addresses.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, RESERVED),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, DOCUMENTATION),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, DOCUMENTATION),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, PRIVATE),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, LINK_LOCAL),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, PRIVATE),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, MULTICAST),
];

/// The address of a webhook that has passed [`check`]. Shown without its path and query, in which
/// there may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(Url);

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.0.port_or_known_default().unwrap_or_default();
        write!(f, "{}://{}:{port}", self.0.scheme(), self.host())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What can be known of a webhook before its name is looked up: whether it may be used, or a
/// sentence that says why not.
pub fn check(url: &str, allow_loopback: bool) -> Result<Target, String> {
    if url.len() > LONGEST {
        return Err(format!("The webhook's address is longer than {LONGEST} bytes."));
    }
    let mut url =
        Url::parse(url).map_err(|error| format!("The webhook's address is none: {error}."))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        return Err(format!("A webhook is called by http or https, not by {scheme}."));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "A webhook's address has no user name and no password in it: credentials are \
                   sent in headers.";
        return Err(why.to_owned());
    }
    url.set_fragment(None);
    let target = Target(url);
    target.judge(allow_loopback)?;
    Ok(target)
}

impl Target {
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    /// A name, or a literal address: the parser has brought each spelling of one into its usual
    /// form.
    fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Judges an address that is literal, or known without looking it up. A literal address never
    /// comes before the resolver.
    pub(super) fn judge(&self, allow_loopback: bool) -> Result<(), String> {
        let host = self.host();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let known = is_this_machine(host).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let Some(address) = literal.or(known) else { return Ok(()) };
        judge(address, allow_loopback)
            .map_err(|why| format!("A webhook may not be at {host}: that is {why}."))
    }
}

/// Whether a name means this machine by definition: `localhost` and all that is below it.
pub(super) fn is_this_machine(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

/// Whether a webhook may be at this address; else what the address is.
pub(super) fn judge(address: IpAddr, allow_loopback: bool) -> Result<(), String> {
    if allow_loopback && address.is_loopback() {
        return Ok(());
    }
    match address {
        IpAddr::V4(address) => judge_v4(address).map_err(str::to_owned),
        IpAddr::V6(address) => judge_v6(address),
    }
}

fn judge_v4(address: Ipv4Addr) -> Result<(), &'static str> {
    let refused = REFUSED_V4
        .iter()
        .find(|(network, length, _)| (address.to_bits() ^ network.to_bits()) >> (32 - length) == 0);
    refused.map_or(Ok(()), |(.., why)| Err(why))
}

fn judge_v6(address: Ipv6Addr) -> Result<(), String> {
    let within = |(network, length): (Ipv6Addr, u32)| {
        (address.to_bits() ^ network.to_bits()) >> (128 - length) == 0
    };
    let refused = REFUSED_V6.iter().find(|(network, length, _)| within((*network, *length)));
    if let Some((.., why)) = refused {
        return Err((*why).to_owned());
    }
    let Some((inner, routed)) = embedded(address) else {
        let global = within((Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3));
        return if global { Ok(()) } else { Err(RESERVED.to_owned()) };
    };
    judge_v4(inner).map_err(|why| format!("another form of {inner}, {why}"))?;
    if routed { Ok(()) } else { Err(RESERVED.to_owned()) }
}

/// The IPv4 address in which an IPv6 address ends up, and whether such addresses are in use.
fn embedded(address: Ipv6Addr) -> Option<(Ipv4Addr, bool)> {
    let [.., a, b] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // Mapped, and the NAT64 that everybody knows.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some((v4(a, b), true)),
        // 6to4.
        [0x2002, high, low, ..] => Some((v4(high, low), true)),
        // Compatible with IPv4, which nobody is any more.
        [0, 0, 0, 0, 0, 0, ..] => Some((v4(a, b), false)),
        _ => None,
    }
}
