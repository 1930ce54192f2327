//! Two paths that change places all the time, for tests: a command can have it so.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// A thread that exchanges two paths until this is dropped.
pub(crate) struct Exchange {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    pub(crate) fn of(one: &Path, other: &Path) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let (over, one, other) = (Arc::clone(&is_over), one.to_owned(), other.to_owned());
        let exchange = move || renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                exchange().unwrap();
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}
