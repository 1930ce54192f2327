//! What the screen waits for, where that may be nothing.

use tokio::sync::watch;
use tokio::time::Instant;

use super::keyboard::{Input, Keyboard};

/// The next key, if the terminal is ours.
pub(super) async fn next_key(keyboard: &mut Option<Keyboard>) -> Option<Input> {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

/// The time to draw, if there is one.
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// How many clients there are, when that has changed.
pub(super) async fn changed(clients: &mut Option<watch::Receiver<usize>>) -> usize {
    if let Some(clients) = clients
        && clients.changed().await.is_ok()
    {
        return *clients.borrow();
    }
    // There is no server, or it has ended.
    std::future::pending().await
}
