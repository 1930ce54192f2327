//! The terminal itself: taken over, given back whatever happens, written to without waiting.

use std::io::{self, Write as _};
use std::sync::Arc;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use tokio::task::JoinHandle;

use crate::sync::Mutex;

/// Pasted text comes in one piece.
const TAKE: &str = "\x1b[?2004h";
const GIVE_BACK: &str = "\x1b[?2004l\x1b[?2026l\x1b[0m\x1b[?25h";

/// A terminal that is ours until this is dropped.
pub(super) struct Terminal {
    /// Whether it still is: what comes later must not be written.
    ours: Arc<Mutex<bool>>,
    writing: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Takes it over.
    pub(super) fn take() -> io::Result<Self> {
        let terminal = Self { ours: Arc::new(Mutex::new(false)), writing: None };
        terminal.take_again()?;
        Ok(terminal)
    }

    /// Takes it over again, after it was given back.
    pub(super) fn take_again(&self) -> io::Result<()> {
        enable_raw_mode()?;
        *self.ours.lock() = true;
        write(TAKE)
    }

    /// Gives it back for a while, as it was.
    pub(super) fn give_back(&self, last: &str) {
        let mut ours = self.ours.lock();
        if std::mem::take(&mut *ours) {
            // Who has closed the terminal sees nothing, and needs nothing.
            let _ = write(&format!("{last}{GIVE_BACK}"));
            let _ = disable_raw_mode();
        }
    }

    /// Writes on a thread of its own: a terminal may be stopped, and must not stop the session.
    pub(super) fn write(&mut self, text: String) {
        let ours = Arc::clone(&self.ours);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            if *ours.lock() {
                let _ = write(&text);
            }
        }));
    }

    /// Whether something is being written.
    pub(super) fn busy(&self) -> bool {
        self.writing.is_some()
    }

    /// Waits until all is written.
    pub(super) async fn written(&mut self) {
        if let Some(writing) = &mut self.writing {
            let _ = writing.await;
            self.writing = None;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back("\r\n");
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
