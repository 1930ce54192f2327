//! One server: kept in touch with, started again when it has ended, and never waited for.

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

/// Maximum number of retries in a row.
const RETRIES: u32 = 6;

/// Time for which a server must have been ready for its end to start the count of retries anew.
const STEADY: Duration = Duration::from_mins(1);

/// Maximum time that the model waits for a list that has just changed.
const SOON: Duration = Duration::from_secs(1);

/// Between two looks at what a server offers, however often it says that this has changed.
const LOOK: Duration = Duration::from_millis(200);

/// A server, reached or not.
pub(super) struct ServerHandle {
    pub(super) config: ServerConfig,
    context: Arc<HubContext>,
    state: watch::Sender<ServerState>,
    changes: watch::Sender<ListChanges>,
    /// Notified when the server is needed now.
    wanted: Notify,
}

/// State of a server.
#[derive(Clone)]
pub(super) struct ServerState {
    pub(super) phase: Phase,
    /// Offer of the server; kept while the server is restarted, so that the model's tools stay the
    /// same.
    pub(super) offer: Arc<Offer>,
}

/// Phase of a server's connection.
#[derive(Clone)]
pub(super) enum Phase {
    /// Not needed yet.
    Idle,
    /// Connecting; prompts wait until this time.
    Connecting(Instant),
    Ready(Arc<ServerConnection>),
    /// Cause; and the time of the next retry, if there is one.
    Down(String, Option<Instant>),
    /// The user must log in first.
    Login(String),
    /// The user must allow it first.
    Held(String),
    /// The user does not want it.
    Disabled,
}

impl Phase {
    /// Returns the name that clients of the first A2A server know.
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
    /// `agreed` says that the user allows it, should that be needed.
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

    /// Returns the connection, once the server is ready, within a bounded time.
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

    /// Waits until the server is ready or will not be soon.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        loop {
            let until = match state.borrow_and_update().phase {
                Phase::Connecting(until) if until > Instant::now() => until,
                _ => return,
            };
            // The sender lives as long as this.
            let _ = timeout(until - Instant::now(), state.changed()).await;
        }
    }

    /// Waits a bounded time until announced changes are read.
    pub(super) async fn fresh(&self) {
        let mut changes = self.changes.subscribe();
        let _ = timeout(SOON, changes.wait_for(ListChanges::all_known)).await;
    }

    /// Disables the server.
    pub(super) fn disable(&self) {
        self.set_phase(Phase::Disabled, Some(Arc::default()));
    }

    /// Enters the phase of connecting.
    pub(super) fn set_connecting(&self) {
        let until = Instant::now() + self.context.limits.wait;
        self.set_phase(Phase::Connecting(until), None);
    }

    /// Keeps the server connected, for ever.
    pub(super) async fn keep(self: Arc<Self>) {
        let limits = &self.context.limits;
        // No longest wait: `RETRIES` bounds them.
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
                    if since.elapsed() > STEADY {
                        failures = 0;
                    }
                    ReachError::Passing(why)
                }
                Err(trouble) => trouble,
            };
            match trouble {
                ReachError::OtherWay => discover = true,
                ReachError::Passing(why) if failures < RETRIES => {
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

    /// Returns the reason why it is down, for people.
    fn explained(&self, why: &str) -> String {
        self.context.explained(&self.config, self.config.concealed(why))
    }

    fn login(&self, why: &str) -> String {
        let name = &self.config.name;
        match &self.config.reach {
            ServerReach::Http { headers, .. } if has_token(headers) => format!(
                "{why}: it does not take the `Authorization` of its `headers`; correct that in the \
                 settings, then `/mcp reload`"
            ),
            _ => format!("{why}: run `/mcp auth {name}`, or give it a token in its `headers`"),
        }
    }

    /// Waits for the backoff, or until the server is needed.
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

    /// Waits until the server is needed.
    async fn stop(&self, phase: Phase) {
        self.set_phase(phase, Some(Arc::default()));
        self.tell();
        self.wanted.notified().await;
    }

    /// Tells people the status.
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

    /// Connects to the server and reads its offer.
    async fn reach(&self, discover: bool) -> Result<(LiveConnection, Offer), ReachError> {
        let mut live = connect(&self.config, &self.context, &self.changes, discover).await?;
        match Offer::read(&live.connection, &self.config, &self.context.limits).await {
            Some(offer) => Ok((live, offer)),
            None => Err(ReachError::Passing(live.body.end("it hung up").await)),
        }
    }

    /// Keeps the offer up to date until the connection has ended; returns the cause.
    async fn follow(&self, live: LiveConnection) -> String {
        let LiveConnection { connection, service, mut body } = live;
        let mut changes = self.changes.subscribe();
        let reading = async {
            loop {
                // The sender lives as long as this.
                let _ = changes.wait_for(|changes| !changes.all_known()).await;
                let said = self.changes.borrow().said;
                let offer = Offer::read(&connection, &self.config, &self.context.limits).await;
                let phase = Phase::Ready(Arc::clone(&connection));
                self.set_phase(phase, offer.map(Arc::new));
                self.changes.send_modify(|changes| changes.known = said);
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            _ = service.waiting() => {}
            () = reading => {}
            () = listen(&connection, &self.changes) => {}
        }
        self.changes.send_modify(|changes| changes.known = changes.said);
        body.end("it hung up").await
    }

    /// Sets the phase, and the offer if it has changed.
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
