//! Requests without a valid token, counted by the addresses of their clients: whoever guesses tokens is told to
//! wait, and does not fill the audit log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time within which the refused requests of an address are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// Maximum number of addresses that are told apart; those beyond share one count.
const MAX_ADDRESSES: usize = 10_000;

/// The requests that were refused a short time ago.
pub struct Refusals {
    /// Maximum number of them for one address.
    limit: usize,
    by_address: Mutex<HashMap<IpAddr, RefusedCount>>,
}

struct RefusedCount {
    since: Instant,
    count: usize,
}

/// Answer to a request that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The client is told why, and the audit log has it.
    Told,
    /// The client has to wait.
    TooMany {
        /// Seconds until the next request is looked at.
        seconds: u64,
        /// `true` if the client was told the reason until now.
        is_first: bool,
    },
}

impl Refusals {
    /// Makes a count of refused requests, of which an address may make `limit` a minute.
    pub fn new(limit: usize) -> Self {
        Self { limit, by_address: Mutex::default() }
    }

    /// Counts a request of an address that is refused.
    pub fn count(&self, address: Option<IpAddr>) -> Refusal {
        let now = Instant::now();
        let is_over =
            |counted: &RefusedCount| now.saturating_duration_since(counted.since) >= WINDOW;
        let mut by_address = self.by_address.lock();
        let mut network = network(address.unwrap_or(UNKNOWN));
        if by_address.len() >= MAX_ADDRESSES && !by_address.contains_key(&network) {
            by_address.retain(|_, counted| !is_over(counted));
            if by_address.len() >= MAX_ADDRESSES {
                network = UNKNOWN;
            }
        }
        let begun = || RefusedCount { since: now, count: 0 };
        let counted = by_address.entry(network).or_insert_with(begun);
        if is_over(counted) {
            *counted = begun();
        }
        counted.count = counted.count.saturating_add(1);
        if counted.count <= self.limit {
            return Refusal::Told;
        }
        let left = WINDOW.saturating_sub(now.saturating_duration_since(counted.since));
        Refusal::TooMany {
            seconds: left.as_secs().max(1),
            is_first: counted.count == self.limit.saturating_add(1),
        }
    }
}

/// Address that stands for those that are not told apart.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Returns the address by which a client is counted: one of IPv6 has a network of its own, of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_is_told_so_often_a_minute_and_others_have_their_own_count() {
        let refusals = Refusals::new(1);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().ok());
        assert_eq!(refusals.count(one), Refusal::Told);
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(refusals.count(one), Refusal::TooMany { seconds: 30, is_first: true });
        assert_eq!(refusals.count(one), Refusal::TooMany { seconds: 30, is_first: false });
        assert_eq!(refusals.count(other), Refusal::Told);
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(refusals.count(one), Refusal::Told);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_addresses_are_told_apart() {
        let refusals = Refusals::new(1);
        let addresses = (0..20_000).map(|n| Some(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n))));
        let told = addresses.map(|address| refusals.count(address));
        assert_eq!(told.filter(|it| *it == Refusal::Told).count(), MAX_ADDRESSES + 1);
        assert!(refusals.by_address.lock().len() <= MAX_ADDRESSES + 1);
    }
}
