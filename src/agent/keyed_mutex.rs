//! A mutex for each key.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// A mutex for each key: whoever holds one is in the way of those who want the same, and of nobody else. A key
/// that nobody holds or waits for takes no memory for long.
#[derive(Debug, Default)]
pub struct KeyedMutex(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl KeyedMutex {
    /// Returns `true` if somebody holds the mutex of a key.
    pub fn is_locked(&self, key: &str) -> bool {
        self.0.lock().get(key).is_some_and(|mutex| mutex.try_lock().is_err())
    }

    /// Waits until nobody else holds the mutex of a key; it is held as long as the guard lives.
    pub async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        let mutex = {
            let mut mutexes = self.0.lock();
            // Guards and those who wait hold the others.
            mutexes.retain(|_, mutex| Arc::strong_count(mutex) > 1);
            Arc::clone(mutexes.entry(key.to_owned()).or_default())
        };
        mutex.lock_owned().await
    }
}
