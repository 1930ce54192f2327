//! Login in progress: a key is being checked, or a page in the browser asks for a key.

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::task::AbortOnDropHandle;

use super::setup::Login;

/// A login in progress. Dropping this value cancels the login.
pub(super) struct LoginAttempt {
    steps: UnboundedReceiver<LoginStep>,
    _task: AbortOnDropHandle<()>,
}

/// Progress of a login.
pub(super) enum LoginStep {
    /// A page has been opened at this address.
    Opened(String),
    /// The login has ended: a note on the new key, or the reason why there is none.
    Done(Result<String, String>),
}

impl LoginAttempt {
    /// Starts to check the key `typed`, or to ask for a key in the browser.
    pub(super) fn start(login: &Login, typed: Option<String>) -> Self {
        let (told, steps) = mpsc::unbounded_channel();
        let opened = told.clone();
        // A failed send is ignored: the user has left the login then.
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

/// Waits for the next step of a login; for ever if none is in progress.
pub(super) async fn step(attempt: &mut Option<LoginAttempt>) -> LoginStep {
    match attempt {
        Some(attempt) => {
            let fault =
                || LoginStep::Done(Err("The login failed because of a bug in tandem.".to_owned()));
            attempt.steps.recv().await.unwrap_or_else(fault)
        }
        None => std::future::pending().await,
    }
}
