//! The server beside an editor, a terminal or one prompt, in a program without the feature `serve`: there is none.

use std::time::Duration;

use tokio::sync::watch;

use super::ending::EndSignals;
use super::session_factory::{OpenedSession, SessionFactory};
use crate::cli::AgentArgs;
use tandem_agent::sessions::Sessions;
use tandem_settings::Settings;

/// No server. The methods do nothing, so that the code that runs a session need not ask if there is a server.
pub(super) struct SessionServer;

#[expect(
    clippy::unused_async,
    clippy::unused_self,
    reason = "the server of the feature `serve` has these methods"
)]
impl SessionServer {
    /// Returns no server.
    pub(super) async fn begin(
        _: &AgentArgs,
        _: &OpenedSession,
        _: &SessionFactory,
        _: &Settings,
    ) -> anyhow::Result<Self> {
        Ok(Self)
    }

    /// Returns no server.
    pub(super) fn none() -> Self {
        Self
    }

    /// Writes nothing.
    pub(super) fn announce(&self) {}

    /// Returns `None`: no client can join.
    pub(super) fn join_address(&self) -> Option<(String, watch::Receiver<usize>)> {
        None
    }

    /// Returns at once: no client has joined.
    pub(super) async fn drain(&self, _: &Sessions, _: Duration, _: &mut EndSignals) {}

    /// Returns at once.
    pub(super) async fn end(self) {}
}
