//! Removal of old stored sessions.

use std::time::Duration;

use crate::session::{Listed, Millis, Query, Store, StoreError};

/// Limits on the age and the number of stored sessions. Without limits, no session is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Time since the last change of a session after which the session is removed.
    pub max_age: Option<Duration>,
    /// Number of sessions that stay, the last changed first.
    pub max_count: Option<usize>,
}

impl Retention {
    /// Returns `true` if a session is removed that is at this place in the list, from 0.
    fn removes(&self, place: usize, changed: Millis, now: Millis) -> bool {
        let age = u128::try_from(now - changed).unwrap_or(0);
        self.max_age.is_some_and(|max| age > max.as_millis())
            || self.max_count.is_some_and(|max| place >= max)
    }
}

/// Removes the stored sessions of all directories that are beyond the limits at the time `now`. Checkpoints stay, and
/// so do sessions that are open or cannot be removed. Returns the removed sessions.
pub async fn remove_old(
    store: &dyn Store,
    retention: Retention,
    now: Millis,
) -> Result<Vec<Listed>, StoreError> {
    let mut removed = Vec::new();
    if retention == Retention::default() {
        return Ok(removed);
    }
    // Checkpoints stay: a person who has given a session a tag wants to find it again.
    let query = Query { checkpoints: Some(false), ..Query::default() };
    for (place, listed) in store.list(&query).await?.into_iter().enumerate() {
        if !retention.removes(place, listed.changed, now) {
            continue;
        }
        match store.delete(&listed.head.id).await {
            Ok(()) => removed.push(listed),
            // The session is in use, so it is not old.
            Err(StoreError::Held(..)) => {}
            Err(err) => tracing::warn!("the old session {} is not removed: {err}", listed.head.id),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_and_number_each_remove() {
        let day = Duration::from_hours(24);
        let (now, days) = (1_000_000_000_000, |n: Millis| n * 86_400_000);
        let old = Retention { max_age: Some(day * 30), max_count: None };
        assert!(!old.removes(99, now - days(30), now));
        assert!(old.removes(0, now - days(31), now));
        assert!(!old.removes(0, now + days(31), now), "the clock was set back");
        let many = Retention { max_age: None, max_count: Some(2) };
        assert!(!many.removes(1, 0, now) && many.removes(2, now, now));
        assert!(!Retention::default().removes(99, 0, now));
    }
}
