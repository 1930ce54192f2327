//! The way to the session that a call names: its place, and the loading of a stored session.

use std::sync::Arc;

use super::super::context::SessionContext;
use super::super::requests::SessionId;
use super::ServedSessions;
use super::visible::{VisibleContexts, if_available, is_unavailable, refused};
use tandem_agent::session::{Head, Session, SessionAccess, StoreError, TurnId};
use tandem_agent::sessions::{Leased, LoadError, LoadedSession, Sessions, stored_id};
use tandem_serve::principals::SessionRight;
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Place of the session that a call names.
pub(in super::super) enum Located {
    /// This node has the session loaded.
    Here(Leased<LoadedSession>),
    /// Another node owns the session, and this node follows the session.
    Elsewhere(Leased<SessionContext>),
    /// The session is stored, and not loaded at this node: the id under which the registry would load the session.
    Stored(String),
    /// The session is the principal's, but its directory is not served here or it cannot be read: the error for the
    /// client.
    Unusable(Error),
    /// The principal knows no such session.
    None,
}

/// A session that was found in this process.
struct FoundSession {
    loaded: Option<Leased<LoadedSession>>,
    followed: Option<Leased<SessionContext>>,
}

/// Place of a session in the store, for one principal.
pub(super) enum StoredPlace {
    /// The principal may see the session.
    Visible,
    /// The principal owns the session, but this server does not serve the session's directory.
    Unserved(Box<Head>),
    /// The principal must not know of the session.
    Hidden,
    /// The store has no such session.
    Missing,
}

/// Sessions of other owners that a principal may name by the context id that their owner chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Naming {
    /// Sessions that are shared with the principal.
    Shared,
    /// Sessions that are shared with the principal, and all that an administrator may see.
    Any,
}

impl VisibleContexts<'_> {
    /// Locates the session that a call names. A stored session is not loaded. Fails if the store is unavailable.
    ///
    /// Steps:
    ///
    /// 1. Find the session by the ids that lead to it for this principal: loaded, followed, or stored.
    /// 2. If there is none, find a session by the name that another owner chose: loaded or followed.
    pub(in super::super) async fn locate(&self, named: SessionId<'_>) -> Result<Located, Error> {
        let (id, naming) = (named.context(), named.naming());
        let ServedSessions::PerContext { sessions, .. } = &self.all.served else {
            let found = self.loaded_by_id(id).or_else(|| self.loaded_by_name(id, naming));
            return Ok(found.map_or(Located::None, Located::Here));
        };
        let found =
            FoundSession { loaded: self.loaded_by_id(id), followed: self.followed_by_id(id) };
        let located = self.locate_found(sessions, found, self.candidates(id)).await?;
        // The name of another owner's session must not hide a session of the principal's own that is only stored.
        if !matches!(located, Located::None) {
            return Ok(located);
        }
        let loaded = self.loaded_by_name(id, naming);
        let found = FoundSession { loaded, followed: self.followed_by_name(id, naming) };
        self.locate_found(sessions, found, Vec::new()).await
    }

    /// Locates a session that was found.
    ///
    /// 1. The loaded session is taken, unless its events are no longer stored from here.
    /// 2. The followed session is taken, if its owner still lives.
    /// 3. Otherwise the store is asked: for the session that was found, or else for the ids `candidates`.
    async fn locate_found(
        &self,
        sessions: &Sessions,
        found: FoundSession,
        candidates: Vec<String>,
    ) -> Result<Located, Error> {
        let FoundSession { loaded, followed } = found;
        // The registry also forgets such a session in a task of its own, but a client that was just told to ask again
        // may come before that task has run.
        let forgotten = loaded.as_ref().filter(|loaded| sessions.forget_abandoned(loaded));
        let forgotten = forgotten.map(|loaded| loaded.session().id().to_owned());
        if let Some(loaded) = loaded.filter(|_| forgotten.is_none()) {
            self.all.followed.remove(loaded.session().id());
            return Ok(Located::Here(loaded));
        }
        let candidates = match followed {
            Some(followed) if self.has_owner(&followed).await? => {
                return Ok(Located::Elsewhere(followed));
            }
            Some(followed) => vec![followed.session_id().to_owned()],
            // A principal who does not own the session may use the owner's name for it. The store resolves such a name
            // only for the owner, so the session's own id is used, which was known until the session was unloaded.
            None => forgotten.map_or(candidates, |id| vec![id]),
        };
        self.locate_stored(sessions, candidates).await
    }

    /// Locates the first session of these ids that the store has and that the principal may see.
    async fn locate_stored(
        &self,
        sessions: &Sessions,
        candidates: Vec<String>,
    ) -> Result<Located, Error> {
        for (n, id) in candidates.into_iter().enumerate() {
            match self.place_once_stored(sessions, &id).await {
                Ok(StoredPlace::Visible) => return Ok(Located::Stored(id)),
                // Without this error, a second session would begin under this id, and could not be stored.
                Ok(StoredPlace::Unserved(head)) => {
                    return Ok(Located::Unusable(works_elsewhere(&head)));
                }
                Err(error) if is_unavailable(&error) => return Err(self.store_error(&error)),
                // The first candidate is the session that the principal could own, so the principal may know why it
                // cannot be read.
                Err(error) if n == 0 => return Ok(Located::Unusable(self.store_error(&error))),
                Ok(StoredPlace::Hidden | StoredPlace::Missing) | Err(_) => {}
            }
        }
        Ok(Located::None)
    }

    /// Returns the place of a session in the store. If the store does not have a session that is being unloaded, waits
    /// until the session is stored.
    async fn place_once_stored(
        &self,
        sessions: &Sessions,
        id: &str,
    ) -> Result<StoredPlace, StoreError> {
        // The registry is asked before the store: a session may be stored, and no longer unloading, at any moment.
        let is_unloading = sessions.is_unloading(id);
        let place = self.place(sessions, id).await?;
        // Only this case waits: a store that is unavailable has failed by now, and nobody waits for a session that the
        // store hides from the principal.
        if !(is_unloading && matches!(place, StoredPlace::Missing)) {
            return Ok(place);
        }
        sessions.wait_unloaded(id).await;
        self.place(sessions, id).await
    }

    /// Returns the place of a session in the store.
    pub(super) async fn place(
        &self,
        sessions: &Sessions,
        id: &str,
    ) -> Result<StoredPlace, StoreError> {
        Ok(match sessions.head(id).await? {
            None => StoredPlace::Missing,
            Some(head) if self.sees_stored(&head).await? => StoredPlace::Visible,
            Some(head) if self.works_elsewhere(&head) => StoredPlace::Unserved(Box::new(head)),
            Some(_) => StoredPlace::Hidden,
        })
    }

    /// Loads a stored session that was located, or follows the session if another node owns it.
    pub(in super::super) async fn load(&self, id: &str) -> Result<Located, Error> {
        let Some(sessions) = self.all.sessions() else { return Ok(Located::None) };
        let prepare = |session: &Session| self.all.prepare(session);
        Ok(match sessions.load(id, Vec::new(), prepare).await {
            Ok(Some(loaded)) => {
                self.all.followed.remove(loaded.session().id());
                if self.sees(&loaded) { Located::Here(loaded) } else { Located::None }
            }
            Ok(None) => Located::None,
            Err(error) => {
                let context = self.follow(sessions, &stored_id(id), error).await?;
                let is_seen = context.is_open_to(self.principal);
                if is_seen { Located::Elsewhere(context) } else { Located::None }
            }
        })
    }

    /// Returns `true` if another living node owns a followed session.
    async fn has_owner(&self, followed: &SessionContext) -> Result<bool, Error> {
        let Some(store) = self.all.shared_store().and_then(|store| store.shared()) else {
            return Ok(false);
        };
        let unowned = if_available(store.unowned_by_others(&[followed.session_id()]).await);
        let unowned = unowned.map_err(|error| self.store_error(&error))?;
        Ok(!followed.has_moved() && unowned.is_some_and(|unowned| unowned.is_empty()))
    }

    /// Starts to follow a session that could not be loaded because another node owns it. Fails with `error` if
    /// `error` has another cause.
    async fn follow(
        &self,
        sessions: &Sessions,
        id: &str,
        error: LoadError,
    ) -> Result<Leased<SessionContext>, Error> {
        let (LoadError::Store(StoreError::Held(..)), Some(store)) =
            (&error, self.all.shared_store())
        else {
            return Err(self.unloadable(error));
        };
        let followed = self.all.followed.follow(store, id, sessions.limits()).await;
        let followed = followed.map_err(|error| self.unloadable(error))?;
        followed.ok_or_else(|| self.unloadable(error))
    }

    /// Returns the error for a stored session that cannot be loaded.
    fn unloadable(&self, error: LoadError) -> Error {
        match error {
            LoadError::Create(error) => refused(error),
            LoadError::Store(error) => self.store_error(&error),
        }
    }

    /// Returns the loaded session of the ids that lead from `id` to a session for this principal.
    pub(super) fn loaded_by_id(&self, id: &str) -> Option<Leased<LoadedSession>> {
        let registry = self.all.registry();
        let found = self.candidates(id).iter().find_map(|id| registry.find_loaded(id));
        found?.lease().filter(|found| self.sees(found))
    }

    /// Returns the loaded session that another owner calls `id`.
    fn loaded_by_name(&self, id: &str, naming: Naming) -> Option<Leased<LoadedSession>> {
        let is_meant = |loaded: &Arc<LoadedSession>| {
            let session = loaded.session();
            session.with_access(|access| self.may_name(access, naming))
                && session.context_name().as_deref() == Some(id)
        };
        // The name is not unique among owners. If it fits more than one session, no session is found.
        let mut named = self.all.registry().loaded().into_iter().filter(is_meant);
        let first = named.next()?;
        if named.next().is_some() { None } else { first.lease() }
    }

    /// Returns `true` if the principal may name a session of this access by the context id that its owner
    /// chose, which the session's events contain.
    fn may_name(&self, access: &SessionAccess, naming: Naming) -> bool {
        access.owner.is_some()
            && match self.principal.right(access) {
                Some(SessionRight::Shared(_)) => true,
                Some(SessionRight::Own) => naming == Naming::Any,
                None => false,
            }
    }

    /// Returns the followed session of the ids that lead from `id` to a session for this principal.
    fn followed_by_id(&self, id: &str) -> Option<Leased<SessionContext>> {
        let candidates = self.candidates(id);
        self.all.followed.find(|followed| {
            let followed = |id: &String| followed.get(&stored_id(id)).filter(|it| !it.has_moved());
            candidates.iter().find_map(followed).filter(|found| found.is_open_to(self.principal))
        })
    }

    /// Returns the followed session that another owner calls `id`.
    fn followed_by_name(&self, id: &str, naming: Naming) -> Option<Leased<SessionContext>> {
        self.all.followed.find(|followed| {
            let mut named = followed.values().filter(|context| {
                !context.has_moved()
                    && context.with_access(|access| self.may_name(access, naming))
                    && context.context_name().as_deref() == Some(id)
            });
            let first = named.next()?;
            named.next().is_none().then_some(first)
        })
    }

    /// Returns the session of the ids that lead from `id` to a session for this principal, if the session is loaded or
    /// followed.
    pub(super) fn known_by_id(&self, id: &str) -> Option<Leased<SessionContext>> {
        let loaded = self.loaded_by_id(id).map(|loaded| SessionContext::leased(&loaded));
        loaded.or_else(|| self.followed_by_id(id))
    }
}

/// A task whose session was located.
pub(in super::super) struct LocatedTask {
    pub(in super::super) context: Leased<SessionContext>,
    /// The turn; `None` for the session's task (0.3).
    pub(in super::super) turn: Option<TurnId>,
}

/// Returns the task `id` of the session that was located by this id. Fails if no session was found, or if it has no
/// such task.
pub(in super::super) fn task(
    located: Option<Leased<SessionContext>>,
    id: &str,
) -> Result<LocatedTask, Error> {
    let not_found = || error::task_not_found(id);
    let context = located.ok_or_else(not_found)?;
    let Some((_, turn)) = id.rsplit_once('.') else {
        return Ok(LocatedTask { context, turn: None });
    };
    let turn = TurnId(turn.parse().map_err(|_| not_found())?);
    if context.records(|records| records.turn(turn).is_none()) {
        return Err(not_found());
    }
    Ok(LocatedTask { context, turn: Some(turn) })
}

/// Returns the error for a session whose directory this server does not serve.
fn works_elsewhere(head: &Head) -> Error {
    let (place, flag) = match &head.git {
        Some(origin) => (format!("a clone of `{origin}`"), "--workspace-git"),
        None => (format!("`{}`", head.directory.display()), "--workspace-root"),
    };
    let message = format!(
        "the session works in {place}, which this server does not serve: ask a server that does, or start this one \
         with `{flag}`"
    );
    Error::new(error::UNSUPPORTED_OPERATION, message)
}
