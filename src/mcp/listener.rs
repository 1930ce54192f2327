//! Requests and notifications of a server to this client.
#![expect(deprecated, reason = "roots and logs go out of use, and servers of today use them")]

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCreateRequestMethod, ErrorData,
    ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    Root, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::watch;
use tokio::time::sleep;

use super::connection::{Notifications, ServerConnection};

/// Delay before a subscription that has ended is renewed.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(10);

/// Client end of a connection: the handler of the server's requests and notifications.
pub(super) struct Listener {
    pub(super) server: String,
    /// Name, version and capabilities of this client.
    pub(super) info: ClientConfig,
    /// The directories of the workspace.
    pub(super) roots: Vec<PathBuf>,
    pub(super) hearing: Arc<Notifications>,
    /// Changes of the server's lists.
    pub(super) changes: watch::Sender<ListChanges>,
}

/// Counters of list changes: changes that the server has announced (`said`), and the last change after which the
/// lists were read (`known`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListChanges {
    pub(super) said: u64,
    pub(super) known: u64,
}

impl ListChanges {
    /// Returns `true` if all announced changes are read.
    pub(super) fn all_known(&self) -> bool {
        self.said == self.known
    }
}

impl Listener {
    fn changed(&self) {
        self.changes.send_modify(|changes| changes.said += 1);
    }
}

/// Subscribes to the changes of a server's lists, and notes them. The protocol's versions since 2026 announce changes
/// only to subscribers. Never returns.
pub(super) async fn listen(connection: &ServerConnection, changes: &watch::Sender<ListChanges>) {
    let info = connection.peer.peer_info();
    let modern = info.is_some_and(|it| it.protocol_version >= ProtocolVersion::V_2026_07_28);
    let can = &connection.capabilities;
    let mut wanted = SubscriptionFilter::new();
    wanted.tools_list_changed = can.tools.as_ref().and_then(|it| it.list_changed);
    wanted.prompts_list_changed = can.prompts.as_ref().and_then(|it| it.list_changed);
    wanted.resources_list_changed = can.resources.as_ref().and_then(|it| it.list_changed);
    if !modern || wanted == SubscriptionFilter::new() {
        return pending().await;
    }
    loop {
        match connection.peer.listen(wanted.clone()).await {
            Ok(mut heard) => {
                while let Ok(Some(_)) = heard.next().await {
                    changes.send_modify(|changes| changes.said += 1);
                }
            }
            Err(why) => {
                tracing::debug!(server = connection.name, "its changes are not heard of: {why}");
            }
        }
        sleep(RESUBSCRIBE_DELAY).await;
        // Changes may have been missed without the subscription, so the lists are read again.
        changes.send_modify(|changes| changes.said += 1);
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

    /// Refuses to ask the user, with an error for an unknown method. The default of rmcp would answer that the user
    /// has declined, although the user was not asked.
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(ErrorData::method_not_found::<ElicitationCreateRequestMethod>())
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

/// Returns the URI of a directory.
fn file_uri(path: &Path) -> String {
    const KEPT_CHARACTERS: percent_encoding::AsciiSet = percent_encoding::NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'.')
        .remove(b'-')
        .remove(b'_')
        .remove(b'~');
    let path = path.to_string_lossy();
    format!("file://{}", percent_encoding::utf8_percent_encode(&path, &KEPT_CHARACTERS))
}
