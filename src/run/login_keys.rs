//! Search for API keys in the variables of the user's login shell. An editor may have started this process without
//! these variables.

use std::sync::Arc;

use tandem_host::terminals::Terminals;
use tandem_model::provider::Provider;
use tandem_settings::Credentials;

/// Source of API keys: the variables of the user's login shell.
pub(super) struct LoginKeys {
    credentials: Arc<Credentials>,
    terminals: Arc<Terminals>,
}

impl LoginKeys {
    /// Makes the source. Does not start the login shell yet.
    pub(super) fn new(credentials: Arc<Credentials>, terminals: Arc<Terminals>) -> Arc<Self> {
        Arc::new(Self { credentials, terminals })
    }

    /// Returns `true` if a provider has no key yet, and [`Self::find`] may find one.
    pub(super) fn may_find(&self, provider: Provider) -> bool {
        self.terminals.has_login_shell() && self.credentials.needs_login_variables(provider)
    }

    /// Reads keys from the login shell if a provider has none. The shell is asked once at most, for a bounded time.
    pub(super) async fn find(&self, provider: Provider) {
        if self.credentials.needs_login_variables(provider) {
            self.credentials.take_login_variables(self.terminals.login_variables().await);
        }
    }
}
