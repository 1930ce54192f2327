//! What is laid out once and stays as it is, for as long as it is shown in the same way.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// It, and how it is shown.
pub(super) struct Kept<How, What>(RefCell<Option<(How, Arc<What>)>>);

impl<How: PartialEq, What> Kept<How, What> {
    /// What is kept, or else what is made now.
    pub(super) fn get(&self, how: How, make: impl FnOnce() -> What) -> Arc<What> {
        let mut kept = self.0.borrow_mut();
        match &*kept {
            Some((as_before, what)) if *as_before == how => Arc::clone(what),
            _ => Arc::clone(&kept.insert((how, Arc::new(make()))).1),
        }
    }
}

impl<How, What> Default for Kept<How, What> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<How, What> Clone for Kept<How, What> {
    /// Of a copy nothing is kept.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<How, What> fmt::Debug for Kept<How, What> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
