//! The MCP servers of a session. Servers that the project's own settings name are started only after the user's
//! consent. A prompt waits, for a bounded time, for the servers that are connecting.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::session::events::event::Event;
use crate::session::events::log::Log;
use tandem_approval::consent::{Consent, ConsentError, Executable, MCP_SERVER};
use tandem_content::blocking::try_blocking;
use tandem_mcp::{Hub, ServerStatus};

/// Time for which a prompt waits for servers before people are told that it waits.
const SILENT_WAIT: Duration = Duration::from_millis(700);

/// The MCP servers of a session.
pub(crate) struct Servers {
    /// The connections to the servers.
    pub(crate) hub: Arc<Hub>,
    consent: Arc<Consent>,
    log: Log,
}

impl Servers {
    pub(crate) fn new(hub: Arc<Hub>, consent: Arc<Consent>, log: Log) -> Self {
        let agreed = Arc::clone(&consent);
        // The consent is checked just before each start, because the program may have changed since the user has
        // agreed to it.
        hub.start_only_if(move |server| {
            let agreed = Arc::clone(&agreed);
            async move { agreed.still_covers(MCP_SERVER, &server).await }.boxed()
        });
        Self { hub, consent, log }
    }

    /// Begins to connect to the servers, and waits for none. Servers that the project's own settings name are connected
    /// when the user has agreed.
    pub(crate) fn start(&self) {
        self.hub.start();
        if !self.hub.awaits_consent() {
            return;
        }
        // The task holds the hub weakly, so that it does not keep a session alive that ends before the user agrees.
        let (consent, hub) = (Arc::clone(&self.consent), Arc::downgrade(&self.hub));
        tokio::spawn(async move {
            if consent.settled().await
                && let Some(hub) = hub.upgrade()
            {
                hub.release().await;
            }
        });
    }

    /// Waits for the servers that are connecting. The wait is bounded: servers that are not ready by then are named in
    /// a notice, and connect on in the background.
    pub(crate) async fn settled(&self, cancel: &CancellationToken) {
        self.hub.start();
        if self.consent.is_given() {
            self.hub.release().await;
        }
        let settled = async {
            if timeout(SILENT_WAIT, self.hub.settled()).await.is_ok() {
                return;
            }
            let names = list(&self.hub.pending());
            self.log.append(Event::Notice(format!("Waiting for the MCP servers {names}")));
            self.hub.settled().await;
        };
        if cancel.run_until_cancelled(settled).await.is_none() {
            return;
        }
        let late = self.hub.still_connecting();
        if !late.is_empty() {
            let notice = format!(
                "The MCP servers {} are not ready; the model gets their tools as soon as they are",
                list(&late)
            );
            self.log.append(Event::Notice(notice));
        }
    }

    /// Returns the status of each server. If a server has not been started yet, as in a run that is only a slash
    /// command, starts the servers first, and waits for them as long as a prompt would.
    pub(crate) async fn status_when_started(&self) -> Vec<ServerStatus> {
        if self.hub.idles() {
            self.start();
            self.hub.settled().await;
        }
        self.hub.status()
    }

    /// Reads the servers in the settings again, connects anew to all of them, or to `only` one, and waits for them for
    /// a bounded time.
    pub(crate) async fn reload(&self, only: Option<&str>) -> Result<(), String> {
        let (hub, only) = (Arc::clone(&self.hub), only.map(str::to_owned));
        try_blocking(move || hub.reload(only.as_deref())).await?;
        if self.hub.awaits_consent() {
            // The new settings may name other servers that need the user's consent.
            self.consent.review_again();
        }
        self.start();
        self.hub.settled().await;
        Ok(())
    }

    /// Takes the answer of a person about the programs of the folder's own settings, which that person was `shown`. A
    /// no ends the servers that an earlier yes has started.
    pub(super) async fn answer(&self, shown: &[Executable], yes: bool) -> Result<(), ConsentError> {
        let kept = self.consent.answer(shown, yes).await;
        if !yes {
            self.hub.withdraw();
        }
        kept
    }

    /// Takes the same answer as [`Self::answer`], and waits for the servers that start after a yes.
    pub(crate) async fn trust_folder(
        &self,
        shown: &[Executable],
        yes: bool,
    ) -> Result<(), ConsentError> {
        let kept = self.answer(shown, yes).await;
        if self.consent.is_given() {
            self.hub.release().await;
            self.hub.settled().await;
        }
        kept
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
