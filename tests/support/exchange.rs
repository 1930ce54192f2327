//! A thread for tests that exchanges two paths again and again, as a command could do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// A thread that exchanges two paths until this value is dropped.
pub struct Exchange {
    one: PathBuf,
    other: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    /// Begins to exchange the names of two files or directories, again and again.
    pub fn of(one: &Path, other: &Path) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let (one, other) = (one.to_owned(), other.to_owned());
        let (over, from, to) = (Arc::clone(&is_over), one.clone(), other.clone());
        let exchange = move || renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE);
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                exchange().unwrap();
            }
        });
        Self { one, other, is_over, thread: Some(thread) }
    }

    /// Stops the exchange and puts the directory back at the first path.
    pub fn end(self) {
        let (one, other) = (self.one.clone(), self.other.clone());
        drop(self);
        if one.is_symlink() {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}
