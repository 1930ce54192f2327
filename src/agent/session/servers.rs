//! MCP servers in a session: a prompt waits for them for a bounded time, and people are told for
//! whom, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Session;
use super::event::Event;
use tandem_mcp::{NamedPrompt, ServerConfig, ServerStatus};

/// Shortest wait for servers that people are told of.
const SHORT: Duration = Duration::from_millis(700);

/// Maximum number of notices that are kept for the next turn.
const UNTOLD: usize = 20;

impl Session {
    /// Begins to reach the MCP servers, and waits for none. Those that the project's own settings
    /// name are reached when the user has agreed.
    pub fn start_servers(&self) {
        self.servers.start();
        if !self.servers.holds() {
            return;
        }
        let (consent, servers) =
            (Arc::clone(&self.approvals.consent), Arc::downgrade(&self.servers));
        tokio::spawn(async move {
            if consent.settled().await
                && let Some(servers) = servers.upgrade()
            {
                servers.release();
            }
        });
    }

    /// Takes over MCP servers that a client brings, and begins to reach them.
    pub fn add_servers(&self, servers: Vec<ServerConfig>) {
        self.servers.add(servers);
    }

    /// Returns the status of each MCP server, in the order of their names.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.servers.status()
    }

    /// The prompts of all MCP servers, the servers in the order of their names.
    pub fn server_prompts(&self) -> Vec<NamedPrompt> {
        self.servers.prompts()
    }

    /// Waits for servers that are getting ready. That has an end, also if they have none.
    pub(super) async fn await_servers(&self, cancel: &CancellationToken) {
        self.servers.start();
        if self.approvals.consent.given() {
            self.servers.release();
        }
        let settled = async {
            if timeout(SHORT, self.servers.settled()).await.is_ok() {
                return;
            }
            let names = list(&self.servers.pending());
            self.log.append(Event::Notice(format!("Waiting for the MCP servers {names}")));
            self.servers.settled().await;
        };
        if cancel.run_until_cancelled(settled).await.is_none() {
            return;
        }
        let late = self.servers.late();
        if !late.is_empty() {
            let notice = format!(
                "The MCP servers {} are not ready; their tools come when they are",
                list(&late)
            );
            self.log.append(Event::Notice(notice));
        }
    }

    /// Tells people something that came up by itself: now if a turn runs, else in the next.
    pub(super) fn tell(&self, notice: String) {
        let turns = self.turns.lock();
        if turns.running.is_some() {
            self.log.append(Event::Notice(notice));
            return;
        }
        let mut untold = self.notices.lock();
        if untold.len() < UNTOLD {
            untold.push(notice);
        }
    }

    /// Lets a session that exists be told of its servers.
    pub(super) fn listen_to_servers(self: &Arc<Self>) {
        let session = Arc::downgrade(self);
        self.servers.on_news(move |news| {
            if let Some(session) = session.upgrade() {
                session.tell(news);
            }
        });
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
