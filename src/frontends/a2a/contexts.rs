//! The sessions that a server offers: the one it shares, or as many as clients begin.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::context::{SessionContext, UnknownContext};
use super::servers::{self, Allowed};
use super::story::Story;
use tandem_agent::session::{
    Head, Listed, ServerConfig, Session, StoreError, TaskEvent, TurnId, read_stored,
};
use tandem_agent::sessions::{
    CreateError, LoadError, LoadedSession, SessionRequest, SessionSummary, Sessions,
};
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Settings that a client wants for a session (RFC 3.2, `AgentSettings`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AgentSettings {
    /// The directory to work in.
    pub(super) workspace: Option<PathBuf>,
    /// `true` if nothing is to be asked. Whoever started the server decides whether that counts.
    pub(super) auto_execute: bool,
    /// The MCP servers that it brings.
    pub(super) servers: Vec<ServerConfig>,
}

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
        /// Decides whether clients may know of a stored session.
        is_shown: IsShown,
        /// Time that a question waits for an answer while no terminal is attached.
        question: Duration,
    },
}

/// The longest id that a client may choose.
const LONGEST_ID: usize = 128;

pub(super) struct Contexts {
    served: ServedSessions,
    /// The context of the shared session.
    shared: Option<Arc<SessionContext>>,
    /// The MCP servers that clients may bring.
    servers: Allowed,
    /// Port of the server, at which others can join a session.
    port: u16,
}

impl Contexts {
    pub(super) fn new(served: ServedSessions, servers: Allowed, port: u16) -> Self {
        let shared = match &served {
            ServedSessions::Shared { first, .. } => {
                first.session().announce(port);
                Some(SessionContext::of(first))
            }
            ServedSessions::PerContext { .. } => None,
        };
        Self { served, shared, servers, port }
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
    pub(super) fn all(&self) -> Vec<Arc<SessionContext>> {
        self.registry().loaded().iter().map(|loaded| SessionContext::of(loaded)).collect()
    }

    /// Descriptions of all sessions, the last active first.
    pub(super) fn list(&self) -> Vec<SessionSummary> {
        self.registry().list()
    }

    /// Streams the stored sessions that are not loaded and that clients may know of, the last changed
    /// first: no more of them is read than is taken.
    pub(super) fn stored(&self) -> BoxStream<'_, Result<Listed, Error>> {
        let ServedSessions::PerContext { sessions, is_shown, .. } = &self.served else {
            return stream::empty().boxed();
        };
        sessions
            .stored(None)
            .map_err(|error| Error::new(Error::INTERNAL, error.to_string()))
            .try_filter(|listed| ready(is_shown(&listed.head)))
            .boxed()
    }

    /// Returns `true` if a session that clients may know of is stored under this id, and not loaded.
    pub(super) async fn is_stored(&self, id: &str) -> bool {
        let ServedSessions::PerContext { sessions, is_shown, .. } = &self.served else {
            return false;
        };
        !sessions.contains(id) && sessions.head(id).await.is_some_and(|head| is_shown(&head))
    }

    /// Returns the ids of the stored sessions in the middle of a turn of which their process ended, and
    /// whose clients wait to be notified.
    pub(super) async fn interrupted(&self) -> Vec<String> {
        let Some(store) = self.sessions().and_then(|sessions| sessions.store()) else {
            return Vec::new();
        };
        let opened = store.opened().await.unwrap_or_else(|error| {
            tracing::warn!("nobody is notified of turns that were interrupted: {error}");
            Vec::new()
        });
        let mut interrupted = Vec::new();
        for id in opened {
            // Its receivers are secrets; most sessions have none.
            if store.secrets(&id).await.is_ok_and(|secrets| !secrets.is_empty())
                && self.is_stored(&id).await
                && let Some((_, story)) = self.read(&id).await
                && !story.push().is_empty()
                && story.was_interrupted()
            {
                interrupted.push(id);
            }
        }
        interrupted
    }

    /// Reads the log of a stored session, which is not loaded by it; nothing if it cannot be read.
    /// Also returns the id by which clients know the session.
    pub(super) async fn read(&self, id: &str) -> Option<(String, Story)> {
        let sessions = self.sessions()?;
        let stored = sessions.store()?;
        let log = match read_stored(&**stored, id, sessions.limits().log_bytes).await {
            Ok(log) => log,
            Err(error) => {
                tracing::debug!(id, "a stored session is not listed: {error}");
                return None;
            }
        };
        let story = Story::read(log.read(0)).await;
        Some((story.name().unwrap_or(id).to_owned(), story))
    }

    /// Loads the session of an id, unless it is loaded. It stays loaded as long as the caller holds
    /// it; nothing if there is none, or it is the shared one.
    pub(super) async fn load(&self, id: &str) -> Result<Option<Arc<LoadedSession>>, Error> {
        let ServedSessions::PerContext { sessions, is_shown, .. } = &self.served else {
            return Ok(None);
        };
        let is_hidden = async || sessions.head(id).await.is_some_and(|head| !is_shown(&head));
        if !sessions.contains(id) && is_hidden().await {
            return Ok(None);
        }
        let prepare = |session: &Session| {
            session.announce(self.port);
            session.start_servers();
        };
        sessions.load(id, Vec::new(), prepare).await.map_err(|error| match error {
            LoadError::Create(error) => refused(error),
            LoadError::Store(
                error @ (StoreError::Held(..) | StoreError::Newer(_) | StoreError::Checkpoint(_)),
            ) => Error::new(error::UNSUPPORTED_OPERATION, error.to_string()),
            LoadError::Store(error) => Error::new(Error::INTERNAL, error.to_string()),
        })
    }

    /// Returns the context of exactly this id.
    pub(super) fn get(&self, id: &str) -> Option<Arc<SessionContext>> {
        self.registry().open(id).map(|loaded| SessionContext::of(&loaded))
    }

    /// The task of that id: its context, and its turn if it is the task of one turn.
    pub(super) fn task(&self, id: &str) -> Result<(Arc<SessionContext>, Option<TurnId>), Error> {
        let of_turn = || {
            let (context, turn) = id.rsplit_once('.')?;
            let turn = TurnId(turn.parse().ok()?);
            let context = self.get(context)?;
            context.story(|story| story.turn(turn).is_some()).then_some((context, Some(turn)))
        };
        let whole = self.get(id).map(|context| (context, None));
        whole.or_else(of_turn).ok_or_else(|| error::task_not_found(id))
    }

    /// Returns the outcome for a context that a client names, if that context is not known.
    pub(super) fn unknown(&self, id: Option<&str>) -> Option<UnknownContext> {
        let id = id?;
        match &self.served {
            ServedSessions::Shared { sessions, .. } => {
                (!sessions.contains(id)).then_some(UnknownContext::Shared)
            }
            ServedSessions::PerContext { sessions, .. } => {
                (!sessions.contains(id)).then_some(UnknownContext::New)
            }
        }
    }

    /// The context of that id; else the shared one, if there is one.
    pub(super) fn find(&self, id: Option<&str>) -> Option<Arc<SessionContext>> {
        id.and_then(|id| self.get(id)).or_else(|| {
            self.shared.as_ref().map(|shared| {
                shared.used();
                Arc::clone(shared)
            })
        })
    }

    /// The context that a message is for: by its id, or a new one.
    pub(super) fn context(
        &self,
        id: Option<&str>,
        settings: &AgentSettings,
    ) -> Result<Arc<SessionContext>, Error> {
        if let Some(sessions) = self.sessions() {
            sessions.unload_idle();
        }
        let id = id.filter(|id| !id.is_empty());
        let (context, is_new) = match (self.find(id), self.sessions()) {
            (None, Some(sessions)) => self.begin(sessions, id, settings)?,
            (Some(context), _) => (context, false),
            // It was made with the server.
            (None, None) => return Err(Error::new(Error::INTERNAL, "no session")),
        };
        if !is_new {
            if let Some(workspace) = &settings.workspace {
                context.session.works_in(workspace).map_err(error::invalid_params)?;
            }
            servers::add(&settings.servers, &context.session, self.servers);
        }
        Ok(context)
    }

    /// Begins a session, of an id that the client may have chosen. Also returns whether it is new:
    /// another request may have begun it meanwhile.
    fn begin(
        &self,
        sessions: &Sessions,
        chosen: Option<&str>,
        settings: &AgentSettings,
    ) -> Result<(Arc<SessionContext>, bool), Error> {
        let is_wrong =
            |id: &str| id.len() > LONGEST_ID || id.contains(|c: char| c.is_control() || c == '.');
        if chosen.is_some_and(is_wrong) {
            return Err(error::invalid_params(format!(
                "`contextId` must have at most {LONGEST_ID} bytes, and no dots"
            )));
        }
        let request = SessionRequest {
            directory: settings.workspace.clone(),
            more: Vec::new(),
            auto_approve: settings.auto_execute,
        };
        let prepare = |session: &Session| {
            session.announce(self.port);
            servers::add(&settings.servers, session, self.servers);
            session.start_servers();
            if let Some(context) = chosen {
                session.record(TaskEvent::ContextNamed { context: context.to_owned() });
            }
        };
        let begun = match chosen {
            Some(id) => sessions.open_or_create(id, &request, prepare),
            None => sessions.create(&request, prepare).map(|created| (created, true)),
        };
        let (loaded, is_new) = begun.map_err(refused)?;
        Ok((SessionContext::of(&loaded), is_new))
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
            context.session.idle().await;
            context.session.synced().await;
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
            context.session.saved().await;
            if let Err(error) = store.delete(context.session.id()).await {
                tracing::warn!(id = context.session.id(), "a session cannot be deleted: {error}");
            }
        }
    }

    /// Ends the turns whose questions nobody has answered in time, and unloads the sessions that
    /// nobody has used for long.
    pub(super) fn sweep(&self) {
        let ServedSessions::PerContext { sessions, question, .. } = &self.served else { return };
        for context in self.all() {
            context.expire_questions(*question);
        }
        sessions.unload_idle();
    }
}

/// Returns the error for a session that cannot be.
fn refused(error: CreateError) -> Error {
    match error {
        CreateError::Full(_) => Error::new(error::UNSUPPORTED_OPERATION, error.to_string()),
        CreateError::Refused(why) => error::invalid_params(why),
    }
}
