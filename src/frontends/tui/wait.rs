//! Waits that may never end: for a key while the terminal is given away, and for clients while there is no server.

use tokio::sync::watch;

use super::keyboard::{Keyboard, TerminalInput};

/// Waits for the next key or paste; for ever while the terminal is given away.
pub(super) async fn next_key(keyboard: &mut Option<Keyboard>) -> Option<TerminalInput> {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until the number of clients changes, and returns that number; for ever if there is no server.
pub(super) async fn changed(clients: &mut Option<watch::Receiver<usize>>) -> usize {
    if let Some(clients) = clients
        && clients.changed().await.is_ok()
    {
        return *clients.borrow();
    }
    // There is no server, or it has ended.
    std::future::pending().await
}
