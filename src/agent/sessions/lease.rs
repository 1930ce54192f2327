//! Leases: the counted holds on a session that keep the session loaded.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;

/// The leases of one session. A session with a lease is in use, and is not unloaded to make room for another
/// session.
#[derive(Debug, Clone)]
pub struct Leases(Arc<Mutex<LeaseState>>);

#[derive(Debug)]
struct LeaseState {
    held: usize,
    /// `true` once the session is unloaded.
    closed: bool,
}

impl Leases {
    /// Makes the leases of a session, and gives out the first.
    pub fn with_first() -> (Self, Lease) {
        let leases = Self(Arc::new(Mutex::new(LeaseState { held: 1, closed: false })));
        (leases.clone(), Lease(leases))
    }

    /// Gives out a lease; `None` if the session is unloaded.
    pub fn lease(&self) -> Option<Lease> {
        let mut state = self.0.lock();
        if state.closed {
            return None;
        }
        state.held += 1;
        Some(Lease(self.clone()))
    }

    /// Returns the number of leases that are held.
    pub fn count(&self) -> usize {
        self.0.lock().held
    }

    /// Gives out no more leases. Leases that are held stay valid.
    pub fn close(&self) {
        self.0.lock().closed = true;
    }

    /// Gives out no more leases, unless a lease is held or the session is busy. Returns `true` if the leases are closed
    /// now. No lease is given out while `is_busy` runs.
    pub fn close_unused(&self, is_busy: impl FnOnce() -> bool) -> bool {
        let mut state = self.0.lock();
        let is_unused = state.held == 0 && !is_busy();
        state.closed |= is_unused;
        is_unused
    }
}

/// A hold on a session, counted as long as the value lives.
#[derive(Debug)]
pub struct Lease(Leases);

impl Clone for Lease {
    fn clone(&self) -> Self {
        self.0.0.lock().held += 1;
        Self(self.0.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.0.lock().held -= 1;
    }
}

/// A part of a session, together with a lease of the session.
pub struct Leased<T> {
    part: Arc<T>,
    lease: Lease,
}

impl<T> Leased<T> {
    /// Joins a part of a session and a lease of the session.
    pub fn new(part: Arc<T>, lease: Lease) -> Self {
        Self { part, lease }
    }

    /// Returns the lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl<T> Clone for Leased<T> {
    fn clone(&self) -> Self {
        Self { part: Arc::clone(&self.part), lease: self.lease.clone() }
    }
}

impl<T> Deref for Leased<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.part
    }
}

impl<T: fmt::Debug> fmt::Debug for Leased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lease_counts_until_it_is_dropped() {
        let (leases, first) = Leases::with_first();
        let second = first.clone();
        assert_eq!(leases.count(), 2);
        drop(first);
        assert_eq!(leases.count(), 1);
        drop(second);
        assert_eq!(leases.count(), 0);
    }

    #[test]
    fn a_session_that_is_held_or_busy_is_not_closed() {
        let (leases, held) = Leases::with_first();
        assert!(!leases.close_unused(|| false));
        drop(held);
        assert!(!leases.close_unused(|| true));
        assert!(leases.lease().is_some());
        assert!(leases.close_unused(|| false));
        assert!(leases.lease().is_none());
    }

    #[test]
    fn a_lease_outlives_the_end_of_its_session() {
        let (leases, held) = Leases::with_first();
        leases.close();
        assert!(leases.lease().is_none());
        let passed_on = held.clone();
        drop(held);
        assert_eq!(leases.count(), 1);
        drop(passed_on);
        assert_eq!(leases.count(), 0);
    }
}
