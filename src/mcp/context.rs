//! State and resources shared by the servers of one session.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tandem_content::blocking::blocking;
use tandem_host::command_sandbox::{CommandSandbox, Confinement, why_none};
use tandem_host::terminals::Terminals;
use tandem_net::Lookup;
use tokio::sync::watch;

use super::auth::Logins;
use super::config::{McpLimits, ServerConfig, ServerReach, ServerSandbox};
use super::http::NetworkPolicy;
use super::hub::Load;

/// Hint at the sandbox, which follows the reason why a server does not work.
const SANDBOX_HINT: &str = "the server runs in the sandbox, which may be the cause: `/sandbox` shows what the \
    sandbox allows, and servers that `tools.sandboxExcludedServers` in your own settings names run outside";

/// Parts that all servers of a session share.
pub(super) struct HubContext {
    pub(super) terminals: Arc<Terminals>,
    /// Sandbox for programs whose configuration demands a sandbox.
    pub(super) sandbox: Option<Arc<CommandSandbox>>,
    /// `true` once people have been told that no sandbox works.
    pub(super) complained: AtomicBool,
    /// The directories of the workspace.
    pub(super) roots: Vec<PathBuf>,
    pub(super) limits: McpLimits,
    pub(super) logins: Logins,
    pub(super) lookup: Lookup,
    /// Number that changes whenever the tools, prompts or resources of a server change.
    pub(super) version: watch::Sender<u64>,
    /// Function that shows a message to people.
    pub(super) tell: Mutex<Tell>,
    /// Check that the user has agreed to a server as the settings name it now; with `None`, nothing is checked.
    pub(super) agreed: Mutex<Option<Agreed>>,
    /// Function that reads the settings again and returns the servers that they name. It may block.
    pub(super) load: Load,
}

/// Function that returns `true` if the user has agreed to the server with this name as the settings name it now.
pub(super) type Agreed = Arc<dyn Fn(String) -> BoxFuture<'static, bool> + Send + Sync>;

/// Function that shows a message to people, if one is set.
pub(super) type Tell = Option<Box<dyn Fn(String) + Send + Sync>>;

impl HubContext {
    pub(super) fn tell(&self, what: String) {
        tracing::info!("{what}");
        if let Some(tell) = &*self.tell.lock() {
            tell(what);
        }
    }

    /// Returns `true` if a server may be connected to. A server that needs the user's consent must be the server
    /// that the settings name now, and must not have changed since the user agreed.
    pub(super) async fn may_start(&self, config: &ServerConfig) -> bool {
        let agreed = self.agreed.lock().clone().filter(|_| config.held.is_some());
        let Some(agreed) = agreed else { return true };
        let (load, config) = (Arc::clone(&self.load), config.clone());
        let name = config.name.clone();
        let is_named = move || load().iter().any(|named| named.runs_the_same(&config));
        let is_named = blocking(is_named).await.is_ok_and(|is_named| is_named);
        // `agreed` is called even if the server is not named. The call makes the user be asked again if the settings
        // name another program.
        agreed(name).await && is_named
    }

    /// Prepares the sandbox for a server's program, if the program runs in a sandbox. If no sandbox works and the
    /// configuration does not demand one, the program runs without: the user has agreed to the program itself, and
    /// people are told once. The error says what has failed.
    pub(super) async fn confine(
        &self,
        config: &ServerConfig,
    ) -> Result<Option<Confinement>, String> {
        if config.sandbox == ServerSandbox::Never {
            return Ok(None);
        }
        let is_required = config.sandbox == ServerSandbox::Required;
        let Some(sandbox) = &self.sandbox else {
            return if is_required {
                Err(required("this session has no sandbox"))
            } else {
                Ok(None)
            };
        };
        let probe = sandbox.probe().await;
        if probe.sandbox.is_some() || sandbox.refusal(&probe).is_some() {
            return sandbox.confine_server().await.map(Some).map_err(|error| error.message);
        }
        let why = why_none(&probe);
        if is_required {
            return Err(required(&why));
        }
        if !self.complained.swap(true, Ordering::Relaxed) {
            self.tell(format!("MCP servers run without a sandbox: {why}"));
        }
        Ok(None)
    }

    /// Returns `true` if a server's program runs in the sandbox, as far as this is known.
    pub(super) fn is_sandboxed(&self, config: &ServerConfig) -> bool {
        let is_program = matches!(config.reach, ServerReach::Stdio(_));
        let may_be = config.sandbox != ServerSandbox::Never;
        is_program && may_be && self.sandbox.as_ref().is_some_and(|it| it.works())
    }

    /// Returns the reason why a server does not work, with the hint at the sandbox if the server runs in it.
    pub(super) fn explained(&self, config: &ServerConfig, why: String) -> String {
        if !self.is_sandboxed(config) {
            return why;
        }
        format!("{why}; {SANDBOX_HINT}")
    }

    /// Returns the rules for requests to a server.
    pub(super) fn network(&self, config: &ServerConfig) -> NetworkPolicy {
        NetworkPolicy { confined: config.confined, lookup: Arc::clone(&self.lookup) }
    }

    pub(super) fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

/// Returns the reason why a server is not started if its own settings demand a sandbox, and what to do about it.
fn required(why_none: &str) -> String {
    format!(
        "not started: its settings ask for a sandbox (`sandbox`), and no sandbox works here ({why_none}). To run \
         the server without a sandbox, remove `sandbox` from its settings, or name the server in \
         `tools.sandboxExcludedServers` in your own settings; then run `/mcp reload`"
    )
}
