//! A key that is being got hold of: checked, or asked for in the browser.

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::task::AbortOnDropHandle;

use super::setup::Login;

/// A key that is being got hold of. Dropped, that ends.
pub(super) struct LoginAttempt {
    steps: UnboundedReceiver<LoginStep>,
    _task: AbortOnDropHandle<()>,
}

/// Progress of a login.
pub(super) enum LoginStep {
    /// A page has been opened at this address.
    Opened(String),
    /// Note on the new key, or the reason for which there is none.
    Done(Result<String, String>),
}

impl LoginAttempt {
    /// Has a key checked that was typed, or asked for in the browser.
    pub(super) fn start(login: &Login, typed: Option<String>) -> Self {
        let (told, steps) = mpsc::unbounded_channel();
        let opened = told.clone();
        // Nobody listens any more when the user has left.
        let done = match typed {
            Some(key) => (login.typed)(key),
            None => (login.browser)(Box::new(move |url| {
                _ = opened.send(LoginStep::Opened(url.to_owned()));
            })),
        };
        let task = tokio::spawn(async move { _ = told.send(LoginStep::Done(done.await)) });
        Self { steps, _task: AbortOnDropHandle::new(task) }
    }
}

/// Waits for the next step of a login; for ever if there is none.
pub(super) async fn step(attempt: &mut Option<LoginAttempt>) -> LoginStep {
    match attempt {
        Some(attempt) => {
            let fault = || LoginStep::Done(Err("A fault of this program has ended it.".to_owned()));
            attempt.steps.recv().await.unwrap_or_else(fault)
        }
        None => std::future::pending().await,
    }
}
