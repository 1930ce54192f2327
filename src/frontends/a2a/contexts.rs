//! The sessions that a server offers: the one it shares, or as many as clients begin.

pub(super) mod visible;

mod followed;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::followed::FollowedContexts;
use super::CLOSING;
use super::audit::Audit;
use super::context::SessionContext;
use super::servers::Allowed;
use tandem_agent::session::{Head, Orphan, ResumePolicy, Session, Store, StoreError};
use tandem_agent::sessions::{LoadError, LoadedSession, Sessions};
use tandem_serve::quotas::Meter;
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Decides whether clients may know of a stored session.
pub type IsShown = Arc<dyn Fn(&Head) -> bool + Send + Sync>;

/// Sessions that a server gives its clients.
pub enum ServedSessions {
    /// The sessions that somebody drives from elsewhere. Clients join them; the server neither
    /// begins nor ends one.
    Shared {
        /// The registry that the sessions are in.
        sessions: Arc<Sessions>,
        /// The session of clients that name none.
        first: Arc<LoadedSession>,
    },
    /// A session for each context, begun by clients.
    PerContext {
        /// The registry that the sessions are in.
        sessions: Arc<Sessions>,
        /// Decides whether clients may know of a stored session that is theirs.
        is_shown: IsShown,
        /// Time that a question waits for an answer while no terminal is attached.
        question: Duration,
    },
}

pub(super) struct Contexts {
    served: ServedSessions,
    /// The context of the shared session.
    shared: Option<Arc<SessionContext>>,
    followed: FollowedContexts,
    /// The MCP servers that clients may bring.
    servers: Allowed,
    /// Port of the server, at which others can join a session.
    port: u16,
    meter: Arc<Meter>,
    audit: Arc<Audit>,
    /// Time of the last line in the log about a store that cannot be reached.
    reported: Mutex<Option<Instant>>,
}

/// Time between two looks whether somebody can answer, when the server ends.
const ANSWERABLE_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum time between two lines in the log about a store that cannot be reached.
const REPORT_AGAIN: Duration = Duration::from_mins(1);

impl Contexts {
    pub(super) fn new(
        served: ServedSessions,
        servers: Allowed,
        port: u16,
        meter: Arc<Meter>,
        audit: Arc<Audit>,
    ) -> Self {
        let shared = match &served {
            ServedSessions::Shared { first, .. } => {
                first.session().persistence().announce(port);
                Some(SessionContext::of(first))
            }
            ServedSessions::PerContext { .. } => None,
        };
        let followed = FollowedContexts::default();
        let reported = Mutex::default();
        Self { served, shared, followed, servers, port, meter, audit, reported }
    }

    /// Returns the error for a client who needs what the store does not give. Where a database is that cannot be
    /// reached, and why, is for the log.
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
            _ => Error::new(Error::INTERNAL, error.to_string()),
        }
    }

    /// Notes in the log why the store cannot be reached, unless it was noted a moment ago.
    fn report_outage(&self, why: &str) {
        let mut reported = self.reported.lock();
        if reported.is_none_or(|at| at.elapsed() >= REPORT_AGAIN) {
            *reported = Some(Instant::now());
            tracing::warn!("clients are told to try again: {why}");
        }
    }

    /// The registry that all sessions are in.
    fn registry(&self) -> &Arc<Sessions> {
        match &self.served {
            ServedSessions::Shared { sessions, .. }
            | ServedSessions::PerContext { sessions, .. } => sessions,
        }
    }

    /// The registry, if clients begin the sessions.
    fn sessions(&self) -> Option<&Arc<Sessions>> {
        match &self.served {
            ServedSessions::Shared { .. } => None,
            ServedSessions::PerContext { sessions, .. } => Some(sessions),
        }
    }

    /// The context of the shared session, if there is one.
    pub(super) fn shared(&self) -> Option<&Arc<SessionContext>> {
        self.shared.as_ref()
    }

    /// All of them, in no order.
    fn all(&self) -> Vec<Arc<SessionContext>> {
        self.registry().loaded().iter().map(|loaded| SessionContext::of(loaded)).collect()
    }

    /// Waits until there may be sessions again in which a turn runs or waits although no process that lives
    /// has them; for ever where there never will.
    pub(super) async fn orphaned(&self) {
        match self.sessions().and_then(|sessions| sessions.store()) {
            Some(store) => store.orphaned().await,
            None => pending().await,
        }
    }

    /// Goes on with one of these sessions.
    pub(super) async fn take_over(&self, orphan: &Orphan) -> Result<Arc<LoadedSession>, LoadError> {
        self.registry().take_over(orphan, |session| self.prepare(session)).await
    }

    /// Prepares a session that is loaded.
    fn prepare(&self, session: &Session) {
        session.persistence().announce(self.port);
        session.start_servers();
    }

    /// Returns the lifetime of a session that nobody uses or answers, if sessions end before the
    /// server does.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.served {
            ServedSessions::Shared { .. } => None,
            ServedSessions::PerContext { sessions, question, .. } => {
                Some(sessions.limits().idle.map_or(*question, |idle| idle.min(*question)))
            }
        }
    }

    /// Ends the sessions that are only this server's; the turns that run say why.
    pub(super) fn close(&self, why: &str) {
        if let Some(sessions) = self.sessions() {
            sessions.close(why);
        }
    }

    /// Waits until no turn runs, and readers can be told of all that has happened.
    pub(super) async fn idle_all(&self) {
        for context in self.all() {
            if let Ok(session) = context.session() {
                session.turns().idle().await;
                session.synced().await;
            }
        }
    }

    /// Lets each session that is only this server's go as soon as no turn runs or waits in it, so that others
    /// can have it at once. Waits for all turns but those that ask where nobody can answer: no new request is
    /// served, no terminal is attached, and none of the `sockets` is open. Where nodes share the store, another one goes
    /// on with such a turn, and asks again.
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
                        session.close_because(CLOSING);
                        close_when_idle(session).await;
                    }
                    () = hand_over(context, session, sockets, policy), if !is_alone => {}
                }
            });
            join_all(closing).await;
            // One that was just being loaded came later.
            if self.all().len() <= all.len() {
                return;
            }
        }
    }

    /// Waits until nobody has to be notified of anything more. The server must be over.
    pub(super) async fn notified(&self) {
        for context in self.all() {
            context.push.finish().await;
        }
    }

    /// Ends and deletes a session that nobody will ask for, if it is only this server's.
    pub(super) async fn forget(&self, context: &SessionContext) {
        let Some(sessions) = self.sessions() else { return };
        sessions.delete(&context.id);
        if let Some(store) = sessions.store() {
            if let Ok(session) = context.session() {
                session.persistence().ended().await;
            }
            if let Err(error) = store.delete(context.session_id()).await {
                tracing::warn!(id = context.session_id(), "a session cannot be deleted: {error}");
            }
        }
    }

    /// Ends the turns whose questions nobody has answered in time, and unloads the sessions that
    /// nobody has used for long.
    pub(super) fn sweep(&self) {
        let ServedSessions::PerContext { sessions, question, .. } = &self.served else { return };
        sessions.look(|loaded| {
            for it in loaded {
                SessionContext::of(&it).expire_questions(*question);
            }
        });
        self.meter.count_all(sessions);
        sessions.unload_idle();
        self.followed.leave_unused(sessions.limits().idle.unwrap_or(*question));
    }

    /// Counts what principals have used, with the other nodes that share the store.
    pub(super) async fn share_usage(&self) {
        let Some(store) = self.shared_store().and_then(|store| store.shared()) else { return };
        if let Err(error) = self.meter.share(store, self.registry()).await {
            tracing::debug!("what is used at other nodes is not known: {error}");
        }
    }

    /// Returns the store, if it is one that nodes share.
    pub(super) fn shared_store(&self) -> Option<&Arc<dyn Store>> {
        let store = self.sessions()?.store()?;
        store.shared().is_some().then_some(store)
    }

    /// Returns the ids of the followed sessions whose owners are to carry out orders of this node.
    pub(super) fn asking(&self) -> Vec<String> {
        self.followed.asking()
    }
}

/// Waits until a session asks and nobody is there to answer.
async fn unanswerable(context: &SessionContext, session: &Session, sockets: &watch::Sender<usize>) {
    let can_answer = || context.attached.load(Ordering::Relaxed) > 0 || *sockets.borrow() > 0;
    while session.questions().open_now().is_empty() || can_answer() {
        sleep(ANSWERABLE_INTERVAL).await;
    }
}

/// Lets a session go as soon as it asks and nobody is there to answer, so that another node asks again.
async fn hand_over(
    context: &SessionContext,
    session: &Session,
    sockets: &watch::Sender<usize>,
    policy: ResumePolicy,
) {
    loop {
        unanswerable(context, session, sockets).await;
        if session.hand_over(policy) {
            return session.persistence().ended().await;
        }
        sleep(ANSWERABLE_INTERVAL).await;
    }
}

/// Closes a session as soon as no turn runs or waits in it, and all of it is shown.
async fn close_when_idle(session: &Session) {
    loop {
        session.turns().idle().await;
        session.synced().await;
        if session.close_if_idle() {
            return;
        }
    }
}
