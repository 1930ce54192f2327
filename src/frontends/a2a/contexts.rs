//! The sessions that a server offers: one shared session, or one session for each context that clients begin.

pub(super) mod visible;

mod followed;
pub(super) mod locate;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::followed::FollowedContexts;
use super::context::SessionContext;
use super::servers::ServerPermissions;
use tandem_agent::session::{AGENT_ENDS, Head, Orphan, ResumePolicy, Session, Store, StoreError};
use tandem_agent::sessions::{Leased, LoadError, LoadedSession, Sessions};
use tandem_serve::audit::Audit;
use tandem_serve::quotas::Meter;
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Predicate on stored sessions: `true` if clients may know of the session.
pub type IsShown = Arc<dyn Fn(&Head) -> bool + Send + Sync>;

/// The sessions that a server offers to its clients.
pub enum ServedSessions {
    /// Sessions that another front end, such as an editor or a terminal, drives. Clients join them; the
    /// server neither begins nor ends a session.
    Shared {
        /// The registry that holds the sessions.
        sessions: Arc<Sessions>,
        /// The session for clients that name no context.
        first: Leased<LoadedSession>,
    },
    /// One session for each context; clients begin them.
    PerContext {
        /// The registry that holds the sessions.
        sessions: Arc<Sessions>,
        /// Predicate on the stored sessions of a client: `true` if the client may know of the session.
        is_shown: IsShown,
        /// Maximum time that a question waits for an answer while no terminal is attached.
        question: Duration,
    },
}

pub(super) struct Contexts {
    served: ServedSessions,
    /// The context of the shared session; `None` if clients begin the sessions.
    shared: Option<Leased<SessionContext>>,
    followed: FollowedContexts,
    /// The MCP servers that clients may add to a session.
    servers: ServerPermissions,
    /// The server's port, which a session announces so that others can join.
    port: u16,
    meter: Arc<Meter>,
    audit: Arc<Audit>,
    /// Time of the last log line about an unavailable store.
    reported: Mutex<Option<Instant>>,
}

/// Interval between two checks, while the server ends, for a client or terminal that can answer a question.
const ANSWERABLE_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum time between two log lines about an unavailable store.
const REPORT_AGAIN: Duration = Duration::from_mins(1);

impl Contexts {
    pub(super) fn new(
        served: ServedSessions,
        servers: ServerPermissions,
        port: u16,
        meter: Arc<Meter>,
        audit: Arc<Audit>,
    ) -> Self {
        let shared = match &served {
            ServedSessions::Shared { first, .. } => {
                first.session().persistence().announce(port);
                Some(SessionContext::leased(first))
            }
            ServedSessions::PerContext { .. } => None,
        };
        let followed = FollowedContexts::default();
        let reported = Mutex::default();
        Self { served, shared, followed, servers, port, meter, audit, reported }
    }

    /// Returns the error for a client whose request failed because of the store. The address of a database,
    /// and why it cannot be reached, go to the log, not to the client.
    pub(super) fn store_error(&self, error: &StoreError) -> Error {
        match error {
            StoreError::Unavailable(why) | StoreError::Refused(why) => {
                self.report_outage(why);
                error::unavailable(&error.for_clients())
            }
            StoreError::Io(why) => {
                self.report_outage(&why.to_string());
                error::unavailable(&error.for_clients())
            }
            StoreError::TakenOver => error::unavailable(&error.for_clients()),
            StoreError::Held(..) | StoreError::Newer(_) | StoreError::Checkpoint(_) => {
                Error::new(error::UNSUPPORTED_OPERATION, error.to_string())
            }
            _ => Error::new(Error::INTERNAL_ERROR, error.to_string()),
        }
    }

    /// Logs why the store is unavailable, unless it was logged less than [`REPORT_AGAIN`] ago.
    fn report_outage(&self, why: &str) {
        let mut reported = self.reported.lock();
        if reported.is_none_or(|at| at.elapsed() >= REPORT_AGAIN) {
            *reported = Some(Instant::now());
            tracing::warn!("clients are told to try again: {why}");
        }
    }

    /// Returns the registry that holds all sessions.
    fn registry(&self) -> &Arc<Sessions> {
        match &self.served {
            ServedSessions::Shared { sessions, .. }
            | ServedSessions::PerContext { sessions, .. } => sessions,
        }
    }

    /// Returns the registry if clients begin the sessions; `None` if the server shares one session.
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        match &self.served {
            ServedSessions::Shared { .. } => None,
            ServedSessions::PerContext { sessions, .. } => Some(sessions),
        }
    }

    /// Returns the context of the shared session, if there is one.
    pub(super) fn shared(&self) -> Option<&Leased<SessionContext>> {
        self.shared.as_ref()
    }

    /// Returns the contexts of all loaded sessions, in no order.
    fn all(&self) -> Vec<Arc<SessionContext>> {
        self.registry().loaded().iter().map(|loaded| SessionContext::of(loaded)).collect()
    }

    /// Waits until the store may have orphans again: sessions in which a turn runs or waits although no
    /// living process owns them. Never returns if there can be none.
    pub(super) async fn orphaned(&self) {
        match self.sessions().and_then(|sessions| sessions.store()) {
            Some(store) => store.orphaned().await,
            None => pending().await,
        }
    }

    /// Takes over an orphaned session.
    pub(super) async fn take_over(
        &self,
        orphan: &Orphan,
    ) -> Result<Leased<LoadedSession>, LoadError> {
        self.registry().take_over(orphan, |session| self.prepare(session)).await
    }

    /// Prepares a session that was just loaded, before clients can use it.
    fn prepare(&self, session: &Session) {
        session.persistence().announce(self.port);
        session.start_servers();
    }

    /// Returns the time after which a session without use or without an answer ends; `None` if sessions last
    /// until the server ends.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.served {
            ServedSessions::Shared { .. } => None,
            ServedSessions::PerContext { sessions, question, .. } => {
                Some(sessions.limits().idle.map_or(*question, |idle| idle.min(*question)))
            }
        }
    }

    /// Ends the sessions that belong to this server; their current turns end with the reason `why`.
    pub(super) fn close(&self, why: &str) {
        if let Some(sessions) = self.sessions() {
            sessions.close(why);
        }
    }

    /// Waits until no turn runs in any session, and the events of all turns can be shown to clients.
    pub(super) async fn idle_all(&self) {
        for context in self.all() {
            if let Ok(session) = context.session() {
                session.turns().idle().await;
                session.wait_durable().await;
            }
        }
    }

    /// Releases each session of this server as soon as no turn runs or waits in it, so that other processes
    /// can have the session at once. Waits for every turn except one that asks a question that no client can
    /// answer: the server takes no new requests, no terminal is attached, and none of the `sockets` is open.
    /// If nodes share the store, another node takes such a session over and asks again; otherwise the turn
    /// ends.
    pub(super) async fn let_go(&self, sockets: &watch::Sender<usize>) {
        let Some(sessions) = self.sessions() else { return self.idle_all().await };
        let policy = sessions.resume_policy();
        let is_alone = self.shared_store().is_none();
        loop {
            let all = self.all();
            let own = all.iter().filter_map(|context| Some((context, context.session().ok()?)));
            let closing = own.map(async |(context, session)| {
                tokio::select! {
                    () = close_when_idle(session) => {}
                    () = unanswerable(context, session, sockets), if is_alone => {
                        session.close_because(AGENT_ENDS);
                        close_when_idle(session).await;
                    }
                    () = hand_over(context, session, sockets, policy), if !is_alone => {}
                }
            });
            join_all(closing).await;
            // A session that was still being loaded may have been added meanwhile; it must be released, too.
            if self.all().len() <= all.len() {
                return;
            }
        }
    }

    /// Waits until all push notifications are sent. No turn may run any more.
    pub(super) async fn notified(&self) {
        for context in self.all() {
            context.push.finish().await;
        }
    }

    /// Ends and deletes a session that no client will ask for again, if the session belongs to this server.
    pub(super) async fn forget(&self, context: &SessionContext) {
        let Some(sessions) = self.sessions() else { return };
        sessions.delete(&context.id);
        if let Some(store) = sessions.store() {
            if let Ok(session) = context.session() {
                session.persistence().wait_released().await;
            }
            if let Err(error) = store.delete(context.session_id()).await {
                tracing::warn!(id = context.session_id(), "a session cannot be deleted: {error}");
            }
        }
    }

    /// Ends the turns whose questions were not answered in time, and unloads the sessions that were not used
    /// for too long.
    pub(super) fn sweep(&self) {
        let ServedSessions::PerContext { sessions, question, .. } = &self.served else { return };
        for context in self.all() {
            context.expire_questions(*question);
        }
        self.meter.count_all(sessions);
        sessions.unload_idle();
        self.followed.leave_unused(sessions.limits().idle.unwrap_or(*question));
    }

    /// Adds up the usage of the principals with that of the other nodes that share the store.
    pub(super) async fn share_usage(&self) {
        let Some(store) = self.shared_store().and_then(|store| store.shared()) else { return };
        if let Err(error) = self.meter.share(store, self.registry()).await {
            tracing::debug!("what is used at other nodes is not known: {error}");
        }
    }

    /// Returns the store if several nodes share it.
    pub(super) fn shared_store(&self) -> Option<&Arc<dyn Store>> {
        let store = self.sessions()?.store()?;
        store.shared().is_some().then_some(store)
    }

    /// Returns the ids of the followed sessions whose owners still have orders of this node to carry out.
    pub(super) fn asking(&self) -> Vec<String> {
        self.followed.asking()
    }
}

/// Waits until a session asks a question while no terminal is attached and no WebSocket is open.
async fn unanswerable(context: &SessionContext, session: &Session, sockets: &watch::Sender<usize>) {
    let can_answer = || context.attached.load(Ordering::Relaxed) > 0 || *sockets.borrow() > 0;
    while session.questions().open_now().is_empty() || can_answer() {
        sleep(ANSWERABLE_INTERVAL).await;
    }
}

/// Releases a session as soon as it asks a question that no client can answer, so that another node asks
/// again.
async fn hand_over(
    context: &SessionContext,
    session: &Session,
    sockets: &watch::Sender<usize>,
    policy: ResumePolicy,
) {
    loop {
        unanswerable(context, session, sockets).await;
        if session.hand_over(policy) {
            return session.persistence().wait_released().await;
        }
        sleep(ANSWERABLE_INTERVAL).await;
    }
}

/// Closes a session as soon as no turn runs or waits in it, and all its events can be shown to clients.
async fn close_when_idle(session: &Session) {
    loop {
        session.turns().idle().await;
        session.wait_durable().await;
        // A turn may have started since `idle` returned; then the loop waits again.
        if session.close_if_idle() {
            return;
        }
    }
}
