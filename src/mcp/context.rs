//! State and resources shared by the servers of one session.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tandem_net::Lookup;
use tandem_tools::terminals::Terminals;
use tokio::sync::watch;

use super::auth::Logins;
use super::config::{McpLimits, ServerConfig};
use super::http::NetworkPolicy;

/// Parts that all servers of a session share.
pub(super) struct HubContext {
    pub(super) terminals: Arc<Terminals>,
    /// The directories of the workspace.
    pub(super) roots: Vec<PathBuf>,
    pub(super) limits: McpLimits,
    pub(super) logins: Logins,
    pub(super) lookup: Lookup,
    /// Number that changes with every change of the offers.
    pub(super) version: watch::Sender<u64>,
    pub(super) tell: Mutex<Tell>,
}

/// Tells people something.
pub(super) type Tell = Option<Box<dyn Fn(String) + Send + Sync>>;

impl HubContext {
    pub(super) fn tell(&self, what: String) {
        tracing::info!("{what}");
        if let Some(tell) = &*self.tell.lock() {
            tell(what);
        }
    }

    /// Returns the rules for requests to a server.
    pub(super) fn network(&self, config: &ServerConfig) -> NetworkPolicy {
        NetworkPolicy { confined: config.confined, lookup: Arc::clone(&self.lookup) }
    }

    pub(super) fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}
