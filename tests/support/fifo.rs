//! Pipes with a name, which processes hold open as long as they run.

use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::limit::HANG;

/// Makes a pipe.
pub fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Waits until no process holds the pipe open.
pub async fn is_gone(mut family: pipe::Receiver) {
    let mut nothing = Vec::new();
    timeout(HANG, family.read_to_end(&mut nothing)).await.expect("processes are left").unwrap();
}
