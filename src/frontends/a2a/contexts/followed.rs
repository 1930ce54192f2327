//! Sessions that other nodes have, and that clients of this one have asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::context::SessionContext;
use tandem_agent::KeyedMutex;
use tandem_agent::session::{FollowedSession, Store};
use tandem_agent::sessions::{CreateError, LoadError, SessionLimits};

/// The followed sessions.
#[derive(Default)]
pub(super) struct FollowedContexts {
    /// By the store's ids.
    by_id: Mutex<HashMap<String, Arc<SessionContext>>>,
    /// Held while the one of that id is begun to be followed, so that two requests for it get the same.
    opening: KeyedMutex,
}

impl FollowedContexts {
    /// Follows a session that another node has, from now on; `None` if the store has no such session.
    pub(super) async fn follow(
        &self,
        store: &Arc<dyn Store>,
        id: &str,
        limits: SessionLimits,
    ) -> Result<Option<Arc<SessionContext>>, LoadError> {
        let _opening = self.opening.lock(id).await;
        let known = self.by_id.lock().get(id).filter(|context| !context.has_moved()).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let followed = FollowedSession::open(store, id, limits.log_bytes).await;
        let Some(followed) = followed.map_err(LoadError::Store)? else { return Ok(None) };
        let context = SessionContext::elsewhere(followed);
        let most = limits.loaded;
        if self.by_id.lock().len() >= most {
            self.leave_unused(Duration::ZERO);
        }
        let mut by_id = self.by_id.lock();
        if by_id.len() >= most {
            return Err(LoadError::Create(CreateError::Full(most)));
        }
        by_id.insert(id.to_owned(), Arc::clone(&context));
        Ok(Some(context))
    }

    /// Follows a session no longer.
    pub(super) fn remove(&self, id: &str) {
        self.by_id.lock().remove(id);
    }

    /// Looks at all sessions, by the store's ids. They are not shared meanwhile: who else holds one decides
    /// whether it is used.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&HashMap<String, Arc<SessionContext>>) -> T,
    ) -> T {
        look(&self.by_id.lock())
    }

    /// Follows the sessions no longer that nobody has used for some time.
    pub(super) fn leave_unused(&self, idle: Duration) {
        let is_used = |context: &Arc<SessionContext>| {
            // One holder is the list itself.
            !context.has_moved()
                && (Arc::strong_count(context) > 1 || context.used_at().elapsed() < idle)
        };
        self.by_id.lock().retain(|_, context| is_used(context));
    }

    /// Returns the ids of those whose owners are to carry out orders of this node.
    pub(super) fn asking(&self) -> Vec<String> {
        let by_id = self.by_id.lock();
        let sessions = by_id.values().filter_map(|context| context.followed());
        let asking = sessions.filter(|session| session.is_asking());
        asking.map(|session| session.id().to_owned()).collect()
    }
}
