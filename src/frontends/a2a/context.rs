//! A session as A2A presents it: a context with its tasks.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::dialect::Dialect;
use super::frames::Frames;
use super::messages::{KnownTurns, MessageSender};
use super::notifiers::Push;
use super::results::TurnChanges;
use super::session_records::{self, SessionRecords, is_within};
use super::terminals::AttachedTerminals;
use super::tool_call::question;
use super::updates::{artifact, explanation, git_place, source_metadata, timestamp};
use parking_lot::Mutex;
use tandem_agent::session::{
    FollowedSession, Reader, Session, SessionAccess, StoreError, TaskEvent, TurnId, TurnRecord,
};
use tandem_agent::sessions::{LastUse, Leased, Leases, LoadedSession, SessionView, stored_id};
use tandem_serve::audit::AuditedSession;
use tandem_serve::principals::{Principal, SessionRight};
pub(super) use tandem_wire::a2a::UnknownContext;
use tandem_wire::a2a::{Fields, Message, Role, Task, TaskMetadata, TaskState, TaskStatus, error};
use tandem_wire::development_tool::EXTENSION_URI;
use tandem_wire::jsonrpc::Error;

/// Maximum time for which a reader waits until this node can read all events that other nodes may have shown to
/// clients. A store that takes longer is not reachable, and then the other nodes have shown nothing newer.
pub(super) const CATCHING_UP: Duration = Duration::from_secs(3);

/// Text before a question that is asked a second time.
const NO_ANSWER: &str = "The message was not taken, because a question is open and the message does not answer \
    it. Answer the question first:";

/// A session, and the state that the A2A server holds for the session.
pub(super) struct SessionContext {
    pub(super) id: String,
    host: SessionHost,
    pub(super) frames: Frames,
    pub(super) push: Push,
    /// The terminals that have attached.
    pub(super) terminals: Mutex<AttachedTerminals>,
    records: Arc<Mutex<SessionRecords>>,
    /// Task that applies new events to `records`.
    _keeps_up: AbortOnDropHandle<()>,
    /// Lock while the cancellation of an ended task is looked up and recorded, so that only the first request
    /// records it.
    cancelling: tokio::sync::Mutex<()>,
    /// Log index after the events that were stored when the session was loaded. Receivers of push
    /// notifications are notified from there on; `None` once their notifiers run again, or for a new session.
    pub(super) restores_from: Mutex<Option<usize>>,
    last_use: Arc<LastUse>,
    leases: Leases,
    /// The last turn that each sender of messages knows of.
    known: Mutex<KnownTurns>,
    /// The calls whose questions are open, and the time since which no terminal was attached to answer each.
    asking: Mutex<HashMap<String, Instant>>,
    /// Number of attached terminals.
    pub(super) attached: AtomicUsize,
}

/// Node that owns a session. Reads work for both; code that acts in a session calls
/// [`SessionContext::session`].
enum SessionHost {
    /// This node.
    Here(Arc<Session>),
    /// Another node, which carries out the calls of this node's clients.
    Elsewhere(Arc<FollowedSession>),
}

impl SessionHost {
    fn events(&self, from: usize) -> Reader {
        match self {
            Self::Here(session) => session.events(from),
            Self::Elsewhere(followed) => followed.events(from),
        }
    }
}

impl SessionContext {
    /// Returns the context of a session in the registry, creating it at first use. The context has no lease.
    pub(super) fn of(loaded: &LoadedSession) -> Arc<Self> {
        loaded.view(|| Self::new(loaded))
    }

    /// Returns the context of a session in the registry, with the caller's lease of the session.
    pub(super) fn leased(loaded: &Leased<LoadedSession>) -> Leased<Self> {
        Leased::new(Self::of(loaded), loaded.lease().clone())
    }

    fn new(loaded: &LoadedSession) -> Arc<Self> {
        let session = Arc::clone(loaded.session());
        // The registry makes its own id for a session with an owner. Clients know the session by the context's
        // name.
        let is_owned = session.with_access(|access| access.owner.is_some());
        let name = is_owned.then(|| session.context_name()).flatten();
        let id = name.unwrap_or_else(|| loaded.id().to_owned());
        let (last_use, leases) = (Arc::clone(loaded.last_use()), loaded.leases().clone());
        let restores_from = loaded.stored_before();
        Self::of_host(id, SessionHost::Here(session), restores_from, last_use, leases)
    }

    /// Creates the context of a session that another node owns, with the first lease.
    pub(super) fn elsewhere(session: FollowedSession) -> Leased<Self> {
        let name = session.with_state(|state| state.context_name.clone());
        // Clients may know the session by its id in the store, or by the name that they chose.
        let is_owned = session.with_access(|access| access.owner.is_some());
        let name = name.filter(|name| is_owned || stored_id(name) == session.id());
        let id = name.unwrap_or_else(|| session.id().to_owned());
        let host = SessionHost::Elsewhere(Arc::new(session));
        let (leases, lease) = Leases::with_first();
        let last_use = Arc::new(LastUse::now());
        Leased::new(Self::of_host(id, host, None, last_use, leases), lease)
    }

    fn of_host(
        id: String,
        host: SessionHost,
        restores_from: Option<usize>,
        last_use: Arc<LastUse>,
        leases: Leases,
    ) -> Arc<Self> {
        let records = Arc::new(Mutex::new(SessionRecords::new(host.events(0))));
        let keeping = session_records::apply_new_events(Arc::clone(&records), host.events(0));
        Arc::new(Self {
            id,
            host,
            frames: Frames::default(),
            push: Push::default(),
            terminals: Mutex::default(),
            records,
            _keeps_up: AbortOnDropHandle::new(tokio::spawn(keeping)),
            cancelling: tokio::sync::Mutex::default(),
            restores_from: Mutex::new(restores_from),
            last_use,
            leases,
            known: Mutex::default(),
            asking: Mutex::default(),
            attached: AtomicUsize::new(0),
        })
    }

    /// Returns the context with a lease; `None` if no more leases are given out: the session is unloaded, or this node
    /// has stopped following the session because no client used it.
    pub(super) fn lease(self: &Arc<Self>) -> Option<Leased<Self>> {
        Some(Leased::new(Arc::clone(self), self.leases.lease()?))
    }

    /// Stops giving out leases of a session that this node follows, unless the session is in use: unless a lease is
    /// held, or a client has used the session in the time `idle`. Returns `true` if the session is not in use.
    pub(super) fn close_unused(&self, idle: Duration) -> bool {
        self.leases.close_unused(|| self.last_use.at().elapsed() < idle)
    }

    /// Returns the session if this node owns it, else an error that tells the client to ask again.
    pub(super) fn session(&self) -> Result<&Arc<Session>, Error> {
        let SessionHost::Here(session) = &self.host else {
            let message = "another node has the session; ask again";
            return Err(Error::new(error::UNSUPPORTED_OPERATION, message));
        };
        Ok(session)
    }

    /// Returns the session if this node owns it.
    pub(super) fn here(&self) -> Option<&Session> {
        self.session().ok().map(|session| &**session)
    }

    /// Returns the session as this node follows it, if another node owns it.
    pub(super) fn followed(&self) -> Option<&Arc<FollowedSession>> {
        match &self.host {
            SessionHost::Here(_) => None,
            SessionHost::Elsewhere(followed) => Some(followed),
        }
    }

    /// Returns `true` if another context has the same session. This node may have taken the session over from
    /// another node meanwhile; a reader then continues with the new context.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.session_id() == other.session_id()
    }

    /// Returns the session's own id, which is unique.
    pub(super) fn session_id(&self) -> &str {
        match &self.host {
            SessionHost::Here(session) => session.id(),
            SessionHost::Elsewhere(followed) => followed.id(),
        }
    }

    /// Returns the session as the audit log names the session.
    pub(super) fn audited(&self) -> AuditedSession<'_> {
        AuditedSession { id: self.session_id(), context: &self.id }
    }

    /// Returns a reader of all persistent events from the index `from` on, past and future.
    pub(super) fn events(&self, from: usize) -> Reader {
        self.host.events(from)
    }

    /// Returns the index after the last persistent event.
    pub(super) fn position(&self) -> usize {
        match &self.host {
            SessionHost::Here(session) => session.position(),
            SessionHost::Elsewhere(followed) => followed.position(),
        }
    }

    /// Returns the id of the model that the session uses.
    pub(super) fn model(&self) -> String {
        match &self.host {
            SessionHost::Here(session) => session.model(),
            SessionHost::Elsewhere(followed) => followed.with_state(|state| state.model.clone()),
        }
    }

    /// Calls `look` with the owner of the session, and the members with whom it is shared.
    pub(super) fn with_access<T>(&self, look: impl FnOnce(&SessionAccess) -> T) -> T {
        match &self.host {
            SessionHost::Here(session) => session.with_access(look),
            SessionHost::Elsewhere(followed) => followed.with_access(look),
        }
    }

    /// Returns the name that a client gave the session, if any.
    pub(super) fn context_name(&self) -> Option<String> {
        match &self.host {
            SessionHost::Here(session) => session.context_name(),
            SessionHost::Elsewhere(followed) => {
                followed.with_state(|state| state.context_name.clone())
            }
        }
    }

    /// Returns `true` if the question about a call is still open.
    pub(super) fn asks(&self, call: &str) -> bool {
        match &self.host {
            SessionHost::Here(session) => session.questions().is_open(call),
            SessionHost::Elsewhere(followed) => {
                followed.with_state(|state| state.open_questions.contains(call))
            }
        }
    }

    /// Returns the turn that runs now. Clients may not have been told of it yet.
    pub(super) fn running_now(&self) -> Option<TurnId> {
        match &self.host {
            SessionHost::Here(session) => session.turns().running(),
            SessionHost::Elsewhere(followed) => followed.with_state(|state| state.running),
        }
    }

    /// Returns the first directory of the session, if this node owns the session.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.here()?.roots().first().cloned()
    }

    /// Waits until no further events of the session can be read from this context. A reader then continues with
    /// another context, or the client asks again.
    pub(super) async fn moved(&self) {
        match &self.host {
            SessionHost::Here(session) => session.wait_fenced().await,
            SessionHost::Elsewhere(followed) => followed.wait_ended().await,
        }
    }

    /// Returns `true` if no further events of the session can be read from this context.
    pub(super) fn has_moved(&self) -> bool {
        match &self.host {
            SessionHost::Here(session) => session.fence_error().is_some(),
            SessionHost::Elsewhere(followed) => followed.has_ended(),
        }
    }

    /// Waits until all events up to now are durable. Events of a session that another node owns are durable
    /// when they are read.
    pub(super) async fn synced(&self) {
        if let SessionHost::Here(session) = &self.host {
            session.wait_durable().await;
        }
    }

    /// Waits until this node can read all events that clients of other nodes may have been shown by now, but
    /// at most [`CATCHING_UP`].
    pub(super) async fn caught_up(&self) -> Result<(), StoreError> {
        let caught_up = async {
            match &self.host {
                SessionHost::Here(session) => {
                    session.wait_durable().await;
                    Ok(())
                }
                SessionHost::Elsewhere(followed) => followed.caught_up().await,
            }
        };
        timeout(CATCHING_UP, caught_up).await.unwrap_or(Ok(()))
    }

    /// Returns the right of a principal in the session; `None` if the principal must not know of the session.
    pub(super) fn right(&self, principal: &Principal) -> Option<SessionRight> {
        self.with_access(|access| principal.right(access))
    }

    /// Returns `true` if a principal may read the session.
    pub(super) fn is_open_to(&self, principal: &Principal) -> bool {
        self.right(principal).is_some()
    }

    /// Calls `look` with the records, after all events up to now have been applied to them.
    pub(super) fn records<T>(&self, look: impl FnOnce(&SessionRecords) -> T) -> T {
        look(self.records.lock().catch_up())
    }

    /// Waits until all events up to now are durable, since a client is told of nothing that a crash could
    /// take back. Fails if no further events are stored from here.
    pub(super) async fn promised(&self) -> Result<(), Error> {
        self.synced().await;
        self.check_own()
    }

    /// Fails if no further events of the session are stored from here; the client then asks again.
    pub(super) fn check_own(&self) -> Result<(), Error> {
        let reason = match &self.host {
            SessionHost::Here(session) => session.fence_error(),
            SessionHost::Elsewhere(followed) => {
                followed.has_ended().then_some(StoreError::TakenOver)
            }
        };
        reason.map_or(Ok(()), |reason| Err(error::unavailable(&reason.for_clients())))
    }

    /// Fails if the store refuses events of the session at present; the client then sends its message again
    /// later. Without this check, a turn could begin that is not stored; after a crash, the same message would
    /// begin a second turn.
    pub(super) fn check_saved(&self) -> Result<(), Error> {
        let SessionHost::Here(session) = &self.host else { return Ok(()) };
        match session.fence_error() {
            Some(StoreError::Refused(_)) => self.check_own(),
            None if session.is_store_bypassed() => {
                let why = StoreError::Refused(String::new()).for_clients();
                Err(error::unavailable(&why))
            }
            _ => Ok(()),
        }
    }

    /// Notes that a client uses the session, so that it is not unloaded.
    pub(super) fn used(&self) {
        self.last_use.used();
    }

    /// Ends a turn whose question was not answered within the time `limit`. The time does not count while a
    /// terminal is attached.
    pub(super) fn expire_questions(&self, limit: Duration) {
        let Ok(session) = self.session() else { return };
        let now = Instant::now();
        let open = session.questions().open_now();
        let mut asking = self.asking.lock();
        asking.retain(|call, _| open.iter().any(|asked| asked.call.id == *call));
        let attended = self.attached.load(Ordering::Relaxed) > 0;
        for asked in open {
            let since = asking.entry(asked.call.id.clone()).or_insert(now);
            if attended {
                *since = now;
            } else if now.saturating_duration_since(*since) >= limit
                && session.turns().expire(&asked.call.id, limit)
            {
                self.last_use.abandon();
            }
        }
    }

    /// Notes that a sender knows of a turn; without `turn`, of the latest one. Once the turn has ended, a
    /// message that the sender sends again is a new message and no retry, since the sender has got its
    /// answer.
    pub(super) fn note_known(&self, sender: MessageSender, turn: Option<TurnId>) {
        let latest = || self.records(|records| records.projection().latest().map(|turn| turn.id));
        if let Some(turn) = turn.or_else(latest) {
            self.known.lock().note(sender, turn);
        }
    }

    /// Returns `true` if this is the last turn that was noted for the sender.
    pub(super) fn is_known_to(&self, sender: &MessageSender, turn: TurnId) -> bool {
        self.known.lock().knows(sender, turn)
    }

    /// Returns `true` if a message that names no session, and that has begun this turn, may be a retry of a
    /// sender who got no answer.
    pub(super) fn may_be_retry(
        &self,
        turn: TurnId,
        sender: &MessageSender,
        window: Duration,
    ) -> bool {
        match self.records(|records| records.ended_at(turn)) {
            None => true,
            Some(at) => is_within(window, at) && !self.known.lock().knows(sender, turn),
        }
    }

    /// Records that the task was cancelled after its last turn had ended. Returns `false` if this was
    /// recorded before.
    pub(super) async fn cancel_ended(&self, session: &Session, turn: TurnId) -> bool {
        let _cancelling = self.cancelling.lock().await;
        let is_new = self.records(|records| records.canceled() != Some(turn));
        if is_new {
            session.record(TaskEvent::Cancelled { turn });
            // The next request decides by the records, which have only durable events. So the event must be durable
            // before this call returns.
            session.wait_durable().await;
        }
        is_new
    }

    /// Returns the oldest turn that has not ended as far as clients know. The turn may have ended already if its end
    /// is not stored yet.
    pub(super) fn running(&self) -> Option<TurnId> {
        self.records(|records| {
            records.turns().find(|turn| turn.ended.is_none()).map(|turn| turn.id)
        })
    }

    /// Returns the state of a turn's task; without a turn, of the session's task (0.3).
    pub(super) fn state(&self, turn: Option<TurnId>) -> TaskState {
        self.records(|records| records.state(turn))
    }

    /// Returns the current task of a turn; without a turn, the session's task (0.3). `history`: maximum
    /// number of messages; the last ones are returned.
    pub(super) async fn task(&self, turn: Option<TurnId>, history: Option<usize>) -> Task {
        self.whole_task(|records| task(&self.id, records, turn, history), turn).await
    }

    /// Returns the task that `task` makes from the log, with the files that its turn has changed if the turn
    /// has ended.
    async fn whole_task(
        &self,
        task: impl FnOnce(&SessionRecords) -> Task,
        turn: Option<TurnId>,
    ) -> Task {
        let (mut task, changes) = self.records(|records| (task(records), changes(records, turn)));
        if let Some(changes) = changes {
            task.artifacts.extend(changes.artifacts_off_thread().await);
        }
        task
    }

    /// Returns the session's task (0.3) for a client that began a turn, with the status and the results of
    /// that turn. Another turn may run by now.
    pub(super) async fn task_for(&self, turn: TurnId, history: Option<usize>) -> Task {
        let mut task = self.records(|records| task(&self.id, records, None, history));
        let own = self.task(Some(turn), Some(0)).await;
        (task.status, task.artifacts) = (own.status, own.artifacts);
        if let Some(message) = &mut task.status.message {
            message.task_id.clone_from(&task.id);
        }
        task
    }

    /// Returns the task of a turn with an open question, for a client that sent something else than an answer.
    pub(super) async fn task_asked_back(
        &self,
        dialect: Dialect,
        turn: TurnId,
        history: Option<usize>,
    ) -> Task {
        let mut task = match dialect {
            Dialect::V1 => self.task(Some(turn), history).await,
            Dialect::V03 | Dialect::Flat => self.task_for(turn, history).await,
        };
        let parts = task.status.message.iter_mut().flat_map(|message| &mut message.parts);
        for text in parts.filter_map(|part| part.text.as_mut()).take(1) {
            *text = format!("{NO_ANSWER}\n\n{text}");
        }
        task
    }

    /// Returns the current task for a stream that then tells the whole current turn: messages of that turn
    /// are left out.
    pub(super) async fn standing(&self, turn: Option<TurnId>) -> Task {
        self.whole_task(|records| snapshot(&self.id, records, turn, None, false), turn).await
    }

    /// Returns the id of the task that a turn is part of.
    pub(super) fn task_of(
        &self,
        records: &SessionRecords,
        turn: TurnId,
        dialect: Dialect,
    ) -> String {
        let own = records.is_own_task(turn);
        if own { Dialect::V1 } else { dialect }.task_id(&self.id, turn)
    }

    /// Returns the task of a turn that has just begun, as the first event of its stream. `unknown_context`:
    /// outcome for the context that the message names, if it is not known.
    pub(super) fn begun(
        &self,
        dialect: Dialect,
        turn: TurnId,
        unknown_context: Option<UnknownContext>,
    ) -> Task {
        let id = dialect.task_id(&self.id, turn);
        self.records(|records| {
            let builder = MessageBuilder { context: &self.id, task: &id };
            let begun = records.turn(turn);
            let prompt = begun.and_then(|turn| builder.turn_messages(turn).last());
            let at = timestamp(begun.map_or(0, |turn| turn.queued.1));
            Task {
                context_id: self.id.clone(),
                status: TaskStatus { state: TaskState::Submitted, message: None, timestamp: at },
                history: prompt.into_iter().collect(),
                artifacts: Vec::new(),
                metadata: TaskMetadata { unknown_context, ..TaskMetadata::default() },
                id: id.clone(),
            }
        })
    }
}

/// Returns the right of a principal in a session.
pub(super) fn right(session: &Session, principal: &Principal) -> Option<SessionRight> {
    session.with_access(|access| principal.right(access))
}

impl SessionView for SessionContext {
    fn unloaded(&self) {
        self.push.clear();
    }
}

/// Returns the changes of a task's turn, if the turn has ended; without a turn, those of the last turn of the
/// session's task (0.3).
pub(super) fn changes(records: &SessionRecords, turn: Option<TurnId>) -> Option<TurnChanges> {
    let turn = turn.and_then(|turn| records.turn(turn)).or_else(|| records.projection().latest());
    let ended = turn.filter(|turn| turn.ended.is_some())?;
    Some(TurnChanges::of(records, ended.id))
}

/// Returns the task of a turn as the log tells it, without the turn's changes; without a turn, the session's
/// task (0.3). `history`: maximum number of messages; the last ones are returned.
pub(super) fn task(
    context: &str,
    records: &SessionRecords,
    turn: Option<TurnId>,
    history: Option<usize>,
) -> Task {
    snapshot(context, records, turn, history, true)
}

/// Returns the same task as [`task`]; without `whole`, messages of the turn that runs are left out.
fn snapshot(
    context: &str,
    records: &SessionRecords,
    turn: Option<TurnId>,
    history: Option<usize>,
    whole: bool,
) -> Task {
    let (turns, last): (Vec<_>, _) = match turn.and_then(|turn| records.turn(turn)) {
        Some(turn) => (vec![turn], Some(turn)),
        None => (records.turns().collect(), records.projection().latest()),
    };
    let id = turn.map_or_else(|| context.to_owned(), |turn| Dialect::V1.task_id(context, turn));
    let builder = MessageBuilder { context, task: &id };
    let message = last.and_then(|turn| builder.standing(records, turn));
    let at = last.map_or(0, |turn| turn.changed_at);
    let wanted = history.unwrap_or(usize::MAX);
    let told = turns.iter().rev().flat_map(|turn| {
        let is_told = whole || turn.ended.is_some();
        let unsaid = if is_told { 0 } else { turn.answers.len() };
        let asked = builder.asked(records, turn).filter(|_| is_told);
        asked.into_iter().chain(builder.turn_messages(turn).skip(unsaid))
    });
    let mut said: Vec<Message> = told.take(wanted).collect();
    said.reverse();
    let came = last.filter(|turn| turn.ended.is_some()).and_then(|turn| turn.answers.last());
    Task {
        context_id: context.to_owned(),
        status: TaskStatus { state: records.state(turn), message, timestamp: timestamp(at) },
        history: said,
        artifacts: came.map(|text| artifact(text.clone())).into_iter().collect(),
        metadata: TaskMetadata {
            git: last.and_then(|turn| records.saved_at(turn.id)).map(git_place),
            ..TaskMetadata::default()
        },
        id,
    }
}

/// Makes A2A messages from the records of turns.
struct MessageBuilder<'a> {
    context: &'a str,
    task: &'a str,
}

impl MessageBuilder<'_> {
    /// Returns the messages of a turn, the last one first.
    fn turn_messages(&self, turn: &TurnRecord) -> impl Iterator<Item = Message> {
        let number = turn.id.0;
        let answers = turn
            .answers
            .iter()
            .enumerate()
            .rev()
            .map(move |(n, text)| self.message(Role::Agent, &format!("{number}.{n}"), text));
        let mut prompt = self.message(Role::User, &format!("{number}.prompt"), &turn.prompt);
        prompt.metadata = turn.origin.as_ref().map(source_metadata).unwrap_or_default();
        answers.chain([prompt])
    }

    /// Returns the message about the state of a turn: the question of the turn, or the error that ended it.
    fn standing(&self, records: &SessionRecords, turn: &TurnRecord) -> Option<Message> {
        self.asked(records, turn).or_else(|| {
            let why = explanation(&turn.ended.as_ref()?.1)?;
            Some(self.message(Role::Agent, &format!("{}.end", turn.id.0), &why))
        })
    }

    /// Returns the last open question of a turn, if the turn waits for an answer.
    fn asked(&self, records: &SessionRecords, turn: &TurnRecord) -> Option<Message> {
        let started = &records.call(turn.questions.last()?)?.started;
        let mut message = self.message(Role::Agent, &format!("{}.asking", turn.id.0), "");
        message.parts = question(started);
        Some(message)
    }

    fn message(&self, role: Role, id: &str, text: &str) -> Message {
        Message {
            role,
            message_id: format!("{}/turn/{id}", self.context),
            task_id: self.task.to_owned(),
            context_id: self.context.to_owned(),
            extensions: vec![EXTENSION_URI.into()],
            parts: vec![text.to_owned().into()],
            metadata: Fields::default(),
        }
    }
}
