//! A cache for credentials that expire.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tandem_model::Error;

/// Time before the expiry at which credentials are fetched anew, so that none expires on its way to the server.
const EXPIRY_MARGIN: Duration = Duration::from_mins(5);

/// Credentials that are used until shortly before they expire. All requests share one fetch.
pub(crate) struct ExpiringCache<T> {
    value: Mutex<Option<Expiring<T>>>,
    /// Held during a fetch: a request that comes meanwhile waits, and then finds the value. No state is guarded.
    fetching: tokio::sync::Mutex<()>,
}

/// Credentials and their expiry.
#[derive(Clone)]
pub(crate) struct Expiring<T> {
    pub(crate) value: T,
    /// Expiry by the clock of this machine; `None` for credentials that do not expire.
    pub(crate) expires_at: Option<SystemTime>,
}

impl<T> Expiring<T> {
    fn is_fresh(&self) -> bool {
        self.expires_at.is_none_or(|at| SystemTime::now() + EXPIRY_MARGIN < at)
    }
}

impl<T> Default for ExpiringCache<T> {
    fn default() -> Self {
        Self { value: Mutex::default(), fetching: tokio::sync::Mutex::default() }
    }
}

impl<T: Clone> ExpiringCache<T> {
    /// Returns the credentials of the cache, or else those that `fetch` returns.
    pub(crate) async fn get(
        &self,
        fetch: impl AsyncFnOnce() -> Result<Expiring<T>, Error>,
    ) -> Result<T, Error> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let _fetching = self.fetching.lock().await;
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let fetched = fetch().await?;
        let value = fetched.value.clone();
        *self.value.lock() = Some(fetched);
        Ok(value)
    }

    /// Returns the credentials of the cache, even if they have expired.
    pub(crate) fn last(&self) -> Option<T> {
        self.value.lock().as_ref().map(|known| known.value.clone())
    }

    /// Forgets the credentials, because a server has refused them.
    pub(crate) fn forget(&self) {
        *self.value.lock() = None;
    }

    fn fresh(&self) -> Option<T> {
        let value = self.value.lock();
        value.as_ref().filter(|known| known.is_fresh()).map(|known| known.value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(cache: &ExpiringCache<u32>, next: u32, lifetime: Duration) -> u32 {
        let expires_at = Some(SystemTime::now() + lifetime);
        cache.get(async || Ok(Expiring { value: next, expires_at })).await.unwrap()
    }

    #[tokio::test]
    async fn credentials_are_fetched_anew_shortly_before_they_expire() {
        let cache = ExpiringCache::default();
        assert_eq!(get(&cache, 1, Duration::from_mins(4)).await, 1);
        assert_eq!(get(&cache, 2, Duration::from_hours(1)).await, 2);
        assert_eq!(get(&cache, 3, Duration::from_hours(1)).await, 2);
        cache.forget();
        assert_eq!(get(&cache, 4, Duration::from_hours(1)).await, 4);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let cache = ExpiringCache::<u32>::default();
        let failed = cache.get(async || Err(Error::Unavailable("no".to_owned()))).await;
        assert!(failed.is_err());
        assert_eq!(get(&cache, 1, Duration::from_hours(1)).await, 1);
    }

    #[tokio::test]
    async fn requests_at_the_same_time_share_a_fetch() {
        let cache = ExpiringCache::default();
        let first = cache.get(async || {
            tokio::task::yield_now().await;
            Ok(Expiring { value: 1, expires_at: None })
        });
        let second = cache.get(async || Ok(Expiring { value: 2, expires_at: None }));
        assert_eq!(futures::join!(first, second), (Ok(1), Ok(1)));
    }
}
