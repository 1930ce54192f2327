//! One editor, and the sessions that it has opened.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::answer::not_found;
use super::client::{ClientKind, SessionClient};
use crate::Connection;
use tandem_agent::session::Session;
use tandem_agent::sessions::LoadedSession;
use tandem_wire::jsonrpc::Error;

/// One editor.
pub(crate) struct Editor {
    pub(super) connection: Connection,
    pub(super) client: Mutex<ClientKind>,
    pub(super) opened: OpenedSessions,
}

/// The sessions that an editor has opened and not closed, by their ids.
pub(super) type OpenedSessions = Arc<Mutex<HashMap<String, Arc<OpenedSession>>>>;

/// A session that the editor has opened. It stays loaded as long as this lives.
pub(super) struct OpenedSession {
    pub(super) loaded: Arc<LoadedSession>,
    pub(super) client: Arc<SessionClient>,
    pub(super) _view: AbortOnDropHandle<()>,
}

impl OpenedSession {
    pub(super) fn session(&self) -> &Arc<Session> {
        self.loaded.session()
    }
}

impl Editor {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, client: Mutex::default(), opened: Arc::default() }
    }

    /// Returns the session of this id, which the editor must have opened.
    pub(super) fn opened(&self, id: &str) -> Result<Arc<OpenedSession>, Error> {
        self.opened.lock().get(id).cloned().ok_or_else(|| not_found(id))
    }
}
