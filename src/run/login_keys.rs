//! Keys in the variables of the user's login shell, which this process may have been started without.

use std::sync::Arc;

use tandem_host::terminals::Terminals;
use tandem_model::provider::Provider;
use tandem_settings::Credentials;

/// Keys in the variables of the user's login shell.
pub(super) struct LoginKeys {
    credentials: Arc<Credentials>,
    terminals: Arc<Terminals>,
}

impl LoginKeys {
    /// Asks for nothing yet.
    pub(super) fn new(credentials: Arc<Credentials>, terminals: Arc<Terminals>) -> Arc<Self> {
        Arc::new(Self { credentials, terminals })
    }

    /// Returns whether a provider has no key as yet, and [`Self::find`] may find one.
    pub(super) fn may_find(&self, provider: Provider) -> bool {
        self.terminals.has_login_shell() && self.credentials.needs_login_variables(provider)
    }

    /// Asks the login shell for keys if a provider has none. Takes a bounded time, and only once;
    /// mostly none at all.
    pub(super) async fn find(&self, provider: Provider) {
        if self.credentials.needs_login_variables(provider) {
            self.credentials.take_login_variables(self.terminals.login_variables().await);
        }
    }
}
