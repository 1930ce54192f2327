//! One MCP server: the task that keeps it connected, and starts it again when it has ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::config::{ServerConfig, ServerReach, has_token};
use super::connect::{LiveConnection, ReachError, connect};
use super::connection::ServerConnection;
use super::context::HubContext;
use super::listener::{ListChanges, listen};
use super::offer::Offer;
use tandem_net::Backoff;

/// Maximum number of consecutive retries.
const MAX_RETRIES: u32 = 6;

/// Time for which a server must have been ready before the count of retries is reset.
const RETRY_RESET_TIME: Duration = Duration::from_mins(1);

/// Maximum time for which a request to the model waits for a list that has just changed.
const MAX_LIST_WAIT: Duration = Duration::from_secs(1);

/// Minimum time between two reads of a server's lists, however often the server announces changes.
const MIN_LIST_INTERVAL: Duration = Duration::from_millis(200);

/// A server in any phase of its connection.
pub(super) struct ServerHandle {
    pub(super) config: ServerConfig,
    context: Arc<HubContext>,
    state: watch::Sender<ServerState>,
    /// Changes of the lists that the server has announced.
    changes: watch::Sender<ListChanges>,
    /// Signal that the server is needed, which ends a wait for a retry.
    wanted: Notify,
}

/// State of a server.
#[derive(Clone)]
pub(super) struct ServerState {
    pub(super) phase: Phase,
    /// Tools, prompts and resources of the server. They stay while the server is restarted, so that the model's tools
    /// do not change.
    pub(super) offer: Arc<Offer>,
}

/// Phase of a server's connection.
#[derive(Clone)]
pub(super) enum Phase {
    /// The server has not been needed yet.
    Idle,
    /// The task is connecting; prompts wait for the server until this time.
    Connecting(Instant),
    Ready(Arc<ServerConnection>),
    /// The server is not connected. The fields are the cause, and the time of the next retry if there is one.
    Down(String, Option<Instant>),
    /// The user must log in first; the text says how.
    Login(String),
    /// The user must allow the server first; the text says how.
    Held(String),
    /// The user has disabled the server.
    Disabled,
}

impl Phase {
    /// Returns the name of the phase that the first version of the A2A server has defined for its clients.
    pub(super) fn status(&self) -> &'static str {
        match self {
            Self::Ready(_) => "connected",
            Self::Connecting(_) => "connecting",
            Self::Disabled => "disabled",
            Self::Held(_) => "blocked",
            Self::Idle | Self::Down(..) | Self::Login(_) => "disconnected",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("not started yet"),
            Self::Connecting(_) => f.write_str("getting ready"),
            Self::Ready(_) => f.write_str("ready"),
            Self::Down(why, None) => write!(f, "down: {why}"),
            Self::Down(why, Some(again)) => {
                let seconds = again.saturating_duration_since(Instant::now()).as_secs() + 1;
                write!(f, "down: {why}. Retrying in {seconds} s")
            }
            Self::Login(why) | Self::Held(why) => f.write_str(why),
            Self::Disabled => f.write_str("disabled"),
        }
    }
}

impl ServerHandle {
    /// Returns a handle of a server that is not started. `agreed` is `true` if the user has allowed the server.
    pub(super) fn new(config: ServerConfig, agreed: bool, context: &Arc<HubContext>) -> Arc<Self> {
        let held = config.held.clone().filter(|_| !agreed);
        let phase = held.map_or(Phase::Idle, Phase::Held);
        let state = ServerState { phase, offer: Arc::default() };
        Arc::new(Self {
            config,
            context: Arc::clone(context),
            state: watch::Sender::new(state),
            changes: watch::Sender::default(),
            wanted: Notify::new(),
        })
    }

    pub(super) fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// Waits a bounded time until the server is ready, and returns its connection. The error is the status.
    pub(super) async fn connection(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Arc<ServerConnection>, String> {
        let mut state = self.state.subscribe();
        if !matches!(state.borrow().phase, Phase::Ready(_)) {
            self.wanted.notify_one();
        }
        let settled = state.wait_for(|state| match &state.phase {
            Phase::Ready(connection) => !connection.peer.is_transport_closed(),
            Phase::Idle | Phase::Connecting(_) | Phase::Down(_, Some(_)) => false,
            Phase::Down(_, None) | Phase::Login(_) | Phase::Held(_) | Phase::Disabled => true,
        });
        let settled = timeout(self.context.limits.wait, settled);
        let _ = cancel.run_until_cancelled(settled).await;
        match self.state().phase {
            Phase::Ready(connection) => Ok(connection),
            _ => Err(self.status_line() + "."),
        }
    }

    /// Waits until the server is ready, or prompts no longer wait for it.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        loop {
            let until = match state.borrow_and_update().phase {
                Phase::Connecting(until) if until > Instant::now() => until,
                _ => return,
            };
            // This cannot fail: the sender lives as long as `self`.
            let _ = timeout(until - Instant::now(), state.changed()).await;
        }
    }

    /// Waits a bounded time until all announced changes are read.
    pub(super) async fn wait_list_changes(&self) {
        let mut changes = self.changes.subscribe();
        let _ = timeout(MAX_LIST_WAIT, changes.wait_for(ListChanges::all_known)).await;
    }

    /// Disables the server.
    pub(super) fn disable(&self) {
        self.set_phase(Phase::Disabled, Some(Arc::default()));
    }

    /// Enters the phase [`Phase::Connecting`].
    pub(super) fn set_connecting(&self) {
        let until = Instant::now() + self.context.limits.wait;
        self.set_phase(Phase::Connecting(until), None);
    }

    /// Keeps the server connected until the task is dropped. One round takes these steps:
    /// 1. Connects, and reads the server's lists. If the server knows only the other handshake, the next round uses
    ///    that one.
    /// 2. Follows the server's announcements until the connection ends.
    /// 3. After a failure that may pass, waits for the backoff; after too many, or after any other failure, waits
    ///    until the server is needed.
    pub(super) async fn keep_connected(self: Arc<Self>) {
        let limits = &self.context.limits;
        // The wait has no maximum, because `MAX_RETRIES` bounds it.
        let backoff = Backoff::doubling(limits.again, Duration::MAX);
        let mut failures = 0;
        let mut discover = false;
        loop {
            self.set_connecting();
            let reached = timeout(limits.start, self.reach(discover)).await;
            let late = || format!("it was not ready after {} s", limits.start.as_secs_f64());
            let trouble = match reached.unwrap_or_else(|_| Err(ReachError::Passing(late()))) {
                Ok((live, offer)) => {
                    let since = Instant::now();
                    self.set_phase(
                        Phase::Ready(Arc::clone(&live.connection)),
                        Some(Arc::new(offer)),
                    );
                    if failures > 0 {
                        self.tell();
                    }
                    let why = self.follow(live).await;
                    if since.elapsed() > RETRY_RESET_TIME {
                        failures = 0;
                    }
                    ReachError::Passing(why)
                }
                Err(trouble) => trouble,
            };
            match trouble {
                ReachError::OtherWay => discover = true,
                ReachError::Passing(why) if failures < MAX_RETRIES => {
                    let why = self.explained(&why);
                    failures += 1;
                    self.pause(why, backoff.delay(failures), failures == 1).await;
                }
                ReachError::Passing(why) | ReachError::Lasting(why) => {
                    failures = 0;
                    self.stop(Phase::Down(self.explained(&why), None)).await;
                }
                ReachError::Held(why) => self.stop(Phase::Held(why)).await,
                ReachError::Login(why) => self.stop(Phase::Login(self.login(&why))).await,
            }
        }
    }

    /// Returns the reason why the server is down, without its secrets, for people.
    fn explained(&self, why: &str) -> String {
        self.context.explained(&self.config, self.config.concealed(why))
    }

    fn login(&self, why: &str) -> String {
        let name = &self.config.name;
        match &self.config.reach {
            ServerReach::Http { headers, .. } if has_token(headers) => format!(
                "{why}: it refuses the `Authorization` among its `headers`; correct this header in the settings, \
                 then run `/mcp reload`"
            ),
            _ => format!(
                "{why}: run `/mcp auth {name}`, or put a token into its `headers` in the settings"
            ),
        }
    }

    /// Waits until the retry is due, or until the server is needed.
    async fn pause(&self, why: String, pause: Duration, first: bool) {
        self.set_phase(Phase::Down(why, Some(Instant::now() + pause)), None);
        if first {
            self.tell();
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = self.wanted.notified() => {}
        }
    }

    /// Enters a phase without retries, and waits until the server is needed.
    async fn stop(&self, phase: Phase) {
        self.set_phase(phase, Some(Arc::default()));
        self.tell();
        self.wanted.notified().await;
    }

    /// Shows the status to people.
    fn tell(&self) {
        self.context.tell(self.status_line());
    }

    /// Returns the one-sentence status of the server.
    pub(super) fn status_line(&self) -> String {
        let name = &self.config.name;
        match &self.state.borrow().phase {
            phase @ (Phase::Login(_) | Phase::Held(_)) => {
                format!("The MCP server `{name}` {phase}")
            }
            phase => format!("The MCP server `{name}` is {phase}"),
        }
    }

    /// Connects to the server and reads its lists.
    async fn reach(&self, discover: bool) -> Result<(LiveConnection, Offer), ReachError> {
        let mut live = connect(&self.config, &self.context, &self.changes, discover).await?;
        match Offer::read(&live.connection, &self.config, &self.context.limits).await {
            Some(offer) => Ok((live, offer)),
            None => Err(ReachError::Passing(live.body.end("it closed the connection").await)),
        }
    }

    /// Keeps the server's lists up to date until the connection has ended; returns the cause.
    async fn follow(&self, live: LiveConnection) -> String {
        let LiveConnection { connection, service, mut body } = live;
        let mut changes = self.changes.subscribe();
        let reading = async {
            loop {
                // This cannot fail: the sender lives as long as `self`.
                let _ = changes.wait_for(|changes| !changes.all_known()).await;
                let said = self.changes.borrow().said;
                let offer = Offer::read(&connection, &self.config, &self.context.limits).await;
                let phase = Phase::Ready(Arc::clone(&connection));
                self.set_phase(phase, offer.map(Arc::new));
                self.changes.send_modify(|changes| changes.known = said);
                sleep(MIN_LIST_INTERVAL).await;
            }
        };
        tokio::select! {
            _ = service.waiting() => {}
            () = reading => {}
            () = listen(&connection, &self.changes) => {}
        }
        self.changes.send_modify(|changes| changes.known = changes.said);
        body.end("it closed the connection").await
    }

    /// Sets the phase, and the lists if they have changed.
    fn set_phase(&self, phase: Phase, offer: Option<Arc<Offer>>) {
        let mut other = false;
        self.state.send_modify(|state| {
            state.phase = phase;
            if let Some(offer) = offer.filter(|offer| *offer != state.offer) {
                state.offer = offer;
                other = true;
            }
        });
        if other {
            self.context.changed();
        }
    }
}
