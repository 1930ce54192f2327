//! A value cached with the key that it was computed for.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// A value cached with the key that it was computed for.
pub(super) struct Memo<Key, Value>(RefCell<Option<(Key, Arc<Value>)>>);

impl<Key: PartialEq, Value> Memo<Key, Value> {
    /// Returns the value for this key: the cached value, or else a newly computed value.
    pub(super) fn get(&self, key: Key, compute: impl FnOnce() -> Value) -> Arc<Value> {
        let mut cached = self.0.borrow_mut();
        match &*cached {
            Some((known, value)) if *known == key => Arc::clone(value),
            _ => Arc::clone(&cached.insert((key, Arc::new(compute()))).1),
        }
    }
}

impl<Key, Value> Default for Memo<Key, Value> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<Key, Value> Clone for Memo<Key, Value> {
    /// Returns an empty cache, because the caller may change the copied value that the cache belongs to.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<Key, Value> fmt::Debug for Memo<Key, Value> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
