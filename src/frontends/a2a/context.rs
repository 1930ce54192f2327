//! A session as A2A sees it: a context, with its tasks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::dialect::Dialect;
use super::frames::Frames;
use super::notifiers::Push;
use super::principals::{Principal, SessionRight};
use super::story::{self, Story};
use super::terminals::AttachedTerminals;
use super::tool_call::question;
use super::updates::{artifact, explanation, source, timestamp};
use parking_lot::Mutex;
use tandem_agent::session::{Session, StoreError, TaskEvent, TurnId, TurnRecord};
use tandem_agent::sessions::{LastUse, LoadedSession, SessionView};
pub(super) use tandem_wire::a2a::UnknownContext;
use tandem_wire::a2a::{Message, Part, Role, Task, TaskState, TaskStatus};
use tandem_wire::development_tool::URI;
use tandem_wire::jsonrpc::Error;

/// One session.
pub(super) struct SessionContext {
    pub(super) id: String,
    pub(super) session: Arc<Session>,
    pub(super) frames: Frames,
    pub(super) push: Push,
    /// Those that have attached.
    pub(super) terminals: Mutex<AttachedTerminals>,
    story: Arc<Mutex<Story>>,
    /// Keeps it up to date.
    _keeps_up: AbortOnDropHandle<()>,
    /// Held while the cancellation of a task that has ended is looked up and recorded.
    cancelling: tokio::sync::Mutex<()>,
    /// Place in the log of a session that was loaded from which on receivers of notifications have
    /// to be notified, until they are.
    pub(super) restores_from: Mutex<Option<usize>>,
    last_use: Arc<LastUse>,
    /// The calls that are asked about, and since when no person was there to answer.
    asking: Mutex<HashMap<String, Instant>>,
    /// Number of terminals that are attached.
    pub(super) attached: AtomicUsize,
}

impl SessionContext {
    /// The context of a session in the registry.
    pub(super) fn of(loaded: &LoadedSession) -> Arc<Self> {
        loaded.view(|| Self::new(loaded))
    }

    fn new(loaded: &LoadedSession) -> Arc<Self> {
        let session = Arc::clone(loaded.session());
        let story = Arc::new(Mutex::new(Story::new(session.events(0))));
        let keeping = story::keep_up(Arc::clone(&story), session.events(0));
        // The registry has a session that a principal owns under an id that no other principal can name.
        let is_owned = session.with_access(|access| access.owner.is_some());
        let name = is_owned.then(|| session.context_name()).flatten();
        Arc::new(Self {
            id: name.unwrap_or_else(|| loaded.id().to_owned()),
            session,
            frames: Frames::default(),
            push: Push::default(),
            terminals: Mutex::default(),
            story,
            _keeps_up: AbortOnDropHandle::new(tokio::spawn(keeping)),
            cancelling: tokio::sync::Mutex::default(),
            restores_from: Mutex::new(loaded.stored_before()),
            last_use: Arc::clone(loaded.last_use()),
            asking: Mutex::default(),
            attached: AtomicUsize::new(0),
        })
    }

    /// Returns what a principal may do here; `None` if there is no such session as far as the principal
    /// is told.
    pub(super) fn right(&self, principal: &Principal) -> Option<SessionRight> {
        right(&self.session, principal)
    }

    /// Returns `true` if a principal may read what happens here.
    pub(super) fn is_open_to(&self, principal: &Principal) -> bool {
        self.right(principal).is_some()
    }

    /// Looks at what has happened up to now.
    pub(super) fn story<T>(&self, look: impl FnOnce(&Story) -> T) -> T {
        look(self.story.lock().catch_up())
    }

    /// Waits until all that has happened up to now outlives a loss of power: what a client is promised
    /// must. An error if another process has taken the session over.
    pub(super) async fn promised(&self) -> Result<(), Error> {
        self.session.synced().await;
        self.check_own()
    }

    /// Returns an error if another process has taken the session over: what has happened here since is
    /// nothing.
    pub(super) fn check_own(&self) -> Result<(), Error> {
        if self.session.is_taken_over() {
            return Err(Error::new(Error::INTERNAL, StoreError::TakenOver.to_string()));
        }
        Ok(())
    }

    /// Notes that somebody asks for the session, so that it is not unloaded.
    pub(super) fn used(&self) {
        self.last_use.used();
    }

    /// Ends the turn whose question nobody has answered within this time; while a terminal is
    /// attached, it does not run.
    pub(super) fn expire_questions(&self, limit: Duration) {
        let now = Instant::now();
        let open = self.session.questions();
        let mut asking = self.asking.lock();
        asking.retain(|call, _| open.iter().any(|asked| asked.call.id == *call));
        let attended = self.attached.load(Ordering::Relaxed) > 0;
        for asked in open {
            let since = asking.entry(asked.call.id.clone()).or_insert(now);
            if attended {
                *since = now;
            } else if now.saturating_duration_since(*since) >= limit
                && self.session.expire(&asked.call.id, limit)
            {
                self.last_use.abandon();
            }
        }
    }

    /// Notes that the task was cancelled after the last turn had ended. False if it was already.
    pub(super) async fn cancel_ended(&self, turn: TurnId) -> bool {
        let _cancelling = self.cancelling.lock().await;
        let is_new = self.story(|story| story.canceled() != Some(turn));
        if is_new {
            self.session.record(TaskEvent::Cancelled { turn });
            // From then on it is in the story.
            self.session.synced().await;
        }
        is_new
    }

    /// Returns the turn that runs, or is the first to run, as far as clients are told: its end may have
    /// happened and not be stored yet.
    pub(super) fn running(&self) -> Option<TurnId> {
        self.story(|story| story.turns().find(|turn| turn.ended.is_none()).map(|turn| turn.id))
    }

    /// Returns the state of a turn's task; without a turn, of the session's task (0.3).
    pub(super) fn state(&self, turn: Option<TurnId>) -> TaskState {
        self.story(|story| story.state(turn))
    }

    /// The task of a turn as it is now; without a turn, the session's task (0.3). `history`: how
    /// many messages at most, the last ones.
    pub(super) fn task(&self, turn: Option<TurnId>, history: Option<usize>) -> Task {
        self.story(|story| task(&self.id, story, turn, history))
    }

    /// The session's task (0.3) for whoever has begun a turn: where that stands, and what came of
    /// it. Another turn may run already.
    pub(super) fn task_for(&self, turn: TurnId, history: Option<usize>) -> Task {
        let mut task = self.task(None, history);
        let own = self.task(Some(turn), Some(0));
        (task.status, task.artifacts) = (own.status, own.artifacts);
        if let Some(message) = &mut task.status.message {
            message.task_id.clone_from(&task.id);
        }
        task
    }

    /// The same for whoever is then told all of the turn that runs: without what was said in it.
    pub(super) fn standing(&self, turn: Option<TurnId>) -> Task {
        self.story(|story| snapshot(&self.id, story, turn, None, false))
    }

    /// The id of the task that a turn is part of.
    pub(super) fn task_of(&self, story: &Story, turn: TurnId, dialect: Dialect) -> String {
        let own = story.is_own_task(turn);
        if own { Dialect::V1 } else { dialect }.task_id(&self.id, turn)
    }

    /// A task that was just begun: what its stream begins with. `unknown_context`: outcome
    /// for the context that the message names.
    pub(super) fn begun(
        &self,
        dialect: Dialect,
        turn: TurnId,
        unknown_context: Option<UnknownContext>,
    ) -> Task {
        let id = dialect.task_id(&self.id, turn);
        self.story(|story| {
            let teller = Teller { context: &self.id, task: &id };
            let begun = story.turn(turn);
            let prompt = begun.and_then(|turn| teller.said(turn).last());
            let at = timestamp(begun.map_or(0, |turn| turn.queued.1));
            Task {
                context_id: self.id.clone(),
                status: TaskStatus { state: TaskState::Submitted, message: None, timestamp: at },
                history: prompt.into_iter().collect(),
                artifacts: Vec::new(),
                unknown_context,
                id: id.clone(),
            }
        })
    }
}

/// Returns what a principal may do in a session.
pub(super) fn right(session: &Session, principal: &Principal) -> Option<SessionRight> {
    session.with_access(|access| principal.right(access))
}

impl SessionView for SessionContext {
    fn watchers(self: Arc<Self>) -> usize {
        // All but the session, this argument, and what only notifies.
        Arc::strong_count(&self).saturating_sub(2 + self.push.len())
    }

    fn unloaded(&self) {
        self.push.clear();
    }
}

/// The task of a turn of a session, as its log tells it; without a turn, the session's task (0.3).
/// `history`: how many messages at most, the last ones.
pub(super) fn task(
    context: &str,
    story: &Story,
    turn: Option<TurnId>,
    history: Option<usize>,
) -> Task {
    snapshot(context, story, turn, history, true)
}

/// The same; not `whole`: without what was said in the turn that runs.
fn snapshot(
    context: &str,
    story: &Story,
    turn: Option<TurnId>,
    history: Option<usize>,
    whole: bool,
) -> Task {
    let (turns, last): (Vec<_>, _) = match turn.and_then(|turn| story.turn(turn)) {
        Some(turn) => (vec![turn], Some(turn)),
        None => (story.turns().collect(), story.projection().latest()),
    };
    let id = turn.map_or_else(|| context.to_owned(), |turn| Dialect::V1.task_id(context, turn));
    let teller = Teller { context, task: &id };
    let message = last.and_then(|turn| teller.standing(story, turn));
    let at = last.map_or(0, |turn| turn.changed_at);
    let wanted = history.unwrap_or(usize::MAX);
    let told = turns.iter().rev().flat_map(|turn| {
        let unsaid = if whole || turn.ended.is_some() { 0 } else { turn.answers.len() };
        teller.said(turn).skip(unsaid)
    });
    let mut said: Vec<Message> = told.take(wanted).collect();
    said.reverse();
    let came = last.filter(|turn| turn.ended.is_some()).and_then(|turn| turn.answers.last());
    Task {
        context_id: context.to_owned(),
        status: TaskStatus { state: story.state(turn), message, timestamp: timestamp(at) },
        history: said,
        artifacts: came.map(|text| artifact(text.clone())).into_iter().collect(),
        unknown_context: None,
        id,
    }
}

/// Makes messages of what was said.
struct Teller<'a> {
    context: &'a str,
    task: &'a str,
}

impl Teller<'_> {
    /// Returns the messages of a turn, last first.
    fn said(&self, turn: &TurnRecord) -> impl Iterator<Item = Message> {
        let number = turn.id.0;
        let answers = turn
            .answers
            .iter()
            .enumerate()
            .rev()
            .map(move |(n, text)| self.message(Role::Agent, &format!("{number}.{n}"), text));
        let mut prompt = self.message(Role::User, &format!("{number}.prompt"), &turn.prompt);
        prompt.source = turn.origin.as_ref().map(source);
        answers.chain([prompt])
    }

    /// Returns a message on where a turn stands: what is asked, or what went wrong.
    fn standing(&self, story: &Story, turn: &TurnRecord) -> Option<Message> {
        let number = turn.id.0;
        if let Some(asking) = turn.questions.last() {
            let mut message = self.message(Role::Agent, &format!("{number}.asking"), "");
            message.parts = question(&story.call(asking)?.started);
            return Some(message);
        }
        let why = explanation(&turn.ended.as_ref()?.1)?;
        Some(self.message(Role::Agent, &format!("{number}.end"), &why))
    }

    fn message(&self, role: Role, id: &str, text: &str) -> Message {
        Message {
            role,
            message_id: format!("{}/turn/{id}", self.context),
            task_id: self.task.to_owned(),
            context_id: self.context.to_owned(),
            extensions: vec![URI],
            parts: vec![Part::Text(text.to_owned())],
            source: None,
        }
    }
}
