//! Servers of one session by name, each with the task that keeps it connected.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::AbortOnDropHandle;

use super::config::ServerConfig;
use super::context::HubContext;
use super::server::{Phase, ServerHandle};

/// Servers of one session, by name.
#[derive(Default)]
pub(super) struct ServerRegistry {
    entries: Mutex<BTreeMap<String, ServerEntry>>,
}

/// A server, and the task that keeps it connected.
pub(super) struct ServerEntry {
    pub(super) server: Arc<ServerHandle>,
    /// Task that keeps the server connected; `None` if it has not been started.
    pub(super) keeping: Option<AbortOnDropHandle<()>>,
    /// `true` if the settings name the server.
    pub(super) in_settings: bool,
    /// `true` if the user has agreed to the server.
    pub(super) agreed: bool,
}

impl ServerEntry {
    pub(super) fn new(config: ServerConfig, in_settings: bool, context: &Arc<HubContext>) -> Self {
        let server = ServerHandle::new(config, false, context);
        Self { server, keeping: None, in_settings, agreed: false }
    }

    /// Returns a new entry for the same server, which is not started.
    pub(super) fn restarted(&self, context: &Arc<HubContext>) -> Self {
        self.agreed(self.agreed, context)
    }

    /// Returns a new entry for the same server, which is not started, with or without the user's consent.
    pub(super) fn agreed(&self, agreed: bool, context: &Arc<HubContext>) -> Self {
        let server = ServerHandle::new(self.server.config.clone(), agreed, context);
        Self { server, keeping: None, in_settings: self.in_settings, agreed }
    }

    pub(super) fn name(&self) -> String {
        self.server.config.name.clone()
    }

    /// Begins to connect to an idle server. A server that waits for the user's consent, or is disabled, is not
    /// connected.
    pub(super) fn start(&mut self) {
        let idle = matches!(self.server.state().phase, Phase::Idle);
        if idle && self.keeping.is_none() {
            self.server.set_connecting();
            let keeping = Arc::clone(&self.server).keep_connected();
            self.keeping = Some(AbortOnDropHandle::new(tokio::spawn(keeping)));
        }
    }
}

impl ServerRegistry {
    /// Returns a registry of these servers, none of which is being connected to yet.
    pub(super) fn new(entries: impl IntoIterator<Item = ServerEntry>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.name(), entry));
        Self { entries: Mutex::new(entries.collect()) }
    }

    /// Locks the servers. The lock must not be held across `.await`.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ServerEntry>> {
        self.entries.lock()
    }

    /// Returns all servers, in the order of their names.
    pub(super) fn all(&self) -> Vec<Arc<ServerHandle>> {
        self.lock().values().map(|entry| Arc::clone(&entry.server)).collect()
    }

    /// Returns the server of this name. The error lists the known servers.
    pub(super) fn find(&self, name: &str) -> Result<Arc<ServerHandle>, String> {
        let servers = self.lock();
        let found = servers.get(name).map(|entry| Arc::clone(&entry.server));
        found.ok_or_else(|| unknown(name, &servers))
    }
}

/// Returns the message for an unknown server, which lists the known servers.
pub(super) fn unknown(name: &str, servers: &BTreeMap<String, ServerEntry>) -> String {
    let names: Vec<_> = servers.keys().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return format!(
            "Unknown MCP server `{name}`. No MCP servers are configured: add them under \
             `mcpServers` in `settings.json`, or in your editor."
        );
    }
    format!("Unknown MCP server `{name}`. Known servers: {}.", names.join(", "))
}
