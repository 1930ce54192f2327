//! A mutex for each key.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// A mutex for each key: tasks that lock the same key wait for each other, and tasks that lock different keys do not. A
/// key that no task holds or waits for is soon removed from memory.
#[derive(Debug, Default)]
pub struct KeyedMutex(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl KeyedMutex {
    /// Returns `true` if a task holds the mutex of a key.
    pub fn is_locked(&self, key: &str) -> bool {
        self.0.lock().get(key).is_some_and(|mutex| mutex.try_lock().is_err())
    }

    /// Waits until no other task holds the mutex of a key, and locks the mutex as long as the guard lives.
    pub async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        let mutex = {
            let mut mutexes = self.0.lock();
            // A guard, or a task that waits, holds a second reference. A mutex with one reference is unused.
            mutexes.retain(|_, mutex| Arc::strong_count(mutex) > 1);
            Arc::clone(mutexes.entry(key.to_owned()).or_default())
        };
        mutex.lock_owned().await
    }
}
