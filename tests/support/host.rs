//! Hosts of sessions, and contexts of tools, without a session.

use std::path::Path;
use std::sync::Arc;

use tandem_host::scratch::Scratch;
use tandem_host::terminals::{EnvironmentFilter, Supervisor, Terminals};
use tandem_host::workspace::Workspace;
use tandem_host::{Host, ToolAudience, ToolContext, ToolLimits, UserAnswer};
use tandem_sandbox::SandboxMode;
use tokio_util::sync::CancellationToken;

/// Returns the context of a tool that works on these files.
pub fn context(workspace: Workspace, limits: ToolLimits) -> ToolContext {
    ToolContext {
        call: Arc::from("call"),
        host: Arc::new(host_with(workspace, limits)),
        audience: ToolAudience::default(),
        variables: Arc::from([]),
        has_clock: true,
        sandbox: SandboxMode::DangerFullAccess,
        shown: Arc::default(),
        connect: None,
        cancel: CancellationToken::new(),
        progress: Arc::new(|_| ()),
        ask: Arc::new(|_| Box::pin(std::future::ready(UserAnswer::Rejected(None)))),
        announce: Arc::new(|_| Box::pin(std::future::ready(Ok(())))),
        background_ended: Arc::new(|_| ()),
    }
}

/// Returns a host of a session that works in this directory.
pub fn host(root: &Path) -> Host {
    host_with(Workspace::new(root, &[]).unwrap(), ToolLimits::default())
}

/// Returns a host of a session that works on these files.
pub fn host_with(workspace: Workspace, limits: ToolLimits) -> Host {
    Host::new(workspace, terminals(), Scratch::new(None), limits)
}

/// Terminals whose commands get the whole environment.
pub fn terminals() -> Arc<Terminals> {
    Terminals::new(&Supervisor::new(), EnvironmentFilter::default())
}
