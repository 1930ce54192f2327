//! Classification of addresses as public, or as inside a machine or network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Addresses that requests may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// Public addresses.
    #[default]
    Public,
    /// Public addresses and this machine.
    Loopback,
    /// Public addresses, this machine and private networks; never the metadata service of a cloud.
    Private,
}

const PRIVATE_ADDRESS: &str = "a private address";
const SHARED_ADDRESS: &str = "an address that a provider shares among its customers";
const LINK_LOCAL: &str = "a link-local address, where clouds keep the secrets of their machines";
const METADATA_ADDRESS: &str = "an address where a cloud answers its machines";
const UNSPECIFIED_ADDRESS: &str = "an unspecified address";
const LOOPBACK_ADDRESS: &str = "this machine itself";
const MULTICAST_ADDRESS: &str = "a multicast address";
const BROADCAST_ADDRESS: &str = "the broadcast address";
const BENCHMARK_ADDRESS: &str = "an address for benchmarks";
const DOCUMENTATION_ADDRESS: &str = "an address for documentation";
const RESERVED_ADDRESS: &str = "a reserved address";

/// Networks that are refused, with the lengths of their prefixes in bits. The first network that contains an address
/// decides.
const REFUSED_V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::UNSPECIFIED, 32, UNSPECIFIED_ADDRESS),
    (Ipv4Addr::UNSPECIFIED, 8, RESERVED_ADDRESS),
    (Ipv4Addr::new(10, 0, 0, 0), 8, PRIVATE_ADDRESS),
    (Ipv4Addr::new(100, 100, 100, 200), 32, METADATA_ADDRESS),
    (Ipv4Addr::new(100, 64, 0, 0), 10, SHARED_ADDRESS),
    (Ipv4Addr::new(127, 0, 0, 0), 8, LOOPBACK_ADDRESS),
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA_ADDRESS),
    (Ipv4Addr::new(169, 254, 0, 0), 16, LINK_LOCAL),
    (Ipv4Addr::new(172, 16, 0, 0), 12, PRIVATE_ADDRESS),
    (Ipv4Addr::new(192, 0, 0, 0), 24, RESERVED_ADDRESS),
    (Ipv4Addr::new(192, 0, 2, 0), 24, DOCUMENTATION_ADDRESS),
    (Ipv4Addr::new(192, 88, 99, 0), 24, RESERVED_ADDRESS),
    (Ipv4Addr::new(192, 168, 0, 0), 16, PRIVATE_ADDRESS),
    (Ipv4Addr::new(198, 18, 0, 0), 15, BENCHMARK_ADDRESS),
    (Ipv4Addr::new(198, 51, 100, 0), 24, DOCUMENTATION_ADDRESS),
    (Ipv4Addr::new(203, 0, 113, 0), 24, DOCUMENTATION_ADDRESS),
    (Ipv4Addr::new(224, 0, 0, 0), 4, MULTICAST_ADDRESS),
    (Ipv4Addr::BROADCAST, 32, BROADCAST_ADDRESS),
    (Ipv4Addr::new(240, 0, 0, 0), 4, RESERVED_ADDRESS),
];

/// Networks of IPv6 that are refused. An address that is in none of them must be global unicast, which is `2000::/3`.
const REFUSED_V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, UNSPECIFIED_ADDRESS),
    (Ipv6Addr::LOCALHOST, 128, LOOPBACK_ADDRESS),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, BENCHMARK_ADDRESS),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32, METADATA_ADDRESS),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0), 32, METADATA_ADDRESS),
    // Addresses of protocols, among them Teredo, whose addresses can lead to any IPv4 address.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, RESERVED_ADDRESS),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, DOCUMENTATION_ADDRESS),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, DOCUMENTATION_ADDRESS),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, PRIVATE_ADDRESS),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, LINK_LOCAL),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, PRIVATE_ADDRESS),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, MULTICAST_ADDRESS),
];

/// Returns `true` for a name that means this machine by definition: `localhost` and all names below it.
pub fn is_this_machine(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"))
}

/// Checks that a request may go to an address. The error says what kind of address it is.
pub fn judge(address: IpAddr, reach: Reach) -> Result<(), String> {
    if reach != Reach::Public && address.is_loopback() {
        return Ok(());
    }
    let inside =
        |why: &str| reach == Reach::Private && matches!(why, PRIVATE_ADDRESS | SHARED_ADDRESS);
    match address {
        IpAddr::V4(address) => match judge_v4(address) {
            Err(why) if !inside(why) => Err(why.to_owned()),
            _ => Ok(()),
        },
        IpAddr::V6(address) => match judge_v6(address) {
            Err(why) if !inside(&why) => Err(why),
            _ => Ok(()),
        },
    }
}

/// Checks the host of a URL as far as possible without resolving it, since literal addresses never reach a resolver.
/// The URL parser has normalized every spelling of a literal address.
pub fn judge_host(url: &Url, reach: Reach) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    let known = is_this_machine(host).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    literal.or(known).map_or(Ok(()), |address| judge(address, reach))
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
        return if global { Ok(()) } else { Err(RESERVED_ADDRESS.to_owned()) };
    };
    judge_v4(inner).map_err(|why| format!("another form of {inner}, {why}"))?;
    if routed { Ok(()) } else { Err(RESERVED_ADDRESS.to_owned()) }
}

/// Returns the IPv4 address to which an IPv6 address leads, and `true` if IPv6 addresses of this form are routed.
fn embedded(address: Ipv6Addr) -> Option<(Ipv4Addr, bool)> {
    let [.., a, b] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // IPv4-mapped addresses, and the well-known prefix of NAT64.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some((v4(a, b), true)),
        // The addresses of 6to4 have the IPv4 address in the second and third group.
        [0x2002, high, low, ..] => Some((v4(high, low), true)),
        // IPv4-compatible addresses, which are deprecated.
        [0, 0, 0, 0, 0, 0, ..] => Some((v4(a, b), false)),
        _ => None,
    }
}
