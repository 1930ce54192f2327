//! What a server may ask of us and tell us by itself.
#![expect(deprecated, reason = "roots and logs go out of use, and servers of today use them")]

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientConfig, ErrorData, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, Root,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::watch;

use super::connect::file_uri;
use super::connection::Hearing;

/// Our end of a connection.
pub(super) struct Listener {
    pub(super) server: String,
    /// Who we are.
    pub(super) info: ClientConfig,
    /// The directories of the workspace.
    pub(super) roots: Vec<PathBuf>,
    pub(super) hearing: Arc<Hearing>,
    /// What the server says of its lists.
    pub(super) changes: watch::Sender<Changes>,
}

/// How often a server has said that what it offers has changed, and how much of that is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    pub(super) said: u64,
    pub(super) known: u64,
}

impl Changes {
    /// Whether what is known is what is so.
    pub(super) fn all_known(&self) -> bool {
        self.said == self.known
    }
}

impl Listener {
    fn changed(&self) {
        self.changes.send_modify(|changes| changes.said += 1);
    }
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        self.info.clone()
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.iter().map(|root| Root::new(file_uri(root))).collect()))
    }

    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.hearing.progressed(&said);
    }

    async fn on_logging_message(
        &self,
        said: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        tracing::debug!(server = self.server, level = ?said.level, "{}", said.data);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed();
    }
}
