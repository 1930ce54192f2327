//! MCP servers in a session: those that the project's own settings name wait for the user's consent,
//! and a prompt waits for those that are getting ready, for a bounded time.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::session::events::event::Event;
use crate::session::events::log::Log;
use tandem_mcp::{Hub, ServerStatus};
use tandem_policy::consent::{Consent, ConsentError, Executable, MCP_SERVER};

/// Shortest wait for servers that people are told of.
const SHORT: Duration = Duration::from_millis(700);

/// The MCP servers of a session.
pub(crate) struct Servers {
    /// The connections.
    pub(crate) hub: Arc<Hub>,
    consent: Arc<Consent>,
    log: Log,
}

impl Servers {
    pub(crate) fn new(hub: Arc<Hub>, consent: Arc<Consent>, log: Log) -> Self {
        let agreed = Arc::clone(&consent);
        hub.start_only_if(move |server| {
            let agreed = Arc::clone(&agreed);
            async move { agreed.still_covers(MCP_SERVER, &server).await }.boxed()
        });
        Self { hub, consent, log }
    }

    /// Begins to reach the servers, and waits for none. Those that the project's own settings name
    /// are reached when the user has agreed.
    pub(crate) fn start(&self) {
        self.hub.start();
        if !self.hub.holds() {
            return;
        }
        // Not kept alive by the wait: a session may end before anybody agrees.
        let (consent, hub) = (Arc::clone(&self.consent), Arc::downgrade(&self.hub));
        tokio::spawn(async move {
            if consent.settled().await
                && let Some(hub) = hub.upgrade()
            {
                hub.release().await;
            }
        });
    }

    /// Waits for servers that are getting ready. That has an end, also if they have none.
    pub(crate) async fn settled(&self, cancel: &CancellationToken) {
        self.hub.start();
        if self.consent.given() {
            self.hub.release().await;
        }
        let settled = async {
            if timeout(SHORT, self.hub.settled()).await.is_ok() {
                return;
            }
            let names = list(&self.hub.pending());
            self.log.append(Event::Notice(format!("Waiting for the MCP servers {names}")));
            self.hub.settled().await;
        };
        if cancel.run_until_cancelled(settled).await.is_none() {
            return;
        }
        let late = self.hub.late();
        if !late.is_empty() {
            let notice = format!(
                "The MCP servers {} are not ready; their tools come when they are",
                list(&late)
            );
            self.log.append(Event::Notice(notice));
        }
    }

    /// Returns the status of each server. If no server has been needed yet, as in a run of nothing
    /// but a command, the servers are connected first, within the time that a prompt would wait.
    pub(crate) async fn status_when_started(&self) -> Vec<ServerStatus> {
        if self.hub.idles() {
            self.start();
            self.hub.settled().await;
        }
        self.hub.status()
    }

    /// Reads again which servers the settings name, and reaches all of them anew, or one; waits for
    /// them for a while.
    pub(crate) async fn reload(&self, only: Option<&str>) -> Result<(), String> {
        let (hub, only) = (Arc::clone(&self.hub), only.map(str::to_owned));
        blocking(move || hub.reload(only.as_deref())).await?;
        if self.hub.holds() {
            // What is to be agreed to may be something else now.
            self.consent.look_again();
        }
        self.start();
        self.hub.settled().await;
        Ok(())
    }

    /// Takes an answer about the programs of the folder's own settings that a person was shown. A no ends the servers that
    /// an earlier yes has started.
    pub(super) async fn answer(&self, shown: &[Executable], yes: bool) -> Result<(), ConsentError> {
        let kept = self.consent.answer(shown, yes).await;
        if !yes {
            self.hub.withdraw();
        }
        kept
    }

    /// Takes such an answer, and waits for the servers that start after a yes.
    pub(crate) async fn trust_folder(
        &self,
        shown: &[Executable],
        yes: bool,
    ) -> Result<(), ConsentError> {
        let kept = self.answer(shown, yes).await;
        if self.consent.given() {
            self.hub.release().await;
            self.hub.settled().await;
        }
        kept
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
