//! A login that goes on after `authenticate` was answered.

use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use crate::Login;
use tandem_agent::session::Session;
use tandem_model::provider::Provider;

/// A login that goes on. Dropped, it closes the page that asks for the key.
pub(super) struct PendingLogin {
    provider: Provider,
    /// Address of the page, once there is one.
    address: Arc<OnceLock<String>>,
    task: AbortOnDropHandle<()>,
}

/// Way to the outcome of a login; the error tells the user what to do.
pub(super) type LoginOutcome = oneshot::Receiver<Result<(), String>>;

impl PendingLogin {
    /// Begins a login for the model of a session, if there is one.
    pub(super) fn begin(login: &dyn Login, session: Option<Arc<Session>>) -> (Self, LoginOutcome) {
        let provider = login.provider_of(session.as_deref());
        let address = Arc::<OnceLock<String>>::default();
        let page = Arc::clone(&address);
        let opened = move |url: &str| {
            // There is one page.
            let _ = page.set(url.to_owned());
        };
        let credentials = login.authenticate(session, Box::new(opened));
        let (ended, outcome) = oneshot::channel();
        let task = tokio::spawn(async move {
            // Nobody waits any more if it takes long.
            let _ = ended.send(credentials.await);
        });
        (Self { provider, address, task: AbortOnDropHandle::new(task) }, outcome)
    }

    /// Returns `true` if a provider's key is still waited for.
    pub(super) fn is_for(&self, provider: Provider) -> bool {
        self.provider == provider && !self.task.is_finished()
    }

    /// Returns the address of the page that asks for the key, if there is one.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.get().map(String::as_str)
    }
}
