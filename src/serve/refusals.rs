//! Counts of requests without a valid token, by client address. A client that guesses tokens has to wait, and
//! cannot flood the audit log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Length of the period in which the refused requests of an address are counted.
const COUNTING_PERIOD: Duration = Duration::from_mins(1);

/// Maximum number of addresses that are counted separately; further addresses share one count.
const MAX_ADDRESSES: usize = 10_000;

/// Recently refused requests, counted by address.
pub struct Refusals {
    /// Maximum number of refused requests of one address in a period that get an explanation.
    limit: usize,
    by_address: Mutex<HashMap<IpAddr, RefusedCount>>,
}

struct RefusedCount {
    since: Instant,
    count: usize,
}

/// Way in which a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The client gets the reason, and the refusal is in the audit log.
    Told,
    /// The client has to wait.
    TooMany {
        /// Seconds until requests of the client are looked at again.
        seconds: u64,
        /// `true` for the first such answer in a period, so that the caller can log it once.
        is_first: bool,
    },
}

impl Refusals {
    /// Makes a counter that allows each address `limit` refused requests a minute.
    pub fn new(limit: usize) -> Self {
        Self { limit, by_address: Mutex::default() }
    }

    /// Counts a refused request, and returns the way to refuse it.
    pub fn count(&self, address: Option<IpAddr>) -> Refusal {
        let now = Instant::now();
        let is_over = |counted: &RefusedCount| {
            now.saturating_duration_since(counted.since) >= COUNTING_PERIOD
        };
        let mut by_address = self.by_address.lock();
        let mut network = network(address.unwrap_or(UNKNOWN_ADDRESS));
        if by_address.len() >= MAX_ADDRESSES && !by_address.contains_key(&network) {
            by_address.retain(|_, counted| !is_over(counted));
            if by_address.len() >= MAX_ADDRESSES {
                network = UNKNOWN_ADDRESS;
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
        let left = COUNTING_PERIOD.saturating_sub(now.saturating_duration_since(counted.since));
        Refusal::TooMany {
            seconds: left.as_secs().max(1),
            is_first: counted.count == self.limit.saturating_add(1),
        }
    }
}

/// Address under which all requests are counted that are not counted separately.
const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Returns the address under which a client is counted. An IPv6 client usually has a whole /64 network to
/// itself, so the first 64 bits count.
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
        tokio::time::advance(COUNTING_PERIOD / 2).await;
        assert_eq!(refusals.count(one), Refusal::TooMany { seconds: 30, is_first: true });
        assert_eq!(refusals.count(one), Refusal::TooMany { seconds: 30, is_first: false });
        assert_eq!(refusals.count(other), Refusal::Told);
        tokio::time::advance(COUNTING_PERIOD / 2).await;
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
