//! The sessions that a server offers: the one it shares, or as many as clients begin.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::context::{Context, UnknownContext};
use super::servers::{self, Allowed};
use parking_lot::Mutex;
use tandem_agent::session::{ServerConfig, Session, TaskEvent, TurnId};
use tandem_wire::a2a::Error;

/// What a client says of the session that it wants (RFC 3.2, `AgentSettings`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The directory to work in.
    pub workspace: Option<PathBuf>,
    /// Whether nothing is to be asked. Whoever started the server decides whether that counts.
    pub auto_execute: bool,
    /// The MCP servers that it brings.
    pub servers: Vec<ServerConfig>,
}

/// Opens a session; or says why it may not be.
pub type Open = Arc<dyn Fn(&Settings) -> Result<Arc<Session>, String> + Send + Sync>;

/// Whose session it is.
pub enum Sessions {
    /// One that others use too.
    Shared(Arc<Session>),
    /// One a context.
    Each {
        /// Opens them.
        open: Open,
        /// How many there may be.
        most: usize,
        /// How long one lives that nobody uses.
        idle: Duration,
        /// Time that a question waits for an answer while no terminal is attached.
        question: Duration,
    },
}

/// The longest id that a client may choose.
const LONGEST_ID: usize = 128;

pub(super) struct Contexts {
    sessions: Sessions,
    by_id: Mutex<HashMap<String, Arc<Context>>>,
    /// The context of the shared session.
    shared: Option<Arc<Context>>,
    /// The MCP servers that clients may bring.
    servers: Allowed,
}

impl Contexts {
    pub(super) fn new(sessions: Sessions, servers: Allowed) -> Self {
        let shared = match &sessions {
            Sessions::Shared(session) => {
                Some(Context::new(session.id().to_owned(), Arc::clone(session)))
            }
            Sessions::Each { .. } => None,
        };
        let by_id = shared.iter().map(|context| (context.id.clone(), Arc::clone(context)));
        Self { by_id: Mutex::new(by_id.collect()), sessions, shared, servers }
    }

    /// The context of the shared session, if there is one.
    pub(super) fn shared(&self) -> Option<&Arc<Context>> {
        self.shared.as_ref()
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> Vec<Arc<Context>> {
        self.by_id.lock().values().map(Arc::clone).collect()
    }

    /// The task of that id: its context, and its turn if it is the task of one turn.
    pub(super) fn task(&self, id: &str) -> Result<(Arc<Context>, Option<TurnId>), Error> {
        let by_id = self.by_id.lock();
        let whole = by_id.get(id).map(|context| (Arc::clone(context), None));
        let of_turn = || {
            let (context, turn) = id.rsplit_once('.')?;
            let turn = TurnId(turn.parse().ok()?);
            let context = Arc::clone(by_id.get(context)?);
            context.story(|story| story.turn(turn).is_some()).then_some((context, Some(turn)))
        };
        let found = whole.or_else(of_turn);
        let (context, turn) = found.ok_or_else(|| Error::task_not_found(id))?;
        context.used();
        Ok((context, turn))
    }

    /// Returns the outcome for a context that a client names, if that context is not known.
    pub(super) fn unknown(&self, id: Option<&str>) -> Option<UnknownContext> {
        let known = self.by_id.lock().contains_key(id?);
        let becomes = || match self.shared {
            Some(_) => UnknownContext::Shared,
            None => UnknownContext::New,
        };
        (!known).then(becomes)
    }

    /// The context of that id; the shared one, if there is one.
    pub(super) fn find(&self, id: Option<&str>) -> Option<Arc<Context>> {
        let known = id.and_then(|id| self.by_id.lock().get(id).map(Arc::clone));
        let found = known.or_else(|| self.shared.clone())?;
        found.used();
        Some(found)
    }

    /// The context that a message is for: by its id, or a new one.
    pub(super) fn context(
        &self,
        id: Option<&str>,
        settings: &Settings,
    ) -> Result<Arc<Context>, Error> {
        self.drop_idle();
        let known = id.and_then(|id| self.by_id.lock().get(id).map(Arc::clone));
        let (open, most) = match (known.or_else(|| self.shared.clone()), &self.sessions) {
            (None, Sessions::Each { open, most, .. }) => (open, *most),
            (Some(context), _) => {
                if let Some(workspace) = &settings.workspace {
                    context.session.works_in(workspace).map_err(Error::invalid_params)?;
                }
                servers::add(&settings.servers, &context.session, self.servers);
                context.used();
                return Ok(context);
            }
            // It was made with the server.
            (None, Sessions::Shared(_)) => return Err(Error::new(Error::INTERNAL, "no session")),
        };
        let chosen = match id {
            Some(id)
                if id.len() > LONGEST_ID || id.contains(|c: char| c.is_control() || c == '.') =>
            {
                return Err(Error::invalid_params(format!(
                    "`contextId` must have at most {LONGEST_ID} bytes, and no dots"
                )));
            }
            id => id.filter(|id| !id.is_empty()),
        };
        if self.by_id.lock().len() >= most && !self.drop_abandoned() {
            return Err(Error::new(
                Error::UNSUPPORTED_OPERATION,
                format!("there are {most} sessions already; try again when one has ended"),
            ));
        }
        let session = open(settings).map_err(Error::invalid_params)?;
        servers::add(&settings.servers, &session, self.servers);
        session.start_servers();
        if let Some(context) = chosen {
            session.record(TaskEvent::ContextNamed { context: context.to_owned() });
        }
        let id = chosen.unwrap_or(session.id()).to_owned();
        let context = Context::new(id, session);
        // Another request may have opened it meanwhile.
        let mut by_id = self.by_id.lock();
        let context = by_id.entry(context.id.clone()).or_insert(context);
        Ok(Arc::clone(context))
    }

    /// Returns the lifetime of a session that nobody uses or answers, if sessions end before the
    /// server does.
    pub(super) fn patience(&self) -> Option<Duration> {
        match &self.sessions {
            Sessions::Shared(_) => None,
            Sessions::Each { idle, question, .. } => Some(*idle.min(question)),
        }
    }

    /// Ends the sessions that are only this server's; the turns that run say why.
    pub(super) fn close(&self, why: &str) {
        if let Sessions::Each { .. } = &self.sessions {
            self.all().iter().for_each(|context| context.session.close_because(why));
        }
    }

    /// Waits until no turn runs.
    pub(super) async fn idle_all(&self) {
        for context in self.all() {
            context.session.idle().await;
        }
    }

    /// Waits until nobody has to be notified of anything more. The server must be over.
    pub(super) async fn notified(&self) {
        for context in self.all() {
            context.push.finish().await;
        }
    }

    /// Ends a session that nobody will ask for, if it is only this server's.
    pub(super) fn forget(&self, context: &Context) {
        if let Sessions::Each { .. } = &self.sessions {
            self.by_id.lock().remove(&context.id);
            context.session.close();
        }
    }

    /// Ends the turns whose questions nobody has answered in time.
    pub(super) fn expire_questions(&self) {
        let Sessions::Each { question, .. } = &self.sessions else { return };
        for context in self.all() {
            context.expire_questions(*question);
        }
    }

    /// Ends the session that was abandoned first, with its question unanswered. False if there is
    /// none.
    fn drop_abandoned(&self) -> bool {
        let mut by_id = self.by_id.lock();
        let abandoned = by_id.values().filter(|context| !context.is_busy());
        let first =
            abandoned.filter_map(|context| Some((context.abandoned()?, context.id.clone())));
        let Some((_, id)) = first.min() else { return false };
        let Some(ended) = by_id.remove(&id) else { return false };
        drop(by_id);
        ended.end();
        true
    }

    /// Ends the sessions that nobody has used for long.
    pub(super) fn drop_idle(&self) {
        let Sessions::Each { idle, .. } = &self.sessions else { return };
        let now = Instant::now();
        self.by_id.lock().retain(|_, context| {
            if context.is_busy() {
                // It counts from the end of that.
                context.touch();
            }
            let keep = now.saturating_duration_since(context.unused_since()) < *idle;
            if !keep {
                context.end();
            }
            keep
        });
    }
}
