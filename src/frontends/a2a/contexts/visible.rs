//! The sessions of a server, as one principal may see them.

use std::cmp::Reverse;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::timeout;

use super::super::context::{self, CATCHING_UP, SessionContext, UnknownContext};
use super::super::messages::MessageSender;
use super::super::read::{AgentSettings, Sent, SentContent};
use super::super::servers;
use super::super::session_records::SessionRecords;
use super::locate::StoredPlace;
use super::{Contexts, ServedSessions};
use tandem_agent::session::{
    ActiveSession, Head, Listed, Orphan, PrincipalId, PromptPart, Session, SessionAccess,
    SessionState, StoreError, TaskEvent, read_stored,
};
use tandem_agent::sessions::{
    CreateError, Leased, LoadedSession, SessionRequest, SessionSummary, Sessions, begun_id,
    owned_id, stored_id,
};
use tandem_content::blocking::blocking;
use tandem_serve::principals::{DRIVE_RIGHT, Principal, SessionRight};
use tandem_serve::quotas::{QuotaError, Reservation};
use tandem_wire::a2a::{Fields, error};
use tandem_wire::jsonrpc::Error;

/// Maximum number of sessions that one sender can begin with the same message (by its id and its text) so that
/// a retry of each is recognized after a restart.
const MESSAGE_USES: usize = 32;

/// Number of times that a log is read again because its session was leased meanwhile.
const READ_AGAIN: usize = 2;

/// The longest id that a client may choose.
const LONGEST_ID: usize = 128;

impl Contexts {
    /// Returns the sessions that a principal may see. Every method that a client calls goes through this
    /// view.
    pub(in super::super) fn of<'a>(&'a self, principal: &'a Principal) -> VisibleContexts<'a> {
        VisibleContexts { all: self, principal }
    }
}

/// The sessions of a server that one principal may see. Sessions that the principal may not see are answered
/// as not found.
#[derive(Clone, Copy)]
pub(in super::super) struct VisibleContexts<'a> {
    pub(super) all: &'a Contexts,
    pub(super) principal: &'a Principal,
}

/// A stored session whose log was to be read.
pub(in super::super) enum ReadSession {
    /// The session is loaded by now.
    Loaded(Arc<SessionContext>),
    /// The log was read: the id by which the principal knows the session, and what its log tells.
    Stored(String, Box<SessionRecords>),
}

impl<'a> VisibleContexts<'a> {
    /// Returns `true` if the principal may see a loaded session.
    pub(super) fn sees(&self, loaded: &LoadedSession) -> bool {
        context::right(loaded.session(), self.principal).is_some()
    }

    /// Returns `true` if the head of a stored session does not rule out that the principal may see it.
    fn may_see(&self, head: &Head) -> bool {
        let ServedSessions::PerContext { is_shown, .. } = &self.all.served else { return false };
        // Without authentication, every user of this machine is a client. Such a client sees only sessions
        // that A2A clients began.
        (head.served || *self.principal != Principal::Anyone) && is_shown(head)
    }

    /// Returns `true` if the principal owns the stored session of this head, but this server does not serve
    /// the session's directory.
    pub(super) fn works_elsewhere(&self, head: &Head) -> bool {
        let ServedSessions::PerContext { is_shown, .. } = &self.all.served else { return false };
        let access = SessionAccess { owner: head.owner.clone(), ..SessionAccess::default() };
        let is_theirs = head.served && self.principal.right(&access).is_some();
        is_theirs && !is_shown(head)
    }

    /// Checks that the principal has the right `need` in a session. A principal who may not even read the
    /// session gets the same error as if there were no such session.
    pub(in super::super) fn check(
        &self,
        context: &SessionContext,
        need: SessionRight,
    ) -> Result<(), Error> {
        let right = context.right(self.principal);
        let right = right.ok_or_else(|| error::task_not_found(&context.id))?;
        if right >= need {
            return Ok(());
        }
        let SessionRight::Shared(role) = right else { return Ok(()) };
        let why = "the role in which the session is shared does not allow this";
        let what = match need {
            SessionRight::Shared(need) => need.name(),
            SessionRight::Own => "own",
        };
        self.all.audit.denied_in(self.principal, context.audited(), what, why);
        let message = match need {
            SessionRight::Shared(need) => format!(
                "the session is shared with you to {role}, and this needs the role {need}: ask its \
                 owner for `/share`"
            ),
            SessionRight::Own => {
                format!("the session is shared with you to {role}, and only its owner can do this")
            }
        };
        Err(Error::new(error::UNSUPPORTED_OPERATION, message))
    }

    /// Checks that the quota of the session's owner has room for the turn of a prompt. The room is reserved
    /// as long as the caller holds the result. A command that runs beside the current turn needs no room.
    pub(in super::super) fn check_turn(
        &self,
        context: &SessionContext,
        prompt: &[PromptPart],
    ) -> Result<Option<Reservation>, Error> {
        if context.here().is_some_and(|session| session.turns().is_at_once(prompt)) {
            return Ok(None);
        }
        let owner = context.with_access(|access| access.owner.clone());
        let Some(owner) = owner else { return Ok(None) };
        let checked = self.all.meter.turn(&owner, self.all.registry());
        let checked = checked.inspect_err(|used_up| {
            let message = used_up.message();
            self.all.audit.denied_in(self.principal, context.audited(), "a turn", &message);
        });
        Ok(Some(checked?))
    }

    /// Returns the result of a quota check for a new session, and notes a refusal in the audit log.
    fn within_quota<T>(&self, checked: Result<T, QuotaError>) -> Result<T, Error> {
        checked.map_err(|used_up| {
            self.all.audit.denied(self.principal.id(), "a session", &used_up.message());
            used_up.into()
        })
    }

    /// Returns all loaded sessions, in no order.
    pub(in super::super) fn all(&self) -> Vec<Arc<SessionContext>> {
        let loaded = self.all.registry().loaded().into_iter();
        // A session whose events are no longer stored from this node is left out: its state here is out of date.
        let live = loaded.filter(|it| self.sees(it) && it.session().fence_error().is_none());
        live.map(|it| SessionContext::of(&it)).collect()
    }

    /// Waits until the turns, calls and questions that the last process left open in the loaded sessions are closed or
    /// resumed, but at most [`CATCHING_UP`].
    pub(in super::super) async fn all_begun(&self) {
        let begun = async {
            loop {
                let loaded = self.all.registry().loaded();
                let waited = loaded.iter().filter(|it| !it.has_begun() && self.sees(it));
                let waits: Vec<_> = waited.map(|it| it.wait_resumed()).collect();
                if waits.is_empty() {
                    return;
                }
                join_all(waits).await;
            }
        };
        // A store that does not answer for one session must not keep the client from the list of the other sessions.
        let _ = timeout(CATCHING_UP, begun).await;
    }

    /// Returns descriptions of the loaded sessions that the principal may see, the last active first.
    pub(in super::super) fn list(&self) -> Vec<SessionSummary> {
        let mut seen = self.all.registry().loaded();
        seen.retain(|loaded| self.sees(loaded));
        let mut list: Vec<_> = seen.iter().map(|loaded| loaded.summary()).collect();
        list.sort_by_key(|summary| Reverse(summary.last_activity));
        list
    }

    /// Streams the stored sessions that are not loaded, the last changed first. The store is read only as far
    /// as the caller takes sessions from the stream.
    pub(in super::super) fn stored(self) -> BoxStream<'a, Result<Listed, Error>> {
        let Some(sessions) = self.all.sessions() else { return stream::empty().boxed() };
        sessions
            .stored_sessions(None)
            .map_err(move |error| self.store_error(&error))
            .try_filter(move |listed| ready(self.is_listed(listed)))
            .boxed()
    }

    /// Returns `true` if the principal may see a session that a store lists.
    fn is_listed(&self, listed: &Listed) -> bool {
        self.principal.right(&listed.access()).is_some() && self.may_see(&listed.head)
    }

    /// Lists the sessions that are not loaded here and that either another node owns, or that no node owns
    /// although a turn runs or waits in them; the last changed first.
    pub(in super::super) async fn active_elsewhere(&self) -> Result<Vec<ActiveSession>, Error> {
        let Some(store) = self.all.shared_store().and_then(|store| store.shared()) else {
            return Ok(Vec::new());
        };
        let active = store.active_elsewhere().await;
        let mut active = active.map_err(|error| self.store_error(&error))?;
        let registry = self.all.registry();
        active.retain(|ActiveSession { listed, .. }| {
            self.is_listed(listed) && !registry.contains(&listed.head.id)
        });
        Ok(active)
    }

    /// Returns the error for a client whose request failed because of the store.
    pub(in super::super) fn store_error(&self, error: &StoreError) -> Error {
        self.all.store_error(error)
    }

    /// Returns `true` if the principal may see the stored session of this head. Where the head does not
    /// decide this, the log is read, which alone says with whom the session is shared.
    pub(super) async fn sees_stored(&self, head: &Head) -> Result<bool, StoreError> {
        if !self.may_see(head) {
            return Ok(false);
        }
        let mut access = SessionAccess { owner: head.owner.clone(), ..SessionAccess::default() };
        if self.principal.right(&access).is_some() {
            return Ok(true);
        }
        // A session is shared within its tenant only, so logs of other tenants are not read.
        let is_of_tenant =
            |id: &PrincipalId| head.owner.as_ref().is_some_and(|owner| owner.tenant == id.tenant);
        if !self.principal.id().is_some_and(is_of_tenant) {
            return Ok(false);
        }
        let Some(sessions) = self.all.sessions() else { return Ok(false) };
        let Some(store) = sessions.store() else { return Ok(false) };
        let (bytes, policy) = (sessions.limits().log_bytes, sessions.resume_policy());
        let log = if_available(read_stored(&**store, &head.id, bytes, policy).await)?;
        let Some(log) = log else { return Ok(false) };
        let state = blocking(move || SessionState::from_log(&mut log.read(0))).await;
        access.shares = state.map(|state| state.access.shares).unwrap_or_default();
        Ok(self.principal.right(&access).is_some())
    }

    /// Returns the ids by which the registry may have the session that the principal calls `id`.
    pub(super) fn candidates(&self, id: &str) -> Vec<String> {
        let Some(principal) = self.principal.id() else { return vec![id.to_owned()] };
        let own = owned_id(principal, id);
        // A name that a client chose is valid for its principal only; the UUID of a session is valid for
        // all principals.
        if stored_id(id) == id { vec![own, id.to_owned()] } else { vec![own] }
    }

    /// Reads the log of a stored session, named by its id in the store, without loading the session. Returns
    /// `None` if the log cannot be read.
    pub(in super::super) async fn read(&self, id: &str) -> Result<Option<ReadSession>, StoreError> {
        let Some(sessions) = self.all.sessions() else { return Ok(None) };
        let Some(stored) = sessions.store() else { return Ok(None) };
        let (bytes, policy) = (sessions.limits().log_bytes, sessions.resume_policy());
        let mut tries = 0;
        loop {
            if sessions.is_loaded_or_loading(id)
                && let Ok(Some(loaded)) = timeout(CATCHING_UP, sessions.settled(id)).await
            {
                let context = self.sees(&loaded).then(|| SessionContext::of(&loaded));
                return Ok(context.map(ReadSession::Loaded));
            }
            let log = read_stored(&**stored, id, bytes, policy).await.inspect_err(|error| {
                tracing::debug!(id, "a stored session is not listed: {error}");
            });
            let Some(log) = if_available(log)? else { return Ok(None) };
            // A session that was leased meanwhile still shows the turn that the new owner is about to end.
            if tries < READ_AGAIN && sessions.is_loaded_or_loading(id) {
                tries += 1;
                continue;
            }
            let records = SessionRecords::read(log.read(0)).await;
            let named = |name: &&str| self.candidates(name).iter().any(|it| stored_id(it) == id);
            let name = records.name().filter(named).unwrap_or(id).to_owned();
            return Ok(Some(ReadSession::Stored(name, Box::new(records))));
        }
    }

    /// Returns the ids of the stored sessions that were interrupted in a turn by the end of their process,
    /// and that have receivers of push notifications.
    pub(in super::super) async fn interrupted(&self) -> Vec<String> {
        let Some(sessions) = self.all.sessions() else { return Vec::new() };
        let Some(store) = sessions.store() else { return Vec::new() };
        let opened = store.opened().await.unwrap_or_else(|error| {
            tracing::warn!("nobody is notified of turns that were interrupted: {error}");
            Vec::new()
        });
        let mut interrupted = Vec::new();
        for id in opened {
            // The store keeps the receivers of a session's push notifications as secrets. Most sessions have no
            // secrets, so this check saves reading their logs.
            if store.secrets(&id).await.is_ok_and(|secrets| !secrets.is_empty())
                && let Ok(true) = self.is_unloaded(sessions, &id).await
                && let Ok(Some(ReadSession::Stored(_, records))) = self.read(&id).await
                && !records.push().is_empty()
                && records.was_interrupted()
            {
                interrupted.push(id);
            }
        }
        interrupted
    }

    /// Returns some of the sessions of clients in which a turn runs or waits although no living process owns
    /// them.
    pub(in super::super) async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        let Some(sessions) = self.all.sessions() else { return Ok(Vec::new()) };
        let Some(store) = sessions.store() else { return Ok(Vec::new()) };
        let mut shown = Vec::new();
        for orphan in store.orphans().await? {
            // A session whose directory this server does not serve cannot be loaded.
            if self.is_unloaded(sessions, &orphan.id).await? {
                shown.push(orphan);
            }
        }
        Ok(shown)
    }

    /// Returns `true` if the session of an id of the store is not loaded, and the principal may see the session.
    async fn is_unloaded(&self, sessions: &Sessions, id: &str) -> Result<bool, StoreError> {
        if sessions.contains(id) {
            return Ok(false);
        }
        let place = if_available(self.place(sessions, id).await)?;
        Ok(matches!(place, Some(StoredPlace::Visible)))
    }

    /// Waits until this node can read everything of a session that clients of other nodes may have been shown
    /// by now.
    pub(in super::super) async fn caught_up(&self, context: &SessionContext) -> Result<(), Error> {
        if self.all.shared_store().is_none() {
            return Ok(());
        }
        context.caught_up().await.map_err(|error| self.store_error(&error))
    }

    /// Waits in the same way for all loaded sessions that the principal may see.
    pub(in super::super) async fn all_caught_up(&self) {
        if self.all.shared_store().is_some() {
            let all = self.all();
            join_all(all.iter().map(|context| context.caught_up())).await;
        }
    }

    /// Returns the shared context, if there is one, for a call whose session was not found. Notes the use.
    pub(in super::super) fn shared(&self) -> Option<Leased<SessionContext>> {
        let shared = self.all.shared.as_ref()?;
        shared.used();
        Some(shared.clone())
    }

    /// Returns the outcome for a context id that is not known.
    pub(in super::super) fn unknown(&self) -> UnknownContext {
        match &self.all.served {
            ServedSessions::Shared { .. } => UnknownContext::Shared,
            ServedSessions::PerContext { .. } => UnknownContext::New,
        }
    }

    /// Recognizes a message that names no session and that its sender has sent before, to this process or to another
    /// process with the same store. Such a message is changed so that it names the session that it began. A new
    /// message gets the id of the session that it is to begin. `window`: time after a turn's end for which its
    /// message may be a retry.
    pub(in super::super) async fn recognize(
        &self,
        params: &mut Fields,
        sent: &mut Sent,
        sender: &MessageSender,
        window: Duration,
    ) -> Result<(), Error> {
        let (Some(message), SentContent::Prompt(prompt)) = (&sent.id, &sent.content) else {
            return Ok(());
        };
        if self.all.shared.is_some() {
            sent.begins = Some(begun_id(sender.name(), message, prompt, 0));
            return Ok(());
        }
        if sent.names_session() {
            return Ok(());
        }
        for use_number in 0..MESSAGE_USES {
            let id = begun_id(sender.name(), message, prompt, use_number);
            match self.may_be_retry(&id, message, sender, window).await {
                Ok(None) => {
                    sent.begins = Some(id);
                    return Ok(());
                }
                Ok(Some(true)) => {
                    // If another node owns the session, it reads the id from the parameters.
                    params.0.insert("contextId".to_owned(), id.as_str().into());
                    sent.context = Some(id);
                    return Ok(());
                }
                Ok(Some(false)) => {}
                Err(error) => return Err(self.store_error(&error)),
            }
        }
        Ok(())
    }

    /// Returns `true` if a message may be a retry of the message that began the session of an id; `None` if
    /// there is no such session.
    async fn may_be_retry(
        &self,
        id: &str,
        message: &str,
        sender: &MessageSender,
        window: Duration,
    ) -> Result<Option<bool>, StoreError> {
        if let Some(context) = self.known_by_id(id).filter(|it| !it.has_moved()) {
            let turn = context.records(|records| records.sent(message).map(|turn| turn.id));
            // Without a turn, the message is not stored yet, so it may be a retry.
            return Ok(Some(turn.is_none_or(|turn| context.may_be_retry(turn, sender, window))));
        }
        let Some(sessions) = self.all.sessions() else { return Ok(None) };
        match self.place(sessions, id).await? {
            StoredPlace::Missing => return Ok(None),
            StoredPlace::Hidden | StoredPlace::Unserved(_) => return Ok(Some(false)),
            StoredPlace::Visible => {}
        }
        // An unreadable log counts as a retry: loading the session then tells the client why it cannot be
        // read.
        Ok(Some(match self.read(id).await? {
            Some(ReadSession::Stored(_, records)) => records.is_recent(window),
            Some(ReadSession::Loaded(context)) => {
                context.records(|records| records.is_recent(window))
            }
            None => true,
        }))
    }

    /// Returns the context for a prompt: the located context, else the shared context, else that of a new session. A
    /// new session gets the id `chosen`, else the id `begins`, if given. Also returns `true` if the session is new.
    /// Fails unless the principal may send prompts in the context.
    pub(in super::super) fn prompted(
        &self,
        located: Option<Leased<SessionContext>>,
        chosen: Option<&str>,
        begins: Option<&str>,
        settings: &AgentSettings,
    ) -> Result<(Leased<SessionContext>, bool), Error> {
        if let Some(sessions) = self.all.sessions() {
            sessions.unload_idle();
        }
        // Another message for the same context id may have begun the session since this one was located. That session
        // needs no room in the quota of sessions.
        let begun = || chosen.and_then(|id| self.loaded_by_id(id));
        let located = located.or_else(|| begun().map(|loaded| SessionContext::leased(&loaded)));
        let (context, is_new) = match (located.or_else(|| self.shared()), self.all.sessions()) {
            (None, Some(sessions)) => self.begin(sessions, chosen, begins, settings)?,
            (Some(context), _) => (context, false),
            // The shared context was created together with the server, so it cannot be missing.
            (None, None) => return Err(Error::new(Error::INTERNAL_ERROR, "no session")),
        };
        if !is_new {
            self.check(&context, DRIVE_RIGHT)?;
        }
        Ok((context, is_new))
    }

    /// Applies the settings of a prompt to a session that exists already. The caller has checked that the principal may
    /// send the prompt.
    pub(in super::super) fn apply_settings(
        &self,
        context: &SessionContext,
        settings: &AgentSettings,
    ) -> Result<(), Error> {
        let session = context.session()?;
        if let Some(workspace) = &settings.workspace {
            session.works_in(workspace).map_err(error::invalid_params)?;
        }
        servers::add(&settings.servers, session, self.all.servers);
        // The limit comes with the first message of a session that `POST /tasks` has made. A client cannot limit
        // the tools of a shared session, which a person at a terminal or an editor drives.
        if self.all.shared.is_none() && !session.has_turns() {
            limit_tools(session, settings);
        }
        Ok(())
    }

    /// Creates a session: under the id that the client chose, else under the id `begins`, else under the
    /// session's own id. Also returns `true` if the session is new; another request may have created it at
    /// the same time.
    fn begin(
        &self,
        sessions: &Sessions,
        chosen: Option<&str>,
        begins: Option<&str>,
        settings: &AgentSettings,
    ) -> Result<(Leased<SessionContext>, bool), Error> {
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
        let owner = self.principal.id();
        let room = |owner| {
            let checked = self.all.meter.turn(owner, sessions);
            let checked = checked.and_then(|_| self.all.meter.session(owner, sessions));
            self.within_quota(checked)
        };
        let _room = owner.map(room).transpose()?;
        let prepare = |session: &Session| {
            // The owner is recorded before any other event, so that no client sees the session without its
            // owner.
            if let Some(owner) = owner {
                session.record(TaskEvent::Owned { owner: owner.clone() });
            }
            session.persistence().announce(self.all.port);
            limit_tools(session, settings);
            servers::add(&settings.servers, session, self.all.servers);
            session.start_servers();
            if let Some(context) = chosen {
                session.record(TaskEvent::ContextNamed { context: context.to_owned() });
            }
        };
        let own = chosen.zip(owner).map(|(id, owner)| owned_id(owner, id));
        let begun = match own.as_deref().or(chosen).or(begins) {
            Some(id) => sessions.open_or_create(id, &request, prepare),
            None => sessions.create(&request, prepare).map(|created| (created, true)),
        };
        let (loaded, is_new) = begun.map_err(refused)?;
        let context = SessionContext::leased(&loaded);
        if is_new {
            let directory = context.directory();
            self.all.audit.begun(self.principal, context.audited(), directory.as_deref());
        }
        Ok((context, is_new))
    }
}

/// Limits the tools of a session to the tools that a client names, if it names any.
fn limit_tools(session: &Session, settings: &AgentSettings) {
    if let Some(tools) = &settings.tools {
        session.limit_tools(tools.clone());
    }
}

/// Returns `true` if the error means that nothing in the store can be read at present.
pub(super) fn is_unavailable(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_))
}

/// Returns a store's result, or `None` for an error that concerns this session only. Fails if the whole store
/// is unavailable.
pub(super) fn if_available<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(error) if is_unavailable(&error) => Err(error),
        read => Ok(read.ok()),
    }
}

/// Returns the error for a session that cannot be created.
pub(super) fn refused(error: CreateError) -> Error {
    match error {
        CreateError::Full(_) => Error::new(error::UNSUPPORTED_OPERATION, error.to_string()),
        CreateError::Refused(why) => error::invalid_params(why),
    }
}
