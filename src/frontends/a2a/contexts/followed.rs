//! Followed sessions: sessions that another node owns, and that clients of this node have asked
//! for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::context::SessionContext;
use tandem_agent::KeyedMutex;
use tandem_agent::session::{FollowedSession, Store};
use tandem_agent::sessions::{CreateError, Leased, LoadError, SessionLimits};

/// The sessions that this node follows.
#[derive(Default)]
pub(super) struct FollowedContexts {
    /// The followed sessions, by their ids in the store.
    by_id: Mutex<HashMap<String, Arc<SessionContext>>>,
    /// Lock of each id while this node starts to follow its session, so that two requests get the
    /// same context.
    opening: KeyedMutex,
}

impl FollowedContexts {
    /// Starts to follow a session that another node owns, unless it is followed already. Returns
    /// `None` if the store has no session of this id.
    pub(super) async fn follow(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        limits: SessionLimits,
    ) -> Result<Option<Leased<SessionContext>>, LoadError> {
        let _opening = self.opening.lock(id).await;
        let known = self.find(|by_id| by_id.get(id).filter(|context| !context.has_moved()));
        if known.is_some() {
            return Ok(known);
        }
        let followed = FollowedSession::open(store, id, limits.log_bytes).await;
        let Some(followed) = followed.map_err(LoadError::Store)? else { return Ok(None) };
        let context = SessionContext::elsewhere(followed);
        let most = limits.loaded;
        // Followed sessions count against the same limit as loaded ones; unused ones make room
        // first.
        if self.by_id.lock().len() >= most {
            self.leave_unused(Duration::ZERO);
        }
        let mut by_id = self.by_id.lock();
        if by_id.len() >= most {
            return Err(LoadError::Create(CreateError::Full(most)));
        }
        by_id.insert(id.to_owned(), Arc::clone(&*context));
        Ok(Some(context))
    }

    /// Stops following a session that this node has loaded. Holders of the followed context can still lease it, but
    /// it is not found any more.
    pub(super) fn remove(&self, id: &str) {
        self.by_id.lock().remove(id);
    }

    /// Returns the session that `find` selects from the followed sessions, by their ids in the store.
    pub(super) fn find(
        &self,
        find: impl FnOnce(&HashMap<String, Arc<SessionContext>>) -> Option<&Arc<SessionContext>>,
    ) -> Option<Leased<SessionContext>> {
        find(&self.by_id.lock()).and_then(SessionContext::lease)
    }

    /// Stops following the sessions that have moved, and those that no client has used for the time
    /// `idle`.
    pub(super) fn leave_unused(&self, idle: Duration) {
        let is_used =
            |context: &Arc<SessionContext>| !context.has_moved() && !context.close_unused(idle);
        self.by_id.lock().retain(|_, context| is_used(context));
    }

    /// Returns the ids of the followed sessions whose owners still have orders of this node to
    /// carry out.
    pub(super) fn asking(&self) -> Vec<String> {
        let by_id = self.by_id.lock();
        let sessions = by_id.values().filter_map(|context| context.followed());
        let asking = sessions.filter(|session| session.is_asking());
        asking.map(|session| session.id().to_owned()).collect()
    }
}
